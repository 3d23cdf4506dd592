"""How a runtime carries out one collective: rings, trees, halving, direct exchange, in the switch.

One row per algorithm and collective says what crosses each level and how many messages wait for
each other. Quantities are for a buffer of one byte per device and a group with ``members[l]``
members among the children of a parent at level l, outermost first; "outside" and "inside" of a
level are the products of the numbers before and after it. Whatever a child must pass on is spread
evenly over its members, as a runtime with several channels does.

In a switch that reduces (NVLink SHARP) a member pulls the sum of a piece through the switch, which
asks all m members for it, and writes a result once, of which the switch gives everyone a copy. An
all-reduce is both, each member for its own piece: (m + 1)/m buffers go out of a port and as many
into it, where a ring moves 2 (m - 1)/m (NVIDIA/nccl-tests issue 238; measured from 5 to 8 GPUs in
NVIDIA/nccl issue 1455). A reduce-scatter sends a whole buffer and receives a piece, an all-gather
the other way round, of which the larger counts as ports carry both directions at once: a ring is
never slower there but for latency (NVIDIA/nccl issue 1083). A pull waits for two messages, as all
must say that they are ready before it, a copy for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil, log2, prod

from grammar import Collective
from hierarchies import Domain, Link
from hierarchies.fabric import Weights
from synth.demands import (
    cycle,
    from_first,
    halving,
    pairs,
    towards_first,
    tree_peak,
    trees_from_first,
    trees_to_first,
    two_trees,
)

Members = tuple[int, ...]


class Algorithm(Enum):
    """The algorithms, by the names the field gives them."""

    RING = "ring"
    TREE = "tree"
    HALVING_DOUBLING = "halving-doubling"
    DIRECT = "direct"
    IN_NETWORK = "in-network"


class Choice(Enum):
    """Which algorithm a step may use: rings; trees where there are any, else rings; the fastest."""

    RING = "ring"
    TREE = "tree"
    AUTO = "auto"


@dataclass(frozen=True)
class Recipe:
    """One algorithm for one collective.

    ``crossing(members, level)``: bytes one participant sends across the level (and receives), at
    the busiest child. ``demand(m)``: who sends how much to whom among m children of one parent,
    in units of what the busiest sends. ``waits(members, level)``: how many messages across the
    level wait for each other, of which ``spared`` that follow each other in a ring are not waited
    for, the cheapest ones;
    ``at_once``: messages across different levels do not wait for each other.
    ``linear``: every member sends each piece once at most and gets it once at most, across
    whichever level, so that levels do not add up on a port that the bytes of several pass.
    ``memory(k)``: bytes read or written in a device's memory.
    """

    fits: Callable[[Members], bool]
    crossing: Callable[[Members, int], float]
    demand: Callable[[int], Weights]
    waits: Callable[[Members, int], float]
    memory: Callable[[int], float]
    spared: int = 0
    at_once: bool = False
    linear: bool = False


def _always(members: Members) -> bool:
    return True


def _powers_of_two(members: Members) -> bool:
    return all(m & (m - 1) == 0 for m in members)


def _inside(members: Members, level: int) -> int:
    return prod(members[level + 1 :])


def _outside(members: Members, level: int) -> int:
    return prod(members[:level])


def _part(members: Members) -> float:
    """What a member does not own itself."""
    k = prod(members)
    return (k - 1) / k


def _cycle_edges(members: Members, level: int) -> float:
    """Of a ring in member order, edges whose ends first differ at this level, per member child.

    The outermost level that varies also closes the ring; every device takes its turn at each
    border, so inner levels have m - 1 edges shared by m children.
    """
    m = members[level]
    if m == 1:
        return 0.0
    return 1.0 if _outside(members, level) == 1 else (m - 1) / m


def _ring(rounds: int) -> tuple[Callable[[Members, int], float], Callable[[Members, int], float]]:
    """A ring's crossing and waits: every member passes on all pieces but one, ``rounds`` times."""

    def crossing(members: Members, level: int) -> float:
        return rounds * _part(members) * _cycle_edges(members, level) / _inside(members, level)

    def waits(members: Members, level: int) -> float:
        """All edges of the ring; of these a piece is spared one."""
        m = members[level]
        if m == 1:
            return 0.0
        return float(
            rounds * _outside(members, level) * (m if _outside(members, level) == 1 else m - 1)
        )

    return crossing, waits


def _chain_crossing(members: Members, level: int) -> float:
    return 1 / _inside(members, level) if members[level] > 1 else 0.0


def _tree_crossing(members: Members, level: int) -> float:
    return tree_peak(members[level]) / _inside(members, level)


