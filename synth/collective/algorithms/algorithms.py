"""How a runtime executes one collective: ring, tree, halving, direct exchange, in-network sum.

Each row, of one algorithm and collective, gives the bytes that cross each level and the messages
that wait for each other, for a buffer of one byte per device. A recipe reads how the members of a
group are placed under one parent (``GroupPlace``), so groups may have any number of members
anywhere. For grids one number per level is enough, outermost first: ``members[l]``, the children of
a parent at level l that hold members of a group. The bytes that a child passes on are spread evenly
over its members, as in a runtime with several channels.

In a switch that reduces (NVLink SHARP) a member pulls the sum of a piece through the switch, which
reads it from all m members, and writes a result once, which the switch copies to every member. An
all-reduce does both, each member for its own piece: (m + 1)/m buffers leave a port and the same
number enter it, where a ring moves 2 (m - 1)/m (NVIDIA/nccl-tests issue 238; measured from 5 to 8
GPUs in NVIDIA/nccl issue 1455). A reduce-scatter sends a whole buffer and receives a piece, an
all-gather the other way round. Ports carry both directions at once, so only the larger counts: a
ring is slower there only in latency (NVIDIA/nccl issue 1083). A pull waits for two messages,
because all members must first report that they are ready; a copy waits for one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil, log2, prod

from grammar import Collective
from hierarchies import INSIDE, Domain, Link, System
from hierarchies.fabric import Weights
from synth.collective.algorithms.traffic import (
    GroupPlace,
    Members,
    chain_from_first,
    chain_to_first,
    chains_from_first,
    chains_to_first,
    cycle,
    folded_cycle,
    halving,
    line_from_owners,
    line_to_owners,
    pairs,
    tree_peak,
    trees_from_first,
    trees_to_first,
    two_trees,
)


class Algorithm(Enum):
    """The algorithms, by the names used in the field."""

    RING = "ring"
    TREE = "tree"
    HALVING_DOUBLING = "halving-doubling"
    DIRECT = "direct"
    IN_NETWORK = "in-network"

    @property
    def over_ports(self) -> bool:
        """Whether its channels are laid over the ports of a node rather than over its members.

        NCCL lays each ring and tree through one NIC (src/graph/search.cc). With the others every
        member sends what it owns by its own port.
        """
        return self not in (Algorithm.HALVING_DOUBLING, Algorithm.DIRECT)


class Choice(Enum):
    """Which algorithm a step may use: a named one (a ring where it does not exist), or the fastest.

    Auto: the fastest that the machine's runtime has, because a step is one of its calls. Any: the
    fastest that the links allow, even if no runtime has it.
    """

    RING = "ring"
    TREE = "tree"
    HALVING_DOUBLING = "halving-doubling"
    DIRECT = "direct"
    IN_NETWORK = "in-network"
    AUTO = "auto"
    ANY = "any"

    @property
    def one(self) -> Algorithm | None:
        """The named algorithm; None for ``AUTO`` and ``ANY``."""
        return None if self in (Choice.AUTO, Choice.ANY) else Algorithm(self.value)


def _powers_of_two(members: Members) -> bool:
    return all(m & (m - 1) == 0 for m in members)


@dataclass(frozen=True)
class AlgorithmRecipe:
    """One algorithm for one collective.

    ``passed(place)``: bytes that one participant sends (and receives) across the level, at the
    busiest child. ``demand(m)``: the traffic matrix among m children of one parent, in units of the
    bytes that the busiest sends. ``waited(place)``: the number of messages between the children of
    one parent that wait for each other. ``spared``: the number of these, neighbours in a ring, that
    are not waited for; the cheapest are taken. ``in_turn``: messages under different parents wait
    for each other too, as a ring goes from one parent to the next. ``at_once``: messages across
    different levels do not wait for each other. ``linear``: every member sends and receives each
    piece at most once, across any level, so a port that carries the bytes of several levels is not
    loaded by their sum. ``memory(k)``: bytes read or written in a device's memory. ``in_pieces``:
    a message carries the buffer's piece for one member, or else the whole buffer.
    """

    passed: Callable[[GroupPlace], float]
    demand: Callable[[int], Weights]
    waited: Callable[[GroupPlace], float]
    memory: Callable[[int], float]
    spared: int = 0
    at_once: bool = False
    linear: bool = False
    in_turn: bool = False
    fits: Callable[[Members], bool] = lambda members: True
    in_pieces: bool = True

    def crossing(self, members: Members, level: int) -> float:
        """The bytes that a member of a grid sends across a level; 0 where no group spans it."""
        return self.passed(GroupPlace.of(members, level)) if members[level] > 1 else 0.0

    def waits(self, members: Members, level: int) -> float:
        """The number of messages of a grid that wait for each other across a level."""
        if members[level] == 1:
            return 0.0
        waits = self.waited(GroupPlace.of(members, level))
        return float(ceil(prod(members[:level]) * waits)) if self.in_turn else waits


def _ring(rounds: int) -> tuple[Callable[[GroupPlace], float], Callable[[GroupPlace], float]]:
    """The ``passed`` and ``waited`` of a ring: members pass on all pieces but one each round."""

    def passed(at: GroupPlace) -> float:
        return rounds * at.part * at.edges / at.child

    def waited(at: GroupPlace) -> float:
        """All edges of the ring; each round a piece crosses all edges but one: see ``spared``."""
        return float(rounds * (at.children if at.outermost else at.children - 1))

    return passed, waited


def _chain_passed(at: GroupPlace) -> float:
    return 1 / at.child


def _tree_passed(at: GroupPlace) -> float:
    return tree_peak(at.children) / at.child


def _tree_waited(at: GroupPlace) -> float:
    """Up to the root and down again."""
    return 2.0 * ceil(log2(at.children))


def _split_passed(rounds: int) -> Callable[[GroupPlace], float]:
    """Halving outermost digits first, or direct exchange: pieces end in the order of members.

    A member sends one of the k pieces for each other member under this parent.
    """

    def passed(at: GroupPlace) -> float:
        return rounds * (at.parent - at.child) / at.parent / (at.group / at.parent)

    return passed


def _halving_waited(rounds: int) -> Callable[[GroupPlace], float]:
    return lambda at: rounds * log2(at.children)


def _constant_waited(rounds: int) -> Callable[[GroupPlace], float]:
    return lambda at: float(rounds)


def _chain_and_back_waited(at: GroupPlace) -> float:
    """Up a chain to its end and down again."""
    return 2.0 * (at.children - 1)


def _rooted_tree_waited(at: GroupPlace) -> float:
    """One message between the root and the trees of the others, then down or up these."""
    return _waits_inside(at) * (1.0 + ceil(log2(at.children - 1)))


def _waits_inside(at: GroupPlace) -> int:
    """How often an inner level is waited for: in the root's child, and again in another child.

    Pieces are spread over all members of a child, so most do not leave it at the root.
    """
    return 1 if at.outermost else 2


def _rooted_chain_waited(at: GroupPlace) -> float:
    return float(_waits_inside(at) * (at.children - 1))


def _there_and_back_passed(at: GroupPlace) -> float:
    return 2 * (at.children - 1) / at.children / at.child


def _in_network_passed(at: GroupPlace) -> float:
    """A member sends its buffer, which all pull, and its own piece, which the switch copies."""
    return (at.children + 1) / at.children / at.child


def _around_passed(at: GroupPlace) -> float:
    """Each piece of an all-to-all goes the shorter way around a ring: k²/4 hops for each member."""
    k = at.group
    return k * k // 4 / k * at.edges / at.child


def _around_waited(at: GroupPlace) -> float:
    """Half of the ring, counted at each level as if the longest half were there."""
    return _ring(1)[1](at) / 2


def _memory(collective: Collective, *, whole: bool) -> Callable[[int], float]:
    """Bytes sent are read and bytes received written once; an addition reads one operand more."""
    per_byte = 3 * collective.facts.reducing + 2 * collective.facts.copying
    return lambda k: per_byte * (1.0 if whole else (k - 1) / k)


_AR = Collective.ALL_REDUCE
_SYNCHRONIZED = tuple(collective for collective in Collective if not collective.apart)
"""All collectives except the all-to-all: members reduce or receive the same data."""


def _splitting_recipes() -> dict[tuple[Collective, Algorithm], AlgorithmRecipe]:
    """Rings, halving/doubling and direct exchange, for the collectives that pass pieces."""
    rows = {}
    for collective in _SYNCHRONIZED:
        if collective.rooted:
            continue
        rounds = collective.rounds
        memory = _memory(collective, whole=False)
        split = _split_passed(rounds)
        passed, waited = _ring(rounds)
        rows[collective, Algorithm.RING] = AlgorithmRecipe(
            passed, cycle, waited, memory, spared=rounds, in_turn=True
        )
        rows[collective, Algorithm.HALVING_DOUBLING] = AlgorithmRecipe(
            split, halving, _halving_waited(rounds), memory, fits=_powers_of_two
        )
        rows[collective, Algorithm.DIRECT] = AlgorithmRecipe(
            split, pairs, _constant_waited(rounds), memory, at_once=True
        )
    return rows


def _rooted_recipes() -> dict[tuple[Collective, Algorithm], AlgorithmRecipe]:
    """Chains and trees for reduce and broadcast; "ring" is their pipelined chain.

    The chain is linear: a ring cut open before the root, with one chain for each place at which the
    ring enters a child. All but one of the chains return into the root's child, so the slowest
    chain is cut where messages are cheapest: a ring of one round, which is spared one message. A
    port without traffic of outer levels is as busy as in the root's child, where each member passes
    everything to the next. On a bus all hops of a child count, within it and across its border:
    there the levels do add up. Trees inside the root's child hang from the root in all pieces, so
    it receives a whole buffer there and, where it is itself at the border, its part of the bytes
    from outside: levels add up.
    """
    rows = {}
    for collective, chain, trees in (
        (Collective.REDUCE, chain_to_first, trees_to_first),
        (Collective.BROADCAST, chain_from_first, trees_from_first),
    ):
        memory = _memory(collective, whole=True)
        rows[collective, Algorithm.RING] = AlgorithmRecipe(
            _chain_passed,
            chain,
            _ring(1)[1],
            memory,
            spared=1,
            linear=True,
            in_turn=True,
            in_pieces=False,
        )
        rows[collective, Algorithm.TREE] = AlgorithmRecipe(
            _chain_passed, trees, _rooted_tree_waited, memory, in_pieces=False
        )
    return rows


def _in_network_recipes() -> dict[tuple[Collective, Algorithm], AlgorithmRecipe]:
    """Rows for switches that reduce; a device accesses only bytes that it sends or receives."""
    rows = {}
    for collective in _SYNCHRONIZED:
        whole = collective is _AR
        turns = 2 * collective.facts.reducing + collective.facts.copying
        rows[collective, Algorithm.IN_NETWORK] = AlgorithmRecipe(
            _in_network_passed if whole else _chain_passed,
            pairs,
            _constant_waited(turns),
            (lambda k: 1 + 1 / k) if collective.in_pieces else (lambda k: 2.0),
        )
    return rows


def _exchange_recipes() -> dict[tuple[Collective, Algorithm], AlgorithmRecipe]:
    """An all-to-all: pieces that are not reduced, sent directly or passed around a ring."""
    collective = Collective.ALL_TO_ALL
    memory = _memory(collective, whole=False)
    return {
        (collective, Algorithm.RING): AlgorithmRecipe(
            _around_passed,
            cycle,
            _around_waited,
            lambda k: 2 * (k * k // 4) / k,
            in_turn=True,
        ),
        (collective, Algorithm.DIRECT): AlgorithmRecipe(
            _split_passed(1), pairs, _constant_waited(1), memory, at_once=True
        ),
    }


RECIPES: Mapping[tuple[Collective, Algorithm], AlgorithmRecipe] = {
    **_splitting_recipes(),
    (_AR, Algorithm.TREE): AlgorithmRecipe(
        _tree_passed,
        two_trees,
        _tree_waited,
        _memory(_AR, whole=True),
        in_pieces=False,
    ),
    **_rooted_recipes(),
    **_in_network_recipes(),
    **_exchange_recipes(),
}


_LINES = {
    Collective.REDUCE_SCATTER: line_to_owners,
    Collective.ALL_GATHER: line_from_owners,
}
"""What a ring of one round becomes along a line: no link is busier, and messages go one hop."""

_BOTH_WAYS: Mapping[Callable[[int], Weights], Callable[[int], Weights]] = {
    chain_to_first: chains_to_first,
    chain_from_first: chains_from_first,
}
"""Chains of rooted collectives where groups are whole rings, whose links lead both ways."""

_THERE_AND_BACK = AlgorithmRecipe(
    _there_and_back_passed,
    cycle,
    _chain_and_back_waited,
    _memory(_AR, whole=True),
    in_pieces=False,
)


def _chained_recipe(collective: Collective) -> AlgorithmRecipe:
    """A tree that is a chain at one level: up and down again, with each member at an end once."""
    if collective is _AR:
        return _THERE_AND_BACK
    chain = RECIPES[collective, Algorithm.RING]
    return replace(chain, waited=_rooted_chain_waited, spared=0, linear=False, in_turn=False)


def recipe_at(
    collective: Collective,
    algorithm: Algorithm,
    domain: Domain,
    reduces: bool = False,
    inside: bool = False,
    wraps: bool = True,
    alone: bool = False,
    whole: bool = False,
) -> AlgorithmRecipe:
    """The row for one level: an algorithm's work there depends on how children are joined.

    Trees are double binary where a switch joins the children, and chains along the links elsewhere,
    where the edges of a tree would pile up on them. In a mesh, rings and chains use all links in
    turn. Where no switch reduces, an in-network algorithm works as a tree (NCCL's NVLS-tree and
    CollNet). ``inside`` a node, data on its way up a tree passes all members in sequence, because
    NCCL has trees between nodes only (NVIDIA/nccl issues 545 and 919). Where the ends of a line are
    not joined (``wraps`` is False), a ring goes out and back along it; but where groups span this
    level ``alone``, and its links are the children's own, pieces of a reduce-scatter or an
    all-gather go straight to their places. Where groups are ``whole`` rings with joined ends,
    chains go both ways around.
    """
    has_tree = (collective, Algorithm.TREE) in RECIPES
    if algorithm is Algorithm.IN_NETWORK and not reduces and has_tree:
        algorithm = Algorithm.TREE
    recipe = RECIPES[collective, algorithm]
    if algorithm is Algorithm.TREE and domain is not Domain.SWITCH:
        recipe = _chained_recipe(collective)
    elif algorithm is Algorithm.TREE and inside and collective is _AR:
        recipe = replace(recipe, waited=_chain_and_back_waited)
    if domain is Domain.MESH and algorithm in (Algorithm.RING, Algorithm.TREE):
        recipe = replace(recipe, demand=pairs)
    elif not wraps and recipe.demand is cycle:
        straight = _LINES.get(collective, folded_cycle)
        recipe = replace(recipe, demand=straight if alone else folded_cycle)
    elif whole and wraps and domain in (Domain.RING, Domain.TORUS):
        recipe = replace(recipe, demand=_BOTH_WAYS.get(recipe.demand, recipe.demand))
    return recipe


def recipes(
    collective: Collective, algorithm: Algorithm, system: System, members: Members
) -> list[AlgorithmRecipe]:
    """The row for each level of a system, for groups with ``members`` among a parent's children."""
    alone = sum(m > 1 for m in members) == 1
    between = innermost_network_level(system)
    return [
        recipe_at(
            collective,
            algorithm,
            link.domain,
            link.reduces,
            link.medium in INSIDE if between < 0 else level > between,
            link.wraps,
            # Pieces that stop at every child would load its inner ports twice.
            alone and not link.through,
            members[level] == system.hierarchy.cardinalities[level],
        )
        for level, link in enumerate(system.links)
    ]


