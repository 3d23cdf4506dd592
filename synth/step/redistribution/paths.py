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

from grammar.tensors.sharding import ReductionKind, Sharding, Type, check_type, shardings
from hierarchies import InputError
from synth.search.best_first import PathGraph, join_vertices
from synth.step.redistribution.flat import flat_paths, price_path
from synth.step.redistribution.moves import RedistributionPath, ShardingMove
from synth.step.redistribution.rules import list_moves

MoveFilter = Callable[[ShardingMove], bool]
Room = tuple[int, ...]
_ValueKey = tuple[Room, frozenset[ReductionKind]]
"""Of a value only what of each dimension's size axes could divide, and its partial kinds."""

MOST_TIED = 16
_REQUESTS = 64
"""Prices count requests below bytes: no path has as many."""


class CostPriority(Enum):
    """What counts before the other: bytes, or requests, of which each costs latency."""

    BYTES = "bytes"
    REQUESTS = "requests"


def allow_all(move: ShardingMove) -> bool:
    """The moves that may be taken, if nobody says otherwise."""
    return True


def find_path(
    value: Type,
    source: Sharding,
    target: Sharding,
    sizes: Mapping[str, int],
    allowed: MoveFilter = allow_all,
) -> RedistributionPath:
    """The cheapest path of moves from one sharding of a value to another, over axes of such sizes.

    ``allowed`` may rule moves out, as a runtime without point to point would. No value on the way
    lies in a way that its shape does not divide into. Raises InputError for shardings that do not
    fit the value or the axes, for partial values of several kinds at once (which is put together
    first is not said), and where the moves that are allowed do not lead there.
    """
    if source.flat or target.flat:
        return _find_flat_paths(
            value, source, target, tuple(sizes.items()), (allowed, CostPriority.BYTES)
        )[0]
    of_value = _value_key(value, source, target, sizes)
    found = _search_towards(target, tuple(sizes.items()), of_value, allowed).get(source)
    if found is None:
        raise _unreachable_error(value, source, target)
    return found


def find_paths(
    value: Type,
    source: Sharding,
    target: Sharding,
    sizes: Mapping[str, int],
    allowed: MoveFilter = allow_all,
    first: CostPriority = CostPriority.BYTES,
) -> tuple[RedistributionPath, ...]:
    """All paths of the least price, up to ``MOST_TIED``: bytes count first, or requests do.

    Which of them is fastest only a machine can tell. Raises InputError as ``find_path`` does.
    """
    if source.flat or target.flat:
        return _find_flat_paths(value, source, target, tuple(sizes.items()), (allowed, first))
    of_value = _value_key(value, source, target, sizes)
    found = _find_cheapest(source, target, tuple(sizes.items()), of_value, (allowed, first))
    if not found:
        raise _unreachable_error(value, source, target)
    return found


@lru_cache(maxsize=2**14)
def _find_flat_paths(
    value: Type,
    source: Sharding,
    target: Sharding,
    axes: tuple[tuple[str, int], ...],
    rules: tuple[MoveFilter, CostPriority],
) -> tuple[RedistributionPath, ...]:
    """The same where one of them is flat. Raises InputError likewise."""
    (allowed, first), sizes = rules, dict(axes)
    _value_key(value, source, target, sizes)
    if source == target:
        return (RedistributionPath(source, target, ()),)

    def between(before: Sharding, after: Sharding) -> tuple[RedistributionPath, ...]:
        of_value = _value_key(value, before, after, sizes)
        return _find_cheapest(before, after, axes, of_value, rules)

    found: dict[tuple[float, ...], list[RedistributionPath]] = {}
    for path in flat_paths(value, source, target, between):
        if all(map(allowed, path.moves)):
            sent_bytes, requests, moves = price_path(path, value, sizes)
            both = (sent_bytes, requests) if first is CostPriority.BYTES else (requests, sent_bytes)
            found.setdefault((*both, moves), []).append(path)
    if not found:
        raise _unreachable_error(value, source, target)
    tied = sorted(found[min(found)], key=lambda path: [*map(str, path.moves)])
    return tuple(tied[:MOST_TIED])


def _value_key(
    value: Type, source: Sharding, target: Sharding, sizes: Mapping[str, int]
) -> _ValueKey:
    """What a path depends on of a value. Raises InputError for shardings that do not fit it."""
    axes = tuple(sizes.items())
    for role, sharding in (("source", source), ("target", target)):
        _check(value, sharding, axes, f"{role} of a redistribution")
    every = prod(sizes.values())
    room = tuple(gcd(size, every) for size in value.shape)
    summed = () if value.dtype in ("bool", "key") else (ReductionKind.SUM,)
    return room, frozenset((*summed, *(kind for kind, _ in (*source.partial, *target.partial))))


@lru_cache(maxsize=2**14)
def _check(value: Type, sharding: Sharding, axes: tuple[tuple[str, int], ...], where: str) -> None:
    """Who chooses asks for every pair of ways to lie."""
    check_type(value, sharding, dict(axes), where=where)
    check_one_kind(value, sharding, where)


