"""Costs of redistributions: tables over the shardings of a value's maker and of its reader.

A redistribution runs whenever its value is made: once per step, for each microbatch, or in each
iteration of a loop. A sum over microbatches is reduced once, when it is complete, unless the plan
scatters each microbatch's addend. A value that another stage reads is sent there in its new
sharding.
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
    """Stage and phase of an operation, and its iterations per step if it is in a loop, else 0."""

    stage: int
    when: StepPhase = StepPhase.AFTER
    looped: int = 0


@dataclass(frozen=True, eq=False)
class ProducedValue:
    """A value's shardings by the state of the variable that decides it, and its stage.

    ``passing``: whether it is made once for each microbatch.
    """

    variable: int
    lies: tuple[Sharding, ...]
    stage: int
    passing: bool = False


ReadFrequency = tuple[int, bool]
"""Iterations per step if in a loop, else 0; and whether a value is made for each microbatch."""


@dataclass
class RedistributionTables:
    """Cached tables: equal types with equal shardings at both ends share a table.

    ``sent`` has the seconds of each pair of shardings, keyed by ``numbers`` instead of the
    shardings themselves, which are slow to hash.
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
        """Returns a table with a row per state of the maker, and a column per reader's state."""
        ends = None if made.stage in (EVERYWHERE, where.stage) else (made.stage, where.stage)
        how = where.looped, made.passing
        key = value, made.lies, wanted, how, ends
        if key not in self.tables:
            rows, columns = _number_distinct(made.lies), _number_distinct(wanted)
            table = self._sent(value, rows[0], columns[0], how)
            if ends is not None:
                times = self._times(made.lies[0], wanted[0], made.passing)
                table += [times * self._send_seconds(value, end, *ends) for end in columns[0]]
            self.tables[key] = table[np.ix_(rows[1], columns[1])]
        return self.tables[key]

    def _sent(
        self, value: Type, before: Sequence[Sharding], after: Sequence[Sharding], how: ReadFrequency
    ) -> Costs:
        sent = self.sent.setdefault((value, how), {})
        made, read = ([(self._number(end), end) for end in side] for side in (before, after))
        for (row, source), (column, target) in product(made, read):
            if (row, column) not in sent:
                sent[row, column] = self._step_seconds(value, source, target, how)
        return np.array([[sent[row, column] for column, _ in read] for row, _ in made])

    def _number(self, sharding: Sharding) -> int:
        return self.numbers.setdefault(sharding, len(self.numbers))

    def _send_seconds(self, value: Type, sharding: Sharding, source: int, target: int) -> float:
        """Returns the seconds to send a value to another stage, each device to its counterpart."""
        part = Type(value.dtype, part_shape(value, sharding, self.plan.parts))
        return self.prices.handing(part.bytes, source, target)

    def _step_seconds(
        self, value: Type, before: Sharding, after: Sharding, how: ReadFrequency
    ) -> float:
        """Returns the seconds of all repetitions in a step; infinite if impossible."""
        looped, passing = how
        if before == after:
            return 0.0
        if looped:
            return looped * self._seconds(value, before, after)
        if self.plan.scattered and _completes(before, after):
            part = after.laid(TIME, ReductionKind.SUM)
            if self._size(value, part) < self._size(value, before):
                halves = (before, part), (part, after)
                return sum(self._step_seconds(value, *half, how) for half in halves)
        return self._times(before, after, passing) * self._seconds(value, before, after)

    def _times(self, before: Sharding, after: Sharding, passing: bool) -> int:
        """Returns how often per step a value outside loops is redistributed or sent."""
        repeats = passing or TIME in (*before.axes, *after.axes)
        return self.plan.microbatches if repeats and not _completes(before, after) else 1

    def _size(self, value: Type, sharding: Sharding) -> int:
        return prod(part_shape(value, sharding, self.plan.parts))

    def _seconds(self, value: Type, before: Sharding, after: Sharding) -> float:
        """Returns the seconds for one microbatch; infinite if impossible."""
        parts = self.plan.parts
        try:
            if before.along(TIME) != after.along(TIME):
                find_redistribution(Value("", value), before, after, parts, self.plan.first)
            return self.prices.sending(*strip_time(value, before, after, parts))
        except InputError:
            return inf


def _completes(before: Sharding, after: Sharding) -> bool:
    """Whether a redistribution completes a sum over microbatches."""
    return before.along(TIME) is ReductionKind.SUM and after.along(TIME) is None


def _number_distinct(
    shardings: tuple[Sharding, ...],
) -> tuple[Sequence[Sharding], npt.NDArray[np.int64]]:
    """Returns the distinct shardings, and the index of each sharding among them."""
    number = {sharding: at for at, sharding in enumerate(dict.fromkeys(shardings))}
    return list(number), np.array([number[sharding] for sharding in shardings])