def _tree_waits(members: Members, level: int) -> float:
    """Up to the root and down again."""
    return 2.0 * ceil(log2(members[level]))


def _split_crossing(rounds: int) -> Callable[[Members, int], float]:
    """Halving outermost digits first, or direct exchange: pieces end in the order of members."""

    def crossing(members: Members, level: int) -> float:
        m = members[level]
        return rounds * (m - 1) / m / _outside(members, level)

    return crossing


def _halvings(rounds: int) -> Callable[[Members, int], float]:
    return lambda members, level: rounds * log2(members[level])


def _at_once(rounds: int) -> Callable[[Members, int], float]:
    return lambda members, level: float(rounds * (members[level] > 1))


def _rooted_tree_waits(members: Members, level: int) -> float:
    """One message between the root and the trees of the others, then down or up those."""
    m = members[level]
    return _twice_inside(members, level) * (1.0 + ceil(log2(m - 1))) if m > 1 else 0.0


def _twice_inside(members: Members, level: int) -> int:
    """A piece crosses a child between the root and its border, and another from border to end.

    As it is spread over all members of a child, most of it does not leave where the root is.
    """
    return 1 if _outside(members, level) == 1 else 2


def _rooted_chain_waits(members: Members, level: int) -> float:
    return float(_twice_inside(members, level) * (members[level] - 1))


def _pulled_and_copied(members: Members, level: int) -> float:
    """The buffer goes out for all to pull, and the own piece for the switch to copy."""
    m = members[level]
    return (m + 1) / m / _inside(members, level) if m > 1 else 0.0


def _around_crossing(members: Members, level: int) -> float:
    """Every piece of an all-to-all goes round a ring the shorter way: k²/4 hops for each member."""
    k = prod(members)
    return k * k // 4 / k * _cycle_edges(members, level) / _inside(members, level)


def _around_waits(members: Members, level: int) -> float:
    """Half way round, counted at each level as if the longest half lay there."""
    return float(ceil(_ring(1)[1](members, level) / 2))


def _memory(per_byte: int, whole: bool) -> Callable[[int], float]:
    """Bytes sent are read and bytes received written once; an addition reads one operand more."""
    return lambda k: per_byte * (1.0 if whole else (k - 1) / k)


_AR = Collective.ALL_REDUCE
_TOGETHER = tuple(one for one in Collective if not one.apart)
"""Those whose members add up, or get, the same."""


def _touched(collective: Collective) -> int:
    """For each byte sent on: read and written, and where it is added up another operand read."""
    return 3 * collective.facts.reducing + 2 * collective.facts.copying


def _splitting() -> dict[tuple[Collective, Algorithm], Recipe]:
    """Rings, halving/doubling and direct exchange, for the collectives that pass pieces."""
    rows = {}
    for collective in _TOGETHER:
        if collective.rooted:
            continue
        rounds = collective.rounds
        memory = _memory(_touched(collective), whole=False)
        split = _split_crossing(rounds)
        rows[collective, Algorithm.RING] = Recipe(
            _always, _ring(rounds)[0], cycle, _ring(rounds)[1], memory, spared=rounds
        )
        rows[collective, Algorithm.HALVING_DOUBLING] = Recipe(
            _powers_of_two, split, halving, _halvings(rounds), memory
        )
        rows[collective, Algorithm.DIRECT] = Recipe(
            _always, split, pairs, _at_once(rounds), memory, at_once=True
        )
    return rows


def _rooted() -> dict[tuple[Collective, Algorithm], Recipe]:
    """Chains and trees for reduce and broadcast; "ring" is their pipelined chain.

    The chain is linear: a ring cut open before the root, one for each place at which it enters a
    child. All but one of them come back into the root's child, so that the one waits longest that
    is cut where messages are cheapest: a ring of one round, which is spared one. A port that outer
    levels do not pass is as busy as in the root's child, where each hands all on to the next.
    On a bus all hops of a child count, those within and those across its border: they do add up.
    Trees inside the root's child hang on the root in all pieces, so that it gets a whole buffer
    there and, where it is the border itself, its part of what comes from outside: levels add up.
    """
    rows = {}
    for collective, chain, trees in (
        (Collective.REDUCE, towards_first, trees_to_first),
        (Collective.BROADCAST, from_first, trees_from_first),
    ):
        memory = _memory(_touched(collective), whole=True)
        rows[collective, Algorithm.RING] = Recipe(
            _always, _chain_crossing, chain, _ring(1)[1], memory, spared=1, linear=True
        )
        rows[collective, Algorithm.TREE] = Recipe(
            _always, _chain_crossing, trees, _rooted_tree_waits, memory
        )
    return rows


