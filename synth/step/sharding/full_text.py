"""Writes and parses a plan in full as text: every input, every row, every stage.

    plan mlp-tiny
    axes data=2
    in features [data,-]
    v1 data [0,R]->[0]
    v40 {
      in v20 [data,-]
      v21 data [0,R]->[0]
    }

Replicated inputs and operations are left out. An operation is named by its first result. A row has
the sharding of operands and results along an axis: a dimension that it cuts, R (replicated), or a
partial sum, max or min. Settings of the whole plan come first: ``microbatches 2``, ``remat
layers``, ``scattered``, ``fewest requests``, ``order 0F0 0F1 ...`` for each rank, ``layers 7, 14
times 8, 7`` of stages, ``bucket v40 v41``, ``buckets of 2 layers``. If there are stages, each
operation names its stage: ``v1 stage 0 data [0,R]->[0]``, or ``everywhere``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from grammar.tensors.operations import Graph, Operation, Step
from grammar.tensors.sharding import ReductionKind, Sharding, replicated_sharding
from hierarchies import InputError, error_context
from synth.step.factors import Row, list_all_rows
from synth.step.redistribution.paths import CostPriority
from synth.step.schedules import parse_schedule as parse_order
from synth.step.sharding.applying import check_cuts
from synth.step.sharding.layers.prepared import prepare_step
from synth.step.sharding.plan import Cuts, Plan, Rows, replicate_all
from synth.step.sharding.program import EVERYWHERE
from synth.step.sharding.recipes import spell_sharding, spell_shares
from synth.step.sharding.stages import check_order
from synth.step.sharding.text import RUNS, parse_axes, parse_sharding, parse_shares


def plan_text(step: Step, plan: Plan) -> str:
    """Returns the text of a plan for a step. Raises InputError for the plan of another step."""
    ready = prepare_step(step, plan)
    check_cuts(ready.graph, plan.cuts, step.name)
    lines = [f"plan {step.name}", f"axes {' '.join(f'{axis}={size}' for axis, size in plan.axes)}"]
    if plan.microbatches > 1:
        lines.append(f"microbatches {plan.microbatches}")
    if plan.remat:
        lines.append("remat layers")
    if plan.scattered:
        lines.append("scattered")
    if plan.first is CostPriority.REQUESTS:
        lines.append("fewest requests")
    if plan.order is not None:
        lines += [f"order {' '.join(map(str, rank))}" for rank in plan.order.ranks]
    if plan.layers:
        lines.append(f"layers {spell_shares(plan.layers)}")
    if plan.bucket_layers > 1:
        lines.append(f"buckets of {plan.bucket_layers} layers")
    lines += [f"bucket {' '.join(names)}" for names in plan.buckets]
    lines += _cut_lines(ready.graph, plan.cuts, plan.stages)
    return "\n".join(lines) + "\n"


def _cut_lines(graph: Graph, cuts: Cuts, stages: Sequence[int] = ()) -> Iterator[str]:
    for value, sharding in zip(graph.inputs, cuts.inputs, strict=True):
        if sharding.axes:
            yield f"in {value} {spell_sharding(sharding)}{_spell_partial(sharding)}"
    for at, (operation, choice) in enumerate(zip(graph.operations, cuts.operations, strict=True)):
        words = [operation.results[0].name]
        if stages:
            words.append("everywhere" if stages[at] == EVERYWHERE else f"stage {stages[at]}")
        if isinstance(choice, Cuts):
            assert operation.body is not None, operation.primitive
            yield " ".join((*words, "{"))
            yield from (f"  {line}" for line in _cut_lines(operation.body, choice))
            yield "}"
        elif choice or stages:
            yield " ".join(
                (*words, *(f"{axis} {_spell_row(operation, row)}" for axis, row in choice))
            )


def _spell_partial(sharding: Sharding) -> str:
    inside = ",".join(f"{kind.value}:{axis}" for kind, axis in sharding.partial)
    return f"{{{inside}}}" if inside else ""


def _spell_row(operation: Operation, row: Row) -> str:
    """Spells a row: ``[0,R]->[0]``, with the factor's name if another row looks the same."""
    alike = [other for other in list_all_rows(operation) if str(other) == str(row)]
    return _spell_plain_row(row) + (f"({_spell_factor(row)})" if len(alike) > 1 else "")


