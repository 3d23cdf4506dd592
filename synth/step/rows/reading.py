"""What it costs to read a value otherwise than it was made: tables over the ways of both ends.

A redistribution is done as often as what it is of is made: once a step, for each microbatch, or, in
a loop, each time. A sum over microbatches is sent once, when it is complete, unless the plan has it
sent in parts by each. What another stage made also goes there, as it is to lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf, prod

import numpy as np
import numpy.typing as npt

from grammar.tensors.operations import Value
from grammar.tensors.sharding import ReductionKind, Sharding, Type, part_shape
from hierarchies import InputError
from synth.search.pairwise import Costs
from synth.step.rows.prices import Prices
from synth.step.sharding.microbatches import find_redistribution, strip_time
from synth.step.sharding.plan import TIME, Plan
from synth.step.sharding.program import EVERYWHERE, StepPhase


@dataclass(frozen=True)
class OperationSite:
    """On which stage something is done and when, and how often in a step in a loop, else 0."""

    stage: int
    when: StepPhase = StepPhase.AFTER
    looped: int = 0


@dataclass(frozen=True, eq=False)
class ProducedValue:
    """How a value lies by the state of the variable that decides it, and the stage that has it.

    ``passing``: whether it is made once for each microbatch.
    """

    variable: int
    lies: tuple[Sharding, ...]
    stage: int
    passing: bool = False


ReadFrequency = tuple[int, bool]
"""How often in a loop, else 0; and whether a value is made for each microbatch."""


@dataclass
class RedistributionTables:
    """Tables so far: of equal values that lie alike and are read alike there is one.

    ``sent`` has the seconds of each pair of shardings, by their ``numbers``: to look one up by all
    that it says takes long.
    """

    plan: Plan
    prices: Prices
    numbers: dict[Sharding, int] = field(default_factory=dict)
    sent: dict[tuple[Type, ReadFrequency], dict[tuple[int, int], float]] = field(
        default_factory=dict
    )
    tables: dict[object, Costs] = field(default_factory=dict)

    def table(
        self, value: Type, made: ProducedValue, wanted: tuple[Sharding, ...], where: OperationSite
    ) -> Costs:
        """A row for each state of what makes it, a column for each of what reads it."""
        ends = None if made.stage in (EVERYWHERE, where.stage) else (made.stage, where.stage)
        how = where.looped, made.passing
        key = value, made.lies, wanted, how, ends
        if key not in self.tables:
            rows, columns = _number_distinct(made.lies), _number_distinct(wanted)
            table = self._sent(value, rows[0], columns[0], how)
            if ends is not None:
                times = self._times(made.lies[0], wanted[0], made.passing)
                table += [times * self._handed(value, one, *ends) for one in columns[0]]
            self.tables[key] = table[np.ix_(rows[1], columns[1])]
        return self.tables[key]

    def _sent(
        self, value: Type, before: Sequence[Sharding], after: Sequence[Sharding], how: ReadFrequency
    ) -> Costs:
        sent = self.sent.setdefault((value, how), {})
        made, read = ([(self._number(one), one) for one in side] for side in (before, after))
        for (one, source), (other, target) in product(made, read):
            if (one, other) not in sent:
                sent[one, other] = self._moved(value, source, target, how)
        return np.array([[sent[one, other] for other, _ in read] for one, _ in made])

    def _number(self, one: Sharding) -> int:
        return self.numbers.setdefault(one, len(self.numbers))

    def _handed(self, value: Type, lies: Sharding, source: int, target: int) -> float:
        """From stage to stage, each device to its twin."""
        part = Type(value.dtype, part_shape(value, lies, self.plan.parts))
        return self.prices.handing(part.bytes, source, target)

    def _moved(self, value: Type, before: Sharding, after: Sharding, how: ReadFrequency) -> float:
        """In a step, as often as it is done; infinite where it cannot be."""
        looped, passing = how
        if before == after:
            return 0.0
        if looped:
            return looped * self._seconds(value, before, after)
        if self.plan.scattered and _completes(before, after):
            part = after.laid(TIME, ReductionKind.SUM)
            if self._size(value, part) < self._size(value, before):
                both = (before, part), (part, after)
                return sum(self._moved(value, *one, how) for one in both)
        return self._times(before, after, passing) * self._seconds(value, before, after)

    def _times(self, before: Sharding, after: Sharding, passing: bool) -> int:
        """How often, outside of loops, something that was made lies otherwise, or elsewhere."""
        each = (passing or TIME in (*before.axes, *after.axes)) and not _completes(before, after)
        return self.plan.microbatches if each else 1

    def _size(self, value: Type, lies: Sharding) -> int:
        return prod(part_shape(value, lies, self.plan.parts))

    def _seconds(self, value: Type, before: Sharding, after: Sharding) -> float:
        """Of one microbatch; infinite where it cannot be."""
        parts = self.plan.parts
        try:
            if before.along(TIME) != after.along(TIME):
                find_redistribution(Value("", value), before, after, parts, self.plan.first)
            return self.prices.sending(*strip_time(value, before, after, parts))
        except InputError:
            return inf


def _completes(before: Sharding, after: Sharding) -> bool:
    """Whether a sum over microbatches is read when it is complete."""
    return before.along(TIME) is ReductionKind.SUM and after.along(TIME) is None


def _number_distinct(
    several: tuple[Sharding, ...],
) -> tuple[Sequence[Sharding], npt.NDArray[np.int64]]:
    """Those that differ, and which of them each is."""
    number = {one: at for at, one in enumerate(dict.fromkeys(several))}
    return list(number), np.array([number[one] for one in several])
