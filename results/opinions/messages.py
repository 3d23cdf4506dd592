"""Collectives as messages: who sends which part of the buffer to whom, after what.

Written for the second opinion from the algorithms' definitions; it knows nothing of prices, of
bytes on links or of recipes. Members stand at places 0, 1, ... of a grid of ``counts``, outermost
level first; the first is the root. The buffer is a row of equal atoms, of which place p owns the
p-th of as many equal parts as there are members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise, product
from math import prod

from grammar import Collective
from synth.collective.algorithms.algorithms import Algorithm

Counts = tuple[int, ...]
Place = tuple[int, ...]
Edge = tuple[int, int]
"""From one place to another."""
NOBODY = -1


@dataclass(frozen=True)
class Message:
    """Atoms ``first`` to before ``last`` from one place to another, which adds or copies them.

    It goes when all of ``after`` have arrived and ``behind``, the one before it on the same
    connection (-1: none), has left.
    """

    sender: int
    receiver: int
    first: int
    last: int
    adds: bool
    after: tuple[int, ...]
    behind: int = NOBODY


@dataclass(frozen=True)
class Expansion:
    """All messages of one group, in an order in which none comes before what it waits for."""

    atoms: int
    messages: tuple[Message, ...]


@dataclass
class _Writer:
    """Takes messages down, each behind the one before it on its connection."""

    messages: list[Message] = field(default_factory=list)
    last: dict[object, int] = field(default_factory=dict)

    def send(
        self, edge: Edge, atoms: tuple[int, int], adds: bool, after: Sequence[int], connection: int
    ) -> int:
        """The number of the message."""
        key = (edge, connection, adds)
        number = len(self.messages)
        waits = tuple(one for one in after if one != NOBODY)
        behind = self.last.get(key, NOBODY)
        self.messages.append(Message(*edge, *atoms, adds, waits, behind))
        self.last[key] = number
        return number


class CannotExpandError(Exception):
    """No messages are known for an algorithm: a switch adds up, or nobody wrote them."""


@cache
def expand(
    collective: Collective,
    algorithm: Algorithm,
    counts: Counts,
    pieces: int,
    both_ways: bool = False,
) -> Expansion:
    """The messages of one collective; ``counts`` of the levels that a group spans.

    Chains and trees cut what goes along them into ``pieces``. With ``both_ways`` rings and chains
    carry half of the buffer in the other sense, as is done where links join neighbours in a circle.
    Raises CannotExpandError.
    """
    members = prod(counts)
    match algorithm, collective:
        case Algorithm.RING, Collective.REDUCE | Collective.BROADCAST:
            lanes = _chains(counts, both_ways)
            return _rooted(lanes, pieces, up=collective is Collective.REDUCE)
        case Algorithm.TREE, Collective.REDUCE | Collective.BROADCAST:
            lanes = _rooted_trees(counts)
            return _rooted(lanes, pieces, up=collective is Collective.REDUCE)
        case Algorithm.TREE, Collective.ALL_REDUCE:
            return _up_and_down(_trees(counts), pieces)
        case Algorithm.RING, _ if collective in _STAGES:
            return _rings(_STAGES[collective], _orders(counts, both_ways), members)
        case Algorithm.DIRECT, _ if collective in _STAGES:
            return _direct(_STAGES[collective], members)
        case Algorithm.HALVING_DOUBLING, _ if collective in _STAGES:
            return _halvings(_STAGES[collective], members)
    raise CannotExpandError(f"{collective.value} by {algorithm.value}")


_STAGES = {
    Collective.ALL_REDUCE: (True, True),
    Collective.REDUCE_SCATTER: (True, False),
    Collective.ALL_GATHER: (False, True),
}
"""Whether parts are added up on their way to their owners, and whether owners hand them out."""
Stages = tuple[bool, bool]


def _orders(counts: Counts, both_ways: bool) -> list[tuple[int, ...]]:
    """The rings: child by child, from another child on in each, so that all borders are taken."""
    rings = []
    for turns in product(*(range(count) for count in counts[1:])):
        pairs = zip(counts, (0, *turns), strict=True)
        digits = [[(i + turn) % m for i in range(m)] for m, turn in pairs]
        ring = tuple(_number(place, counts) for place in product(*digits))
        rings.append(ring)
        if both_ways:
            rings.append(ring[::-1])
    return rings


def _number(place: Place, counts: Counts) -> int:
    number = 0
    for digit, count in zip(place, counts, strict=True):
        number = number * count + digit
    return number


def _rings(stages: Stages, orders: Sequence[tuple[int, ...]], members: int) -> Expansion:
    """Each ring carries its share of every part, from neighbour to neighbour, round by round."""
    lanes, writer = len(orders), _Writer()
    adding, handing = stages
    for lane, order in enumerate(orders):
        brought = [NOBODY] * members
        """The message that brought to each place of the ring what it sends next."""
        for turn in range(members - 1 if adding else 0):
            owners = [order[(i - 1 - turn) % members] for i in range(members)]
            brought = _round(writer, order, owners, brought, lane, lanes, adds=True)
        for turn in range(members - 1 if handing else 0):
            owners = [order[(i - turn) % members] for i in range(members)]
            brought = _round(writer, order, owners, brought, lane, lanes, adds=False)
    return Expansion(members * lanes, tuple(writer.messages))


def _round(
    writer: _Writer,
    order: Sequence[int],
    owners: Sequence[int],
    brought: Sequence[int],
    lane: int,
    lanes: int,
    *,
    adds: bool,
) -> list[int]:
    """Everyone sends its neighbour a share of the part of one owner; what that brings to whom."""
    members = len(order)
    now = [NOBODY] * members
    for i, (sender, owner) in enumerate(zip(order, owners, strict=True)):
        there = (i + 1) % members
        atom = owner * lanes + lane
        edge = (sender, order[there])
        now[there] = writer.send(edge, (atom, atom + 1), adds, [brought[i]], lane)
    return now


def _direct(stages: Stages, members: int) -> Expansion:
    """Every part straight to its owner, and from its owner to everyone."""
    adding, handing = stages
    writer = _Writer()
    got: list[list[int]] = [[] for _ in range(members)]
    for here, there in product(range(members), repeat=2):
        if adding and here != there:
            got[there].append(writer.send((here, there), (there, there + 1), True, [], 0))
    for here, there in product(range(members), repeat=2):
        if handing and here != there:
            writer.send((here, there), (here, here + 1), False, got[here], 0)
    return Expansion(members, tuple(writer.messages))


def _halvings(stages: Stages, members: int) -> Expansion:
    """Partners exchange halves, the farthest first; then the same backwards."""
    if members & (members - 1):
        raise CannotExpandError(f"halving among {members}")
    adding, handing = stages
    writer = _Writer()
    brought = [NOBODY] * members
    spans = [1 << bit for bit in reversed(range(members.bit_length() - 1))]
    for span in spans if adding else ():
        now = []
        for receiver in range(members):
            first = receiver // span * span
            sender = receiver ^ span
            now.append(
                writer.send((sender, receiver), (first, first + span), True, [brought[sender]], 0)
            )
        brought = now
    known: list[list[int]] = [[one] for one in brought]
    for span in reversed(spans) if handing else ():
        then = []
        for receiver in range(members):
            sender = receiver ^ span
            first = sender // span * span
            then.append(
                writer.send((sender, receiver), (first, first + span), False, known[sender], 0)
            )
        known = [[*known[place], one] for place, one in enumerate(then)]
    return Expansion(members, tuple(writer.messages))


Lane = list[Edge]
"""Edges of a tree away from its root, each after the one that leads to where it starts."""


def _rooted(lanes: Sequence[Lane], pieces: int, *, up: bool) -> Expansion:
    """Pieces along the edges of each lane, away from the root, or up to it backwards."""
    writer = _Writer()
    for lane, edges in enumerate(lanes):
        for piece in range(pieces):
            atom = lane * pieces + piece
            (_climb if up else _descend)(writer, edges, atom, lane, {})
    return Expansion(len(lanes) * pieces, tuple(writer.messages))


def _up_and_down(lanes: Sequence[Lane], pieces: int) -> Expansion:
    """The same up and then down each lane."""
    writer = _Writer()
    for lane, edges in enumerate(lanes):
        for piece in range(pieces):
            atom = lane * pieces + piece
            got = _climb(writer, edges, atom, lane, {})
            _descend(writer, edges, atom, lane, {edges[0][0]: got[edges[0][0]]})
    return Expansion(len(lanes) * pieces, tuple(writer.messages))


Got = dict[int, list[int]]
"""The messages that brought something to each place."""


def _climb(writer: _Writer, edges: Lane, atom: int, lane: int, got: Got) -> Got:
    for above, below in reversed(edges):
        number = writer.send((below, above), (atom, atom + 1), True, got.get(below, []), lane)
        got.setdefault(above, []).append(number)
    return got


def _descend(writer: _Writer, edges: Lane, atom: int, lane: int, got: Got) -> None:
    for above, below in edges:
        number = writer.send((above, below), (atom, atom + 1), False, got.get(above, []), lane)
        got[below] = [number]


def _chains(counts: Counts, both_ways: bool) -> list[Lane]:
    """Every ring cut before the root: from the root on to the member that stands before it.

    As NCCL does it (src/device/broadcast.h: the one before the root in a channel's ring passes
    nothing on; reduce.h: the one after it begins, which is the same backwards). So most chains
    leave the root's child by another of its members, and come back to those before the root.
    """
    lanes = []
    for ring in _orders(counts, both_ways):
        root = ring.index(0)
        lanes.append([*pairwise(ring[root:] + ring[:root])])
    return lanes


def _trees(counts: Counts) -> list[Lane]:
    """Two trees for each inner place, of the children at that place; and two inside of those."""
    return _hung(counts, _double_tree, rooted=False)


def _rooted_trees(counts: Counts) -> list[Lane]:
    """The same for what comes from the first place, which passes it on to trees of the others."""
    return _hung(counts, _tree_below, rooted=True)


Tree = Callable[[int, int], tuple[int, list[Edge]]]
"""The root and the edges of one of two trees among so many, from the root on."""


def _hung(counts: Counts, tree: Tree, *, rooted: bool) -> list[Lane]:
    lanes = []
    for turns in product(*(range(count) for count in counts[1:])):
        for which in (0, 1):
            lane: list[tuple[Place, Place]] = []
            _hang(lane, (), (0, *turns), counts, partial(tree, which), rooted)
            lanes.append([(_number(a, counts), _number(b, counts)) for a, b in lane])
    return lanes


def _hang(
    lane: list[tuple[Place, Place]],
    box: Place,
    turns: Place,
    counts: Counts,
    tree: Callable[[int], tuple[int, list[Edge]]],
    has_root: bool,
) -> None:
    """Hang the children of a box on each other at the places of the turns; and what is in them.

    Inside, all hangs on the place of the turns; in the box of the root, on the root.
    """
    depth = len(box)
    if depth == len(counts):
        return
    root, edges = tree(counts[depth])
    wanted = 0 if has_root else turns[depth] if depth else root
    move = wanted - root
    _hang(lane, (*box, wanted), turns, counts, tree, has_root)
    for above, below in edges:
        ends = ((*box, (n + move) % counts[depth], *turns[depth + 1 :]) for n in (above, below))
        lane.append((next(ends), next(ends)))
        _hang(lane, (*box, (below + move) % counts[depth]), turns, counts, tree, False)


def _double_tree(which: int, count: int) -> tuple[int, list[Edge]]:
    """Sanders, Speck, Traeff: in-order trees; inner nodes of one are leaves of the other."""
    edges: list[Edge] = []
    if count > 1:
        top = 1 << ((count - 1).bit_length() - 1)
        edges.append((0, top))
        _halve(edges, top, top, count)
    if not which:
        return 0, edges
    if count % 2:
        return 1 % count, [((a + 1) % count, (b + 1) % count) for a, b in edges]
    return count - 1, [(count - 1 - a, count - 1 - b) for a, b in edges]


def _halve(edges: list[Edge], node: int, span: int, count: int) -> None:
    """The numbers less than a span before and after a node, below it."""
    half = span // 2
    if not half:
        return
    edges.append((node, node - half))
    _halve(edges, node - half, half, count)
    while half and node + half >= count:
        half //= 2
    if half:
        edges.append((node, node + half))
        _halve(edges, node + half, half, count)


def _tree_below(which: int, count: int) -> tuple[int, list[Edge]]:
    """One of the two trees of all but the first, below the first."""
    if count == 1:
        return 0, []
    root, edges = _double_tree(which, count - 1)
    return 0, [(0, root + 1), *((a + 1, b + 1) for a, b in edges)]
