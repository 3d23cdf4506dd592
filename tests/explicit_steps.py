"""Steps with their groups written out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from grammar import Collective
from price_oracle import Group, Machine, Message, Wire
from synth.collective.algorithms.algorithms import Algorithm

ROUNDS = {Collective.ALL_REDUCE: 2, Collective.REDUCE_SCATTER: 1, Collective.ALL_GATHER: 1}


ROOTED = (Collective.REDUCE, Collective.BROADCAST)


def messages(
    machine: Machine, algorithm: Algorithm, collective: Collective, group: Group
) -> Iterator[Message]:
    to_first = collective is Collective.REDUCE
    match algorithm:
        case Algorithm.RING if collective in ROOTED:
            return machine.chain(group, to_first)
        case Algorithm.RING if ROUNDS[collective] == 1 and machine.is_along_a_line(group):
            return machine.straight(group, to_owners=collective is Collective.REDUCE_SCATTER)
        case Algorithm.RING:
            return machine.ring(group, ROUNDS[collective])
        case Algorithm.HALVING_DOUBLING:
            return machine.halving(group, ROUNDS[collective])
        case Algorithm.DIRECT:
            return machine.direct(group, ROUNDS[collective])
        case Algorithm.TREE if collective in ROOTED:
            return machine.rooted_trees(group, to_first)
        case Algorithm.TREE:
            return machine.tree(group)


def explicit(
    machine: Machine, algorithm: Algorithm, collective: Collective, group: Group
) -> dict[Wire, Fraction]:
    """What a group puts on every link, message by message, in shares of a buffer."""
    if algorithm is Algorithm.RING and collective in ROOTED:
        return machine.chained(group, collective is Collective.REDUCE)
    return machine.loads(messages(machine, algorithm, collective, group))
