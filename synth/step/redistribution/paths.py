"""The cheapest way to make a value lie otherwise: a shortest path over shardings.

There is one price: the bytes that one device must send or receive at least, then the number of
requests, then the number of moves. All axes that are given may be used, also those along which the
value is replicated before and after: over ``data=3`` an all-reduce is cheaper where each of two
replicas along ``model=2`` reduces a half and gathers the other.

The price is a share of the value's bytes, so a path depends on neither the element type nor, as
long as the same axes divide it, on the shape: what was found once is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import islice
from math import gcd, prod

from grammar.tensors.sharding import Kind, Sharding, Type, check_type, shardings
from hierarchies import InputError
from synth.search.best_first import Explored, joined
from synth.step.redistribution.flat import flat_paths, sent
from synth.step.redistribution.moves import Move, Path
from synth.step.redistribution.rules import moves

Allowed = Callable[[Move], bool]
Room = tuple[int, ...]
_Of = tuple[Room, frozenset[Kind]]
"""Of a value only what of each dimension's size axes could divide, and its partial kinds."""

MOST_TIED = 16
_REQUESTS = 64
"""Prices count requests below bytes: no path has as many."""


class First(Enum):
    """What counts before the other: bytes, or requests, of which each costs latency."""

    BYTES = "bytes"
    REQUESTS = "requests"


def every_move(move: Move) -> bool:
    """The moves that may be taken, if nobody says otherwise."""
    return True


def path_between(
    value: Type,
    source: Sharding,
    target: Sharding,
    sizes: Mapping[str, int],
    allowed: Allowed = every_move,
) -> Path:
    """The cheapest path of moves from one sharding of a value to another, over axes of such sizes.

    ``allowed`` may rule moves out, as a runtime without point to point would. No value on the way
    lies in a way that its shape does not divide into. Raises InputError for shardings that do not
    fit the value or the axes, for partial values of several kinds at once (which is put together
    first is not said), and where the moves that are allowed do not lead there.
    """
    if source.flat or target.flat:
        return _flat(value, source, target, tuple(sizes.items()), (allowed, First.BYTES))[0]
    of_value = _of_value(value, source, target, sizes)
    found = _towards(target, tuple(sizes.items()), of_value, allowed).get(source)
    if found is None:
        raise _unreachable(value, source, target)
    return found


def paths_between(
    value: Type,
    source: Sharding,
    target: Sharding,
    sizes: Mapping[str, int],
    allowed: Allowed = every_move,
    first: First = First.BYTES,
) -> tuple[Path, ...]:
    """All paths of the least price, up to ``MOST_TIED``: bytes count first, or requests do.

    Which of them is fastest only a machine can tell. Raises InputError as ``path_between`` does.
    """
    if source.flat or target.flat:
        return _flat(value, source, target, tuple(sizes.items()), (allowed, first))
    of_value = _of_value(value, source, target, sizes)
    found = _cheapest(source, target, tuple(sizes.items()), of_value, (allowed, first))
    if not found:
        raise _unreachable(value, source, target)
    return found


@lru_cache(maxsize=2**14)
def _flat(
    value: Type,
    source: Sharding,
    target: Sharding,
    axes: tuple[tuple[str, int], ...],
    rules: tuple[Allowed, First],
) -> tuple[Path, ...]:
    """The same where one of them is flat. Raises InputError likewise."""
    (allowed, first), sizes = rules, dict(axes)
    _of_value(value, source, target, sizes)
    if source == target:
        return (Path(source, target, ()),)

    def between(before: Sharding, after: Sharding) -> tuple[Path, ...]:
        of_value = _of_value(value, before, after, sizes)
        return _cheapest(before, after, axes, of_value, rules)

    found: dict[tuple[float, ...], list[Path]] = {}
    for path in flat_paths(value, source, target, between):
        if all(map(allowed, path.moves)):
            sent_bytes, requests, moves = sent(path, value, sizes)
            both = (sent_bytes, requests) if first is First.BYTES else (requests, sent_bytes)
            found.setdefault((*both, moves), []).append(path)
    if not found:
        raise _unreachable(value, source, target)
    tied = sorted(found[min(found)], key=lambda path: [*map(str, path.moves)])
    return tuple(tied[:MOST_TIED])


def _of_value(value: Type, source: Sharding, target: Sharding, sizes: Mapping[str, int]) -> _Of:
    """What a path depends on of a value. Raises InputError for shardings that do not fit it."""
    axes = tuple(sizes.items())
    for role, sharding in (("source", source), ("target", target)):
        _check(value, sharding, axes, f"{role} of a redistribution")
    every = prod(sizes.values())
    room = tuple(gcd(size, every) for size in value.shape)
    summed = () if value.dtype in ("bool", "key") else (Kind.SUM,)
    return room, frozenset((*summed, *(kind for kind, _ in (*source.partial, *target.partial))))


@lru_cache(maxsize=2**14)
def _check(value: Type, sharding: Sharding, axes: tuple[tuple[str, int], ...], where: str) -> None:
    """Who chooses asks for every pair of ways to lie."""
    check_type(value, sharding, dict(axes), where=where)
    check_one_kind(value, sharding, where)


def _unreachable(value: Type, source: Sharding, target: Sharding) -> InputError:
    return InputError(
        f"no allowed moves lead from {value.sharded(source)} to {value.sharded(target)}",
        hint="allow all-gather and all-reduce: with these every sharding can be reached",
    )


