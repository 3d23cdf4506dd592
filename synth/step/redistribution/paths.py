"""Finds the cheapest redistribution of a value: a shortest path over shardings.

The price is the least bytes that one device sends or receives, then the number of requests, then
the number of moves. A path may use all given axes, even axes along which the value is replicated
before and after: an all-reduce over ``data=3`` is cheaper if each of two replicas along ``model=2``
reduces one half and gathers the other.

The price is a share of the value's bytes. So a path depends neither on the element type, nor on the
shape as long as the same axes divide it, and results are cached without these.
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
"""For each dimension, the divisor of its size that axes can use; and the value's partial kinds."""

MOST_TIED = 16
_REQUESTS = 64
"""More requests than any path has, so that they count less than one unit of bytes."""


class CostPriority(Enum):
    """The quantity to minimise first: bytes, or requests, because each request has latency."""

    BYTES = "bytes"
    REQUESTS = "requests"


def allow_all(move: ShardingMove) -> bool:
    """The default filter, which allows every move."""
    return True


def find_path(
    value: Type,
    source: Sharding,
    target: Sharding,
    sizes: Mapping[str, int],
    allowed: MoveFilter = allow_all,
) -> RedistributionPath:
    """Returns the cheapest path of moves from one sharding of a value to another.

    ``allowed`` may exclude moves, for example for a runtime without point-to-point. Every sharding
    on the path divides the value's shape. Raises InputError for shardings that do not fit the value
    or the axes, for partial values of several kinds at once (whose order of reduction is
    undefined), and if the allowed moves do not reach the target.
    """
    if source.flat or target.flat:
        return _find_flat_paths(
            value, source, target, tuple(sizes.items()), (allowed, CostPriority.BYTES)
        )[0]
    of_value = _value_key(value, source, target, sizes)
    path = _search_towards(target, tuple(sizes.items()), of_value, allowed).get(source)
    if path is None:
        raise _unreachable_error(value, source, target)
    return path


def find_paths(
    value: Type,
    source: Sharding,
    target: Sharding,
    sizes: Mapping[str, int],
    allowed: MoveFilter = allow_all,
    first: CostPriority = CostPriority.BYTES,
) -> tuple[RedistributionPath, ...]:
    """Returns all paths of the least price, up to ``MOST_TIED``; ``first``: what to minimise first.

    Which of them is fastest depends on the machine. Raises InputError as ``find_path`` does.
    """
    if source.flat or target.flat:
        return _find_flat_paths(value, source, target, tuple(sizes.items()), (allowed, first))
    of_value = _value_key(value, source, target, sizes)
    paths = _find_cheapest(source, target, tuple(sizes.items()), of_value, (allowed, first))
    if not paths:
        raise _unreachable_error(value, source, target)
    return paths


@lru_cache(maxsize=2**14)
def _find_flat_paths(
    value: Type,
    source: Sharding,
    target: Sharding,
    axes: tuple[tuple[str, int], ...],
    rules: tuple[MoveFilter, CostPriority],
) -> tuple[RedistributionPath, ...]:
    """Returns the result of ``find_paths`` for a flat source or target."""
    (allowed, first), sizes = rules, dict(axes)
    _value_key(value, source, target, sizes)
    if source == target:
        return (RedistributionPath(source, target, ()),)

    def between(before: Sharding, after: Sharding) -> tuple[RedistributionPath, ...]:
        of_value = _value_key(value, before, after, sizes)
        return _find_cheapest(before, after, axes, of_value, rules)

    by_price: dict[tuple[float, ...], list[RedistributionPath]] = {}
    for path in flat_paths(value, source, target, between):
        if all(map(allowed, path.moves)):
            sent_bytes, requests, moves = price_path(path, value, sizes)
            price = (
                (sent_bytes, requests) if first is CostPriority.BYTES else (requests, sent_bytes)
            )
            by_price.setdefault((*price, moves), []).append(path)
    if not by_price:
        raise _unreachable_error(value, source, target)
    tied = sorted(by_price[min(by_price)], key=lambda path: [*map(str, path.moves)])
    return tuple(tied[:MOST_TIED])


def _value_key(
    value: Type, source: Sharding, target: Sharding, sizes: Mapping[str, int]
) -> _ValueKey:
    """Returns all properties of a value on which paths depend.

    Raises InputError for shardings that do not fit.
    """
    axes = tuple(sizes.items())
    for role, sharding in (("source", source), ("target", target)):
        _check(value, sharding, axes, f"{role} of a redistribution")
    devices = prod(sizes.values())
    room = tuple(gcd(size, devices) for size in value.shape)
    summed = () if value.dtype in ("bool", "key") else (ReductionKind.SUM,)
    return room, frozenset((*summed, *(kind for kind, _ in (*source.partial, *target.partial))))