def _unreachable_error(value: Type, source: Sharding, target: Sharding) -> InputError:
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
def _find_cheapest(
    source: Sharding,
    target: Sharding,
    axes: tuple[tuple[str, int], ...],
    of_value: _ValueKey,
    rules: tuple[MoveFilter, CostPriority],
) -> tuple[RedistributionPath, ...]:
    allowed, first = rules
    graph = _build_graph(axes, len(of_value[0]), of_value[1], allowed)
    moves = _filter_fitting(graph, axes, of_value[0])
    best = moves.between(source, target).cheapest(graph.prices[first], graph.ranks)
    found: list[RedistributionPath] = []
    least = None
    for one in islice(best, MOST_TIED):
        least = one.price if least is None else least
        if one.price > least:
            break
        found.append(_path(source, target, moves, one.labels))
    return tuple(found)


@lru_cache(maxsize=2**11)
def _search_towards(
    target: Sharding, axes: tuple[tuple[str, int], ...], of_value: _ValueKey, allowed: MoveFilter
) -> Mapping[Sharding, RedistributionPath]:
    """From every sharding the first of the cheapest paths: of many sources one walk is enough."""
    graph = _build_graph(axes, len(of_value[0]), of_value[1], allowed)
    moves = _filter_fitting(graph, axes, of_value[0])
    return {
        source: _path(source, target, moves, one.labels)
        for source, one in moves.towards(
            target, graph.prices[CostPriority.BYTES], graph.ranks
        ).items()
    }


def _path(
    source: Sharding,
    target: Sharding,
    moves: PathGraph[Sharding, ShardingMove],
    labels: Sequence[int],
) -> RedistributionPath:
    return RedistributionPath(source, target, tuple(map(moves.alphabet.__getitem__, labels)))


@dataclass(frozen=True, eq=False)
class _Edge:
    """A move, what it sends, and how it is spelled, which decides between equal prices.

    ``price_path`` is in units of which the whole value has ``whole``.
    """

    move: ShardingMove
    sent: int
    whole: int
    spelled: tuple[str, str]

    def price(self, first: CostPriority) -> int:
        """In whole numbers, as sums then do not depend on their order."""
        if first is CostPriority.BYTES:
            return self.sent * _REQUESTS + bool(self.sent)
        return bool(self.sent) * 4 * _REQUESTS * self.whole + self.sent


@dataclass(frozen=True, eq=False)
class _MoveGraph:
    """All moves between the types of some rank, the prices of each, and its rank among equals."""

    moves: PathGraph[Sharding, ShardingMove]
    prices: Mapping[CostPriority, tuple[int, ...]]
    ranks: tuple[int, ...]


@lru_cache(maxsize=2**7)
def _build_graph(
    axes: tuple[tuple[str, int], ...],
    rank: int,
    kinds: frozenset[ReductionKind],
    allowed: MoveFilter,
) -> _MoveGraph:
    """Made once for all pairs of types, and all values of this rank."""
    sizes = dict(axes)
    whole = prod(sizes.values()) ** 2

    def following(before: Sharding) -> Iterator[tuple[_Edge, Sharding]]:
        for move in filter(allowed, list_moves(before, sizes, kinds)):
            spelled = str(move), move.after.spelled()
            yield _Edge(move, _move_bytes(move, sizes, whole), whole, spelled), move.after

    in_order = sorted(kinds, key=lambda one: one.value)
    every = [one for one in shardings(rank, tuple(sizes), in_order) if _is_of_one_kind(one)]
    found = join_vertices(every, following, max_moves=_most_moves(len(axes)))
    spelled = sorted(found.alphabet, key=lambda edge: edge.spelled)
    place = {edge: number for number, edge in enumerate(spelled)}
    return _MoveGraph(
        _strip_edges(found),
        {first: tuple(edge.price(first) for edge in found.alphabet) for first in CostPriority},
        tuple(place[edge] for edge in found.alphabet),
    )


def _strip_edges(found: PathGraph[Sharding, _Edge]) -> PathGraph[Sharding, ShardingMove]:
    """The moves alone, between the very shardings that are its vertices: graphs are kept."""
    moves = [edge.move for edge in found.alphabet]
    for label, target in zip(found.labels.tolist(), found.targets.tolist(), strict=True):
        moves[label] = replace(moves[label], after=found.vertices[target])
    return PathGraph(
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
def _filter_fitting(
    graph: _MoveGraph, axes: tuple[tuple[str, int], ...], room: Room
) -> PathGraph[Sharding, ShardingMove]:
    """The moves between types that divide a value."""
    sizes = dict(axes)
    return graph.moves.among(lambda one: _divides(one, sizes, room))


def _move_bytes(move: ShardingMove, sizes: Mapping[str, int], whole: int) -> int:
    """Shares of bytes have denominators that divide the square of all devices."""
    found = move.least(sizes) * whole
    assert found.denominator == 1, "parts and groups multiply to no more than that"
    return found.numerator


def _most_moves(axes: int) -> int:
    """No cheapest path needs more: free every axis at once a dimension, then cut axis by axis."""
    return 2 * axes + 3


def _divides(sharding: Sharding, sizes: Mapping[str, int], room: Room) -> bool:
    return not any(size % parts for size, parts in zip(room, sharding.parts(sizes), strict=True))