def check_one_kind(value: Type, sharding: Sharding, where: str) -> None:
    """Refuse sums along one axis with maxima along another. Raises InputError."""
    if not _is_of_one_kind(sharding):
        kinds = sorted({kind.value for kind, _ in sharding.partial})
        raise InputError(
            f"{value.sharded(sharding)} is partial in {len(kinds)} ways: {', '.join(kinds)}",
            where=where,
            hint="the maximum of sums is not the sum of maxima: redistribute one of them first",
        )


def _is_of_one_kind(sharding: Sharding) -> bool:
    return len({kind for kind, _ in sharding.partial}) <= 1


@lru_cache(maxsize=2**14)
def _cheapest(
    source: Sharding,
    target: Sharding,
    axes: tuple[tuple[str, int], ...],
    of_value: _Of,
    rules: tuple[Allowed, First],
) -> tuple[Path, ...]:
    allowed, first = rules
    graph = _graph(axes, len(of_value[0]), of_value[1], allowed)
    moves = _fitting(graph, axes, of_value[0])
    best = moves.between(source, target).cheapest(graph.prices[first], graph.ranks)
    found: list[Path] = []
    least = None
    for one in islice(best, MOST_TIED):
        least = one.price if least is None else least
        if one.price > least:
            break
        found.append(_path(source, target, moves, one.labels))
    return tuple(found)


@lru_cache(maxsize=2**11)
def _towards(
    target: Sharding, axes: tuple[tuple[str, int], ...], of_value: _Of, allowed: Allowed
) -> Mapping[Sharding, Path]:
    """From every sharding the first of the cheapest paths: of many sources one walk is enough."""
    graph = _graph(axes, len(of_value[0]), of_value[1], allowed)
    moves = _fitting(graph, axes, of_value[0])
    return {
        source: _path(source, target, moves, one.labels)
        for source, one in moves.towards(target, graph.prices[First.BYTES], graph.ranks).items()
    }


def _path(
    source: Sharding, target: Sharding, moves: Explored[Sharding, Move], labels: Sequence[int]
) -> Path:
    return Path(source, target, tuple(map(moves.alphabet.__getitem__, labels)))


@dataclass(frozen=True, eq=False)
class _Edge:
    """A move, what it sends, and how it is spelled, which decides between equal prices.

    ``sent`` is in units of which the whole value has ``whole``.
    """

    move: Move
    sent: int
    whole: int
    spelled: tuple[str, str]

    def price(self, first: First) -> int:
        """In whole numbers, as sums then do not depend on their order."""
        if first is First.BYTES:
            return self.sent * _REQUESTS + bool(self.sent)
        return bool(self.sent) * 4 * _REQUESTS * self.whole + self.sent


@dataclass(frozen=True, eq=False)
class _Graph:
    """All moves between the types of some rank, the prices of each, and its rank among equals."""

    moves: Explored[Sharding, Move]
    prices: Mapping[First, tuple[int, ...]]
    ranks: tuple[int, ...]


@lru_cache(maxsize=2**7)
def _graph(
    axes: tuple[tuple[str, int], ...],
    rank: int,
    kinds: frozenset[Kind],
    allowed: Allowed,
) -> _Graph:
    """Made once for all pairs of types, and all values of this rank."""
    sizes = dict(axes)
    whole = prod(sizes.values()) ** 2

    def following(before: Sharding) -> Iterator[tuple[_Edge, Sharding]]:
        for move in filter(allowed, moves(before, sizes, kinds)):
            spelled = str(move), move.after.spelled()
            yield _Edge(move, _sent(move, sizes, whole), whole, spelled), move.after

    in_order = sorted(kinds, key=lambda one: one.value)
    every = [one for one in shardings(rank, tuple(sizes), in_order) if _is_of_one_kind(one)]
    found = joined(every, following, max_moves=_most_moves(len(axes)))
    spelled = sorted(found.alphabet, key=lambda edge: edge.spelled)
    place = {edge: number for number, edge in enumerate(spelled)}
    return _Graph(
        _bare(found),
        {first: tuple(edge.price(first) for edge in found.alphabet) for first in First},
        tuple(place[edge] for edge in found.alphabet),
    )


def _bare(found: Explored[Sharding, _Edge]) -> Explored[Sharding, Move]:
    """The moves alone, between the very shardings that are its vertices: graphs are kept."""
    moves = [edge.move for edge in found.alphabet]
    for label, target in zip(found.labels.tolist(), found.targets.tolist(), strict=True):
        moves[label] = replace(moves[label], after=found.vertices[target])
    return Explored(
        found.vertices,
        tuple(moves),
        found.sources,
        found.targets,
        found.labels,
        found.goals,
        found.max_moves,
        found.complete,
    )


@lru_cache(maxsize=2**10)
def _fitting(
    graph: _Graph, axes: tuple[tuple[str, int], ...], room: Room
) -> Explored[Sharding, Move]:
    """The moves between types that divide a value."""
    sizes = dict(axes)
    return graph.moves.among(lambda one: _divides(one, sizes, room))


def _sent(move: Move, sizes: Mapping[str, int], whole: int) -> int:
    """Shares of bytes have denominators that divide the square of all devices."""
    found = move.least(sizes) * whole
    assert found.denominator == 1, "parts and groups multiply to no more than that"
    return found.numerator


def _most_moves(axes: int) -> int:
    """No cheapest path needs more: free every axis at once a dimension, then cut axis by axis."""
    return 2 * axes + 3


def _divides(sharding: Sharding, sizes: Mapping[str, int], room: Room) -> bool:
    return not any(size % parts for size, parts in zip(room, sharding.parts(sizes), strict=True))