def _in_network() -> dict[tuple[Collective, Algorithm], Recipe]:
    """Through switches that reduce; a device reads and writes what it sends and gets, no more."""
    rows = {}
    for collective in _TOGETHER:
        whole = collective is _AR
        turns = 2 * collective.facts.reducing + collective.facts.copying
        rows[collective, Algorithm.IN_NETWORK] = Recipe(
            _always,
            _pulled_and_copied if whole else _chain_crossing,
            pairs,
            _at_once(turns),
            (lambda k: 1 + 1 / k) if collective.in_pieces else (lambda k: 2.0),
        )
    return rows


def _exchanging() -> dict[tuple[Collective, Algorithm], Recipe]:
    """An all-to-all: pieces that nobody adds, sent directly or passed around a ring."""
    collective = Collective.ALL_TO_ALL
    memory = _memory(_touched(collective), whole=False)
    return {
        (collective, Algorithm.RING): Recipe(
            _always, _around_crossing, cycle, _around_waits, lambda k: 2 * (k * k // 4) / k
        ),
        (collective, Algorithm.DIRECT): Recipe(
            _always, _split_crossing(1), pairs, _at_once(1), memory, at_once=True
        ),
    }


RECIPES: Mapping[tuple[Collective, Algorithm], Recipe] = {
    **_splitting(),
    (_AR, Algorithm.TREE): Recipe(
        _always, _tree_crossing, two_trees, _tree_waits, _memory(_touched(_AR), whole=True)
    ),
    **_rooted(),
    **_in_network(),
    **_exchanging(),
}


def _chained(collective: Collective) -> Recipe:
    """A tree that is a chain at one level: up it and down again, each member being an end once."""
    if collective is not _AR:
        chain = RECIPES[collective, Algorithm.RING]
        return replace(chain, waits=_rooted_chain_waits, spared=0, linear=False)
    return Recipe(
        _always,
        lambda members, level: 2 * (members[level] - 1) / members[level] / _inside(members, level),
        cycle,
        lambda members, level: 2.0 * (members[level] - 1),
        _memory(_touched(_AR), whole=True),
    )


def recipe_at(
    collective: Collective, algorithm: Algorithm, domain: Domain, reduces: bool = False
) -> Recipe:
    """The row for one level: what an algorithm does there depends on how children are joined.

    Trees are double binary where a switch joins the children, and chains along the links
    everywhere else, where the edges of a tree would pile up on them. In a mesh, rings and chains
    take turns with all links. Where no switch reduces, an in-network algorithm does what a tree
    does (NCCL's NVLS-tree and CollNet).
    """
    has_tree = (collective, Algorithm.TREE) in RECIPES
    if algorithm is Algorithm.IN_NETWORK and not reduces and has_tree:
        algorithm = Algorithm.TREE
    recipe = RECIPES[collective, algorithm]
    if algorithm is Algorithm.TREE and domain is not Domain.SWITCH:
        recipe = _chained(collective)
    if domain is Domain.MESH and algorithm in (Algorithm.RING, Algorithm.TREE):
        recipe = replace(recipe, demand=pairs)
    return recipe


def offered(
    collective: Collective, members: Members, links: Sequence[Link], choice: Choice
) -> Sequence[Algorithm]:
    """The algorithms a step may use, in the order in which ties between them are settled.

    Direct exchange is not offered over several dimensions of a torus: its messages would turn
    corners that ``crossing`` does not see. In-network reduction needs a switch that reduces at one
    level at least, and at all of them for what has no tree.
    """
    spans = [link for link, m in zip(links, members, strict=True) if m > 1]
    corners = len(spans) > 1 and any(link.domain is Domain.TORUS for link in spans)
    reducing = [link.reduces for link in spans]
    has_tree = (collective, Algorithm.TREE) in RECIPES
    banned = {
        Algorithm.DIRECT: corners,
        Algorithm.IN_NETWORK: not (any(reducing) if has_tree else all(reducing)),
    }
    fitting = [
        algorithm
        for algorithm in Algorithm
        if (collective, algorithm) in RECIPES
        and RECIPES[collective, algorithm].fits(members)
        and not banned.get(algorithm)
    ]
    if choice is Choice.AUTO:
        return fitting
    wanted = Algorithm(choice.value)
    if wanted in fitting:
        return [wanted]
    return [_UNTOLD[collective]] if _UNTOLD.get(collective) in fitting else [Algorithm.RING]


_UNTOLD = {Collective.ALL_TO_ALL: Algorithm.DIRECT}
"""What a collective is carried out by, whatever is chosen, if libraries have it in no other way."""