def _spell_plain_row(row: Row) -> str:
    return str(row).replace(" ", "")


def _spell_factor(row: Row) -> str:
    return "none" if row.factor is None else row.factor.name.replace(" ", "_")


def parse_plan(text: str, step: Step) -> Plan:
    """Parses a plan of a step. ``parse_plan(plan_text(step, plan), step) == plan``.

    Raises InputError with the line if it is not understood, and for a plan of another step.
    """
    lines = [(at, line.split("#")[0].strip()) for at, line in enumerate(text.splitlines(), 1)]
    reader = _PlanReader(step, [(at, line) for at, line in lines if line])
    return reader.plan()


_SHARDING = r"\[[^\[\]]*\]"
_INPUT = re.compile(rf"in (\S+) ({_SHARDING}(?:\{{flat[^}}]*\}})?)(?:\{{([\w:,]+)\}})?")
_OPERATION = re.compile(
    rf"(\S+)(?: (everywhere|stage \d{{1,4}}))?"
    rf"((?: \w+ {_SHARDING}->{_SHARDING}(?:\(\w+\))?)*)( \{{)?"
)
_WORDS: Mapping[str, Mapping[str, Any]] = {
    "remat layers": {"remat": True},
    "scattered": {"scattered": True},
    "fewest requests": {"first": CostPriority.REQUESTS},
}
"""Settings of the whole plan without a number."""
_COUNTS: Mapping[str, re.Pattern[str]] = {
    "microbatches": re.compile(r"microbatches (0*[1-9]\d{0,5})"),
    "bucket_layers": re.compile(r"buckets of (0*[1-9]\d{0,5}) layers"),
}
_LAYERS = re.compile(rf"layers ({RUNS})")
_ROW = re.compile(rf"(\w+) ({_SHARDING}->{_SHARDING})(?:\((\w+)\))?")


def _parse_setting(line: str) -> Mapping[str, Any]:
    """Returns the field that a line sets for the whole plan; empty for any other line."""
    for name, pattern in _COUNTS.items():
        if match := pattern.fullmatch(line):
            return {name: int(match[1])}
    return _WORDS.get(line, {})


