"""What the file of a step with microbatches says of passes: what they are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from textwrap import wrap
from typing import Any

from grammar.tensors.operations import Step
from grammar.tensors.sharding import part_shape
from synth.step.emit.jax import spell_partition
from synth.step.emit.language import TargetLanguage
from synth.step.emit.listing import Listing, SectionFunction
from synth.step.emit.spelling import WIDTH, spell_statement, spell_words
from synth.step.schedules import Action, Pass, PipelineSchedule
from synth.step.sharding import Plan
from synth.step.sharding.plan import PIPE, TIME

UNSCHEDULED: Mapping[str, Any] = {
    "stages": False,
    "written": (),
    "parts": "AXES",
    "mine": "INPUTS",
    "part_of": "part_of",
    "reports": 0,
}
"""What templates ask for where there are no microbatches."""


@dataclass(frozen=True)
class ScheduleText:
    """A plan with microbatches, with or without stages."""

    plan: Plan

    @property
    def order(self) -> PipelineSchedule:
        """That of the plan; on one stage each microbatch goes forward and back."""
        if self.plan.order is not None:
            return self.plan.order
        each = range(self.plan.microbatches)
        both = (Pass.FORWARD, Pass.BACKWARD)
        return PipelineSchedule((tuple(Action(0, kind, one) for one in each for kind in both),))

    def words(self, step: Step, found: Listing, language: TargetLanguage) -> dict[str, Any]:
        """What templates ask for."""
        return {
            "stages": self.order.stages > 1,
            "order": [_break_row(row) for row in str(self.order).splitlines()],
            "microbatches": self.plan.microbatches,
            "written": ["\n".join(_spell_pass(one)) for one in found.written],
            "transfers": list(self._transfers(found, language)),
            "lies": self._lies(found),
            "parts": "PARTS",
            "mine": "mine",
            "part_of": "parts_of",
            "reports": self._reports(step, found),
        }

    def _transfers(self, found: Listing, language: TargetLanguage) -> Iterator[str]:
        names = {key: name for one in found.written for key, name in one.names.items()}
        for one in found.transfers:
            shape = part_shape(one.value.type, one.sharding, self.plan.parts)
            name = names[one.value.name, one.sharding]
            told = [f'"{word}"' for word in (name, one.source, one.target)]
            if language.gets_by_shape:
                told += [str(shape), language.dtypes[one.value.type.dtype]]
            what = one.value.type.sharded(one.sharding)
            yield "\n".join(spell_statement(f"Transfer({', '.join(told)}),", what))

    def _lies(self, found: Listing) -> Mapping[str, str]:
        """How one microbatch of each value between passes lies, as JAX says it."""
        lies: dict[str, str] = {}
        for one in found.written:
            both = (*one.section.reads, *one.section.makes)
            for name, (_, sharding) in zip((*one.reads, *one.makes), both, strict=True):
                inside = sharding.without(TIME)
                axes = [axis for _, axis in inside.partial]
                partial = f", {spell_words(axes)}" if axes else ""
                lies[name] = f"Lies({spell_partition(inside)}{partial})"
        return lies

    def _reports(self, step: Step, found: Listing) -> int:
        """The rank of the first result that is no input's next value, the first of its stage."""
        stages = {
            name: one.section.phase.stage
            for one in found.written
            for name in one.makes
            if one.section.phase is not None
        }
        given = {value.name for value in step.graph.inputs}
        said = [stages[one.kept] for one in found.outputs if one.name not in given]
        place = self.order.rank_of[max(said[0], 0)] if said else 0
        behind = [axis for axis, _ in self.plan.axes]
        if PIPE not in behind:
            return 0
        return place * prod(size for _, size in self.plan.axes[behind.index(PIPE) + 1 :])


def _spell_pass(one: SectionFunction) -> list[str]:
    """An entry of the table of passes."""
    phase = one.section.phase
    assert phase is not None
    lists = {"reads": one.reads, "makes": one.makes, "adds": one.adds, "keeps": one.keeps}
    head = f'    "{one.key}": Pass('
    told = [str(phase.stage), one.function or "None"]
    told += [f"{name}={spell_words(words)}" for name, words in lists.items() if words]
    if len(short := f"{head}{', '.join(told)}),") <= WIDTH:
        return [short]
    lines = (wrap(line, WIDTH - 12, break_on_hyphens=False) for line in told)
    return [head, *(_spell_argument(some) for some in lines), "    ),"]


def _spell_argument(lines: list[str]) -> str:
    """An argument, its lines below each other."""
    return "        " + "\n            ".join(lines) + ","


def _break_row(row: str) -> str:
    """A row of an order as a string, on several lines where it is long."""
    lines = wrap(row, WIDTH - len('        " "'))
    return (
        f"\n{' ' * 4}".join(f'"{line} "' for line in lines[:-1])
        + "\n    " * (len(lines) > 1)
        + f'"{lines[-1]}"'
    )