def innermost_network_level(system: System) -> int:
    """The innermost level of the network: -1 if no link is slower than the devices' own.

    The devices' own level is the innermost with several children; a single node still has a network
    around it.
    """
    latencies = [link.latency_seconds for link in system.links]
    levels = (level for level, m in enumerate(system.hierarchy.cardinalities) if m > 1)
    own = max(levels, default=0)
    return max((level for level in range(own) if latencies[level] > latencies[own]), default=-1)


def offered_algorithms(
    collective: Collective,
    members: Members,
    links: Sequence[Link],
    choice: Choice,
    unfit: Collection[Algorithm] = (),
) -> Sequence[Algorithm]:
    """The algorithms a step may use, in the order that settles ties.

    ``AUTO`` offers all that fit, like ``ANY``: ``nccl_model`` knows which of these a runtime has.

    Algorithms in ``unfit`` are excluded: groups that form no grid cannot use some that ``members``
    would allow. Direct exchange is not offered over several dimensions of a torus: its messages
    would turn corners that ``crossing`` does not model. In-network reduction needs a switch that
    reduces at one level at least, and at all levels for a collective without a tree.
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
        and algorithm not in unfit
    ]
    if choice.one is None:
        return fitting
    if choice.one in fitting:
        return [choice.one]
    fallback = _FALLBACKS.get(collective, Algorithm.RING)
    return [fallback if fallback in fitting else Algorithm.RING]


_FALLBACKS = {Collective.ALL_TO_ALL: Algorithm.DIRECT}
"""The only algorithm that libraries have for a collective, whatever the caller chooses."""
