"""The largest even machines inside an uneven machine, and the hosts of the devices outside.

For a node of seven GPUs and a node of eight, one core is 2 x 7; the eighth GPU sends into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from grammar import Collective, Instruction
from hierarchies import Digit, Tree
from synth.collective.degraded.programs import Ranks, Survivors
from synth.collective.semantics.schedule import GroupList
from synth.collective.verify.concrete import GroupStep, group_step_of

MOST_CORES = 4


@dataclass(frozen=True)
class EvenCore:
    """An even machine inside an uneven one: 2 nodes of 7 GPUs where one of 16 GPUs is gone.

    ``counts`` are the children at each level; ``ranks`` are in the order of the tree's digits. A
    group in ``hosts`` is a rank inside followed by the ranks outside that send to it.
    """

    survivors: Survivors
    counts: tuple[int, ...]
    tree: Tree
    ranks: Ranks
    hosts: tuple[Ranks, ...]
    _steps: dict[Instruction, GroupStep] = field(default_factory=dict, repr=False, compare=False)

    @property
    def text(self) -> str:
        return str(self.tree)

    @property
    def ends(self) -> tuple[GroupStep, ...]:
        """First and last step: devices outside reduce to their hosts, and receive the result."""
        collectives = (Collective.REDUCE, Collective.BROADCAST) if self.hosts else ()
        return tuple(GroupStep(collective, self.hosts) for collective in collectives)

    def step(self, instruction: Instruction) -> GroupStep:
        """An instruction on the core's tree as groups of ranks."""
        if instruction not in self._steps:
            plain = group_step_of(instruction, self.tree)
            groups = tuple(tuple(self.ranks[d] for d in group) for group in plain.groups)
            self._steps[instruction] = replace(plain, groups=groups)
        return self._steps[instruction]

    def among(self, instruction: Instruction) -> GroupList:
        """An instruction on the core's tree as groups of devices."""
        return self.survivors.listed(self.step(instruction))


def find_cores(survivors: Survivors) -> tuple[EvenCore, ...]:
    """The largest even machines of two or more devices, largest first, at most ``MOST_CORES``.

    Leaves out a machine that another matches or exceeds at every level, as 2 x 7 exceeds 2 x 6.
    """
    machines: dict[tuple[int, ...], Ranks] = {}
    cards = survivors.system.hierarchy.cardinalities
    for inner in product(*(range(1, card + 1) for card in cards[1:])):
        chosen = _choose_units(survivors, (cards[0], *inner))
        if len(chosen[1]) > 1:
            machines[chosen[0], *inner] = chosen[1]
    best = [
        counts
        for counts in machines
        if not any(
            other != counts and all(a >= b for a, b in zip(other, counts, strict=True))
            for other in machines
        )
    ]
    best.sort(key=lambda counts: (-len(machines[counts]), counts))
    return tuple(_core(survivors, counts, machines[counts]) for counts in best[:MOST_CORES])


def _choose_units(survivors: Survivors, counts: tuple[int, ...]) -> tuple[int, Ranks]:
    """The number of outermost units with these counts of children at inner levels; their ranks."""
    hierarchy = survivors.system.hierarchy
    good = set(survivors.devices)
    kept: dict[int, list[int]] = {}
    for level in range(len(counts) - 1, -1, -1):
        card = hierarchy.cardinalities[level]
        common = Counter(unit % card for unit in good)
        parents: dict[int, list[int]] = {}
        # Positions that most parents have come first: groups then join the same position of each
        # node.
        for unit in sorted(good, key=lambda unit: (-common[unit % card], unit)):
            parents.setdefault(unit // card, []).append(unit)
        enough = {p: sorted(u[: counts[level]]) for p, u in parents.items()
                  if level == 0 or len(u) >= counts[level]}  # fmt: skip
        kept = {p: units if level == len(counts) - 1 else [d for u in units for d in kept[u]]
                for p, units in enough.items()}  # fmt: skip
        if level == 0:
            outermost = len(enough.get(0, []))
            rank = {device: rank for rank, device in enumerate(survivors.devices)}
            return outermost, tuple(rank[device] for device in kept.get(0, []))
        good = set(enough)
    raise AssertionError("a hierarchy has a level")


def _core(survivors: Survivors, counts: tuple[int, ...], ranks: Ranks) -> EvenCore:
    names = survivors.system.hierarchy.names
    digits = tuple(Digit(n, c) for n, c in zip(names, counts, strict=True) if c > 1)
    inside = set(ranks)
    outside = [rank for rank in range(survivors.count) if rank not in inside]
    hosted = _host_outside_ranks(survivors, ranks, outside)
    return EvenCore(survivors, counts, Tree(digits), ranks, tuple(hosted))


def _host_outside_ranks(
    survivors: Survivors, ranks: Ranks, outside: Sequence[int]
) -> Iterator[Ranks]:
    """Yields groups of one rank inside (first) and the ranks outside that send to it.

    A rank outside sends within the smallest unit, such as its node, that has ranks inside; among
    those it takes one in the units with the fewest senders so far.
    """
    levels = range(len(survivors.system.hierarchy.levels))
    busy: Counter[tuple[int, int]] = Counter()
    senders: dict[int, list[int]] = {}
    for rank in outside:
        candidates = next(
            nearby
            for level in (*reversed(levels), -1)
            if (
                nearby := [
                    r for r in ranks if survivors.unit(r, level) == survivors.unit(rank, level)
                ]
            )
        )
        host = min(
            candidates, key=lambda r: ([busy[lv, survivors.unit(r, lv)] for lv in levels], r)
        )
        busy.update((level, survivors.unit(host, level)) for level in levels)
        senders.setdefault(host, []).append(rank)
    for host in sorted(senders):
        yield (host, *senders[host])