@dataclass
class _PlanReader:
    step: Step
    lines: list[tuple[int, str]]
    at: int = 0
    stages: dict[str, int] = field(default_factory=dict)

    def plan(self) -> Plan:
        plan = self.head()
        ready = prepare_step(self.step, plan)
        cuts = self.cuts(ready.graph, nested=False)
        if self.at < len(self.lines):
            self.refuse("nothing to close")
        names = [operation.results[0].name for operation in ready.graph.operations]
        missing = [name for name in names if name not in self.stages]
        if self.stages and missing:
            problem = f"no stage for {len(missing)} operations: {', '.join(missing[:4])}"
            raise InputError(problem, where="plan", hint="with stages, every operation needs one")
        stages = tuple(self.stages[name] for name in names) if self.stages else ()
        return replace(plan, cuts=cuts, stages=stages)

    def head(self) -> Plan:
        """Parses the settings of the whole plan."""
        name = self.word("plan")
        if name != self.step.name:
            hint = "make a new plan: operations of another step have other names"
            raise InputError(f"a plan of {name}, not of {self.step.name}", where="plan", hint=hint)
        plan = Plan(parse_axes(self.word("axes")), Cuts((), ()))
        order = []
        while self.at < len(self.lines):
            match self.lines[self.at][1].split():
                case words if setting := _parse_setting(" ".join(words)):
                    plan = replace(plan, **setting)
                case ["order", *actions]:
                    order.append(" ".join(actions))
                case ["layers", *_] if shares := _LAYERS.fullmatch(self.lines[self.at][1]):
                    plan = replace(plan, layers=parse_shares(shares[1]))
                case ["bucket", *names] if names:
                    plan = replace(plan, buckets=(*plan.buckets, tuple(names)))
                case _:
                    break
            self.at += 1
        if order:
            with error_context("the order of the plan"):
                plan = replace(plan, order=parse_order("\n".join(order)))
        check_order(plan)
        return plan

    def word(self, key: str) -> str:
        line = self.lines[self.at][1] if self.at < len(self.lines) else ""
        if not line.startswith(f"{key} "):
            self.refuse(f"expected '{key} ...'")
        self.at += 1
        return line.removeprefix(key).strip()

    def cuts(self, graph: Graph, *, nested: bool) -> Cuts:
        inputs = {value.name: replicated_sharding(len(value.type.shape)) for value in graph.inputs}
        by_name = {operation.results[0].name: operation for operation in graph.operations}
        chosen: dict[str, Rows | Cuts] = {}
        while self.at < len(self.lines) and self.lines[self.at][1] != "}":
            line = self.lines[self.at][1]
            if found := _INPUT.fullmatch(line):
                if found[1] not in inputs:
                    self.refuse(f"no input {found[1]}")
                inputs[found[1]] = self.sharding(found)
                self.at += 1
                continue
            match = _OPERATION.fullmatch(line)
            if match is None:
                self.refuse("expected 'in NAME [...]' or 'NAME AXIS [...]->[...]'")
            if match[1] not in by_name or match[1] in chosen:
                self.refuse(f"{'again' if match[1] in chosen else 'no operation makes'} {match[1]}")
            chosen[match[1]] = self.operation(by_name[match[1]], match, nested=nested)
        return Cuts(
            tuple(inputs.values()),
            tuple(map(chosen.get, by_name, replicate_all(graph).operations)),
        )

    def operation(self, operation: Operation, match: re.Match[str], *, nested: bool) -> Rows | Cuts:
        if match[2] and nested:
            self.refuse("operations in a loop are on the stage of the loop")
        if match[2]:
            word = match[2].split()[-1]
            self.stages[match[1]] = EVERYWHERE if word == "everywhere" else int(word)
        if (operation.body is not None) != bool(match[4]) or (match[4] and match[3]):
            self.refuse(
                f"{operation.primitive} {'repeats' if operation.body else 'has'} no body like this"
            )
        if operation.body is None:
            rows = tuple((row[1], self.row(operation, row)) for row in _ROW.finditer(match[3]))
            self.at += 1
            return rows
        self.at += 1
        cuts = self.cuts(operation.body, nested=True)
        if self.at >= len(self.lines):
            self.refuse("missing '}' at the end of a loop")
        self.at += 1
        return cuts

    def row(self, operation: Operation, match: re.Match[str]) -> Row:
        legal = list_all_rows(operation)
        matching = [
            row
            for row in legal
            if _spell_plain_row(row) == match[2] and match[3] in (None, _spell_factor(row))
        ]
        if not matching:
            rows = ", ".join(map(_spell_plain_row, legal))
            self.refuse(f"{operation.primitive} has no such row; it has {rows}")
        return matching[0]

    def sharding(self, match: re.Match[str]) -> Sharding:
        bare = parse_sharding(match[2]) if match[2] != "[]" else replicated_sharding(0)
        pairs = [word.partition(":") for word in (match[3] or "").split(",") if word]
        kinds = {kind.value: kind for kind in ReductionKind}
        for kind, _, _ in pairs:
            if kind not in kinds:
                self.refuse(f"no kind {kind!r}: sum, max or min")
        return replace(bare, partial=tuple((kinds[kind], axis) for kind, _, axis in pairs))

    def refuse(self, problem: str) -> NoReturn:
        last = self.lines[min(self.at, len(self.lines) - 1)] if self.lines else (1, "")
        raise InputError(f"{problem}: {last[1][:60]!r}", where=f"plan, line {last[0]}")