@lru_cache(maxsize=2**14)
def _check(value: Type, sharding: Sharding, axes: tuple[tuple[str, int], ...], where: str) -> None:
    # Cached because searches check every pair of shardings.
    check_type(value, sharding, dict(axes), where=where)
    check_one_kind(value, sharding, where)


def _unreachable_error(value: Type, source: Sharding, target: Sharding) -> InputError:
    return InputError(
        f"no allowed moves lead from {value.sharded(source)} to {value.sharded(target)}",
        hint="allow all-gather and all-reduce: with these every sharding can be reached",
    )


def check_one_kind(value: Type, sharding: Sharding, where: str) -> None:
    """Raises InputError for a value with sums along one axis and maxima along another."""
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
    paths: list[RedistributionPath] = []
    least = None
    for candidate in islice(best, MOST_TIED):
        least = candidate.price if least is None else least
        if candidate.price > least:
            break
        paths.append(_path(source, target, moves, candidate.labels))
    return tuple(paths)


@lru_cache(maxsize=2**11)
def _search_towards(
    target: Sharding, axes: tuple[tuple[str, int], ...], of_value: _ValueKey, allowed: MoveFilter
) -> Mapping[Sharding, RedistributionPath]:
    """Returns the first of the cheapest paths from each sharding, in a single walk for all."""
    graph = _build_graph(axes, len(of_value[0]), of_value[1], allowed)
    moves = _filter_fitting(graph, axes, of_value[0])
    return {
        source: _path(source, target, moves, shortest.labels)
        for source, shortest in moves.towards(
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
    """A move, the share that it sends in units of 1 / ``whole``, and its spelling to break ties."""

    move: ShardingMove
    sent: int
    whole: int
    spelled: tuple[str, str]

    def price(self, first: CostPriority) -> int:
        # Integers, so that sums do not depend on the order of addition.
        if first is CostPriority.BYTES:
            return self.sent * _REQUESTS + bool(self.sent)
        return bool(self.sent) * 4 * _REQUESTS * self.whole + self.sent


@dataclass(frozen=True, eq=False)
class _MoveGraph:
    """All moves between shardings of one rank, their prices, and their order for breaking ties."""

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
    """Builds the graph once for all pairs of shardings and all values of this rank."""
    sizes = dict(axes)
    whole = prod(sizes.values()) ** 2
    in_order = sorted(kinds, key=lambda kind: kind.value)
    vertices = [end for end in shardings(rank, tuple(sizes), in_order) if _is_of_one_kind(end)]
    spellings = {end: end.spelled() for end in vertices}

    def following(before: Sharding) -> Iterator[tuple[_Edge, Sharding]]:
        for move in filter(allowed, list_moves(before, sizes, kinds)):
            spelled = str(move), spellings[move.after]
            yield _Edge(move, _move_bytes(move, sizes, whole), whole, spelled), move.after

    graph = join_vertices(vertices, following, max_moves=_most_moves(len(axes)))
    spelled = sorted(graph.alphabet, key=lambda edge: edge.spelled)
    place = {edge: number for number, edge in enumerate(spelled)}
    return _MoveGraph(
        _strip_edges(graph),
        {first: tuple(edge.price(first) for edge in graph.alphabet) for first in CostPriority},
        tuple(place[edge] for edge in graph.alphabet),
    )


def _strip_edges(graph: PathGraph[Sharding, _Edge]) -> PathGraph[Sharding, ShardingMove]:
    """Keeps only moves as labels, and shares their shardings with the vertices to save memory."""
    moves = [edge.move for edge in graph.alphabet]
    for label, target in zip(graph.labels.tolist(), graph.targets.tolist(), strict=True):
        moves[label] = replace(moves[label], after=graph.vertices[target])
    return PathGraph(
        graph.vertices,
        tuple(moves),
        graph.sources,
        graph.targets,
        graph.labels,
        graph.goals,
        graph.max_moves,
        graph.complete,
    )


@lru_cache(maxsize=2**10)
def _filter_fitting(
    graph: _MoveGraph, axes: tuple[tuple[str, int], ...], room: Room
) -> PathGraph[Sharding, ShardingMove]:
    """Keeps the moves between shardings that divide a value."""
    sizes = dict(axes)
    return graph.moves.among(lambda sharding: _divides(sharding, sizes, room))


def _move_bytes(move: ShardingMove, sizes: Mapping[str, int], whole: int) -> int:
    # The denominator of a share divides the square of the number of devices, which is ``whole``.
    sent = move.least(sizes) * whole
    assert sent.denominator == 1, "parts and groups multiply to no more than that"
    return sent.numerator


def _most_moves(axes: int) -> int:
    """Bounds the moves of a cheapest path: gather each dimension at once, then cut axis by axis."""
    return 2 * axes + 3


def _divides(sharding: Sharding, sizes: Mapping[str, int], room: Room) -> bool:
    return not any(size % parts for size, parts in zip(room, sharding.parts(sizes), strict=True))
