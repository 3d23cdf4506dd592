"""Spells the passes of a step with microbatches, and their order, for the emitted file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from textwrap import wrap
from typing import Any

from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import part_shape
from synth.primitives.calls.spelling import spell_words
from synth.step.emit.jax import spell_partition
from synth.step.emit.language import TargetLanguage
from synth.step.emit.listing import Listing
from synth.step.emit.sections import ProgramSection
from synth.step.emit.spelling import WIDTH, spell_statement
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
"""The template variables of a step without microbatches."""


@dataclass(frozen=True)
class ScheduleText:
    """A plan with microbatches, with or without stages."""

    plan: Plan

    @property
    def order(self) -> PipelineSchedule:
        """The plan's schedule; on one stage each microbatch runs forward, then backward."""
        if self.plan.order is not None:
            return self.plan.order
        kinds = (Pass.FORWARD, Pass.BACKWARD)
        numbers = range(self.plan.microbatches)
        return PipelineSchedule((tuple(Action(0, kind, n) for n in numbers for kind in kinds),))

    def words(self, step: Step, listing: Listing, language: TargetLanguage) -> dict[str, Any]:
        """Returns the template variables."""
        return {
            "stages": self.order.stages > 1,
            "order": [_break_row(row) for row in str(self.order).splitlines()],
            "microbatches": self.plan.microbatches,
            "written": ["\n".join(_spell_pass(section, listing)) for section in listing.sections],
            "transfers": list(self._transfers(listing, language)),
            "lies": self._lies(listing),
            "parts": "PARTS",
            "mine": "mine",
            "part_of": "parts_of",
            "reports": self._reports(step, listing),
        }

    def _transfers(self, listing: Listing, language: TargetLanguage) -> Iterator[str]:
        for transfer in listing.transfers:
            shape = part_shape(transfer.value.type, transfer.sharding, self.plan.parts)
            [name] = listing.named([(transfer.value, transfer.sharding)])
            arguments = [f'"{word}"' for word in (name, transfer.source, transfer.target)]
            if language.gets_by_shape:
                arguments += [str(shape), language.spelling.dtypes[transfer.value.type.dtype]]
            comment = transfer.value.type.sharded(transfer.sharding)
            yield "\n".join(spell_statement(f"Transfer({', '.join(arguments)}),", comment))

    def _lies(self, listing: Listing) -> Mapping[str, str]:
        """Returns the sharding of one microbatch of each value between passes, as JAX spells it."""
        spelled: dict[str, str] = {}
        for section in listing.sections:
            pairs = [
                pair for pair in (*section.reads, *section.makes) if isinstance(pair[0], Value)
            ]
            for name, (_, sharding) in zip(listing.named(pairs), pairs, strict=True):
                inside = sharding.without(TIME)
                axes = [axis for _, axis in inside.partial]
                partial = f", {spell_words(axes)}" if axes else ""
                spelled[name] = f"Lies({spell_partition(inside)}{partial})"
        return spelled

    def _reports(self, step: Step, listing: Listing) -> int:
        """Returns the reporting rank: the first rank of the stage of the first computed result."""
        stages = {
            name: section.phase.stage
            for section in listing.sections
            if section.phase is not None
            for name in listing.named(section.makes)
        }
        given = {value.name for value in step.graph.inputs}
        reporting = [stages[out.kept] for out in listing.outputs if out.name not in given]
        place = self.order.rank_of[max(reporting[0], 0)] if reporting else 0
        axes = [axis for axis, _ in self.plan.axes]
        if PIPE not in axes:
            return 0
        return place * prod(size for _, size in self.plan.axes[axes.index(PIPE) + 1 :])


def _spell_pass(section: ProgramSection, listing: Listing) -> list[str]:
    """Spells an entry of the table of passes; a pass that makes nothing only sends."""
    phase = section.phase
    assert phase is not None
    lists = {
        "reads": section.reads,
        "makes": section.makes,
        "adds": section.adds,
        "keeps": section.keeps,
    }
    named = {key: listing.named(values) for key, values in lists.items()}
    head = f'    "{phase}": Pass('
    arguments = [str(phase.stage), section.function if section.makes else "None"]
    arguments += [f"{key}={spell_words(names)}" for key, names in named.items() if names]
    if len(short := f"{head}{', '.join(arguments)}),") <= WIDTH:
        return [short]
    lines = (wrap(line, WIDTH - 12, break_on_hyphens=False) for line in arguments)
    return [head, *(_spell_argument(argument) for argument in lines), "    ),"]


def _spell_argument(lines: list[str]) -> str:
    """Spells an argument on several lines."""
    return "        " + "\n            ".join(lines) + ","


def _break_row(row: str) -> str:
    """Spells a row of a schedule as a string, on several lines if it is long."""
    lines = wrap(row, WIDTH - len('        " "'))
    return (
        f"\n{' ' * 4}".join(f'"{line} "' for line in lines[:-1])
        + "\n    " * (len(lines) > 1)
        + f'"{lines[-1]}"'
    )
