"""Details of one answer for pages: devices, steps, settings and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from grammar import Goal
from hierarchies import InputError, describe_axes, spell_machine
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.parts import (
    AdviceKind,
    StepPricePart,
    explain_scope,
    to_json,
)
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import DefaultComparison, PlacedAnswer, RankingReply, SweepReply
from synth.show.report.topology import Topology, coordinates, unit_name
from synth.show.terminal.placements import placement_of
from synth.show.terminal.rows import Ranking, is_plain
from synth.show.terminal.style import nccl_name, request_text


@dataclass(frozen=True)
class DrawnDevice:
    """A drawn device; a missing one has no coordinates."""

    number: int
    name: str
    coordinates: tuple[int, ...]


@dataclass(frozen=True)
class NoCodeAdvice:
    """The setting of an answer that is a call of the runtime, whose code alone changes nothing.

    ``settings``: lines of the environment, each with the sizes that it is for; ``words`` about
    them, or why there is nothing to paste.
    """

    words: str
    settings: Sequence[tuple[str, str]] = ()


def title(answer: Ranking) -> str:
    """Return the question in a line."""
    if isinstance(answer, PlanReply):
        return f"{answer.title or answer.job} on {machine(answer)}"
    sizes = answer.bytes if isinstance(answer, SweepReply) else [answer.bytes]
    return f"{request_text(answer.request, answer.reduce, *sizes)} on {machine(answer)}"


def machine(answer: Ranking) -> str:
    """Return the machine as a question names it."""
    asked = spell_machine(answer.system.name, [level.count for level in answer.system.levels])
    known = [asked, *["calibrated"] * (answer.system.prices == "calibrated")]
    if answer.system.nccl and answer.system.nccl.stated_by != "default":
        known.append(nccl_name(answer.system))
    return ", ".join(known)


def answers_of(answer: Ranking) -> Sequence[PlacedAnswer | UnevenAnswerPart]:
    """Return the answers of the rows; of a range of sizes those at the smallest of each stretch.

    What is worth measuring there is so at the size at which the stretch is to be measured.
    """
    match answer:
        case SweepReply():
            return [
                stretch.first.model_copy(update={"worth_measuring": stretch.trial.worth_measuring})
                if stretch.trial
                else stretch.first
                for stretch in answer.stretches
            ]
        case PlanReply():
            return [entry.answer for entry in answer.entries]
        case RankingReply() | UnevenReply():
            return answer.answers


def answer_at(answer: Ranking, index: int) -> PlacedAnswer | UnevenAnswerPart:
    """Return the answer of a row. Raises InputError where there is no such row."""
    answers = answers_of(answer)
    if not 0 <= index < len(answers):
        raise InputError(f"there is no answer {index}", where="answer", hint="rows count from 0")
    return answers[index]


def axes_at(answer: Ranking, index: int) -> Sequence[str]:
    """Return the axes of the collective of a row."""
    return answer.entries[index].over if isinstance(answer, PlanReply) else answer.reduce


def request_at(ranking: Ranking, index: int) -> Goal:
    """Return the collective of a row."""
    return ranking.entries[index].request if isinstance(ranking, PlanReply) else ranking.request


def placement_lines(ranking: Ranking, answer: PlacedAnswer | UnevenAnswerPart) -> Sequence[str]:
    """Return the placement of each axis in words; empty on a machine that lacks devices."""
    if isinstance(answer, PlacedAnswer):
        with suppress(InputError):  # an answer from a caller may have names that no machine has
            return describe_axes(placement_of(ranking.system.levels, answer.axes, answer.placement))
    return ()


def devices(
    ranking: Ranking, answer: PlacedAnswer | UnevenAnswerPart, drawn: Topology
) -> Sequence[DrawnDevice]:
    """Return the drawn devices with their coordinates on the axes."""
    placed: Mapping[int, tuple[int, ...]] = {}
    if isinstance(ranking, UnevenReply):
        placed = {device: (rank,) for rank, device in enumerate(ranking.uneven.devices)}
    elif isinstance(answer, PlacedAnswer):
        placed = {number: coordinates(at, answer.placement) for number, at in drawn.devices.items()}
    return [
        DrawnDevice(number, unit_name(ranking.system.levels, at), placed.get(number, ()))
        for number, at in drawn.devices.items()
    ]


def steps(answer: PlacedAnswer | UnevenAnswerPart) -> Iterator[tuple[str, StepPricePart]]:
    """Return the steps, numbered; with several stripes each has both numbers, as in ``2.1``."""
    counts = [len(answer.steps)]
    if isinstance(answer, PlacedAnswer):
        counts = [stripe.steps for stripe in answer.stripes]
    numbers = [
        f"{stripe + 1}.{step + 1}" if len(counts) > 1 else str(step + 1)
        for stripe, count in enumerate(counts)
        for step in range(count)
    ]
    return zip(numbers, answer.steps, strict=True)


def no_code_advice(ranking: Ranking, index: int) -> NoCodeAdvice | None:
    """Return the setting of a row that is a call of the runtime; None for other programs.

    Raises InputError where there is no such row.
    """
    answer = answer_at(ranking, index)
    if isinstance(ranking, UnevenReply) or not isinstance(answer, PlacedAnswer):
        return None
    stretch = ranking.stretches[index] if isinstance(ranking, SweepReply) else None
    if stretch and stretch.keeps_default:
        return NoCodeAdvice("Nothing to paste: no program is faster beyond prediction error.")
    request = request_at(ranking, index)
    ends = (stretch.first, stretch.last) if stretch else (answer,)
    if not all(end.segments == 1 and is_plain(end, request) for end in ends):
        return None
    lines = [end.setting(ranking.system) for end in ends]
    if not any(lines):
        return NoCodeAdvice(f"Nothing to paste: {_no_code_reason(answer)}.")
    sizes = (stretch.from_bytes, stretch.until_bytes) if stretch else (0,)
    at = [format_bytes(size) if len(set(lines)) > 1 else "" for size in sizes]
    pairs = zip(at, lines, strict=True)
    settings = dict.fromkeys((to, line or "nothing to set") for to, line in pairs)
    return NoCodeAdvice(_environment_text(answer, next(filter(None, lines))), tuple(settings))


def no_code_text(ranking: Ranking, index: int) -> str:
    """Return the notice above the files of a row that keeps the default; empty for other rows.

    Raises InputError where there is no such row.
    """
    answer = answer_at(ranking, index)
    if not isinstance(answer, PlacedAnswer) or no_code_advice(ranking, index) or not answer.steps:
        return ""
    return answer.default_notice


def _environment_text(answer: PlacedAnswer, line: str) -> str:
    """Return the explanation of environment variables, of which ``line`` is an example."""
    default = f"the default ({_default(answer)})"
    match answer.against_default:
        case DefaultComparison.SAME if not answer.is_default:
            opening = (
                f"This ties with {default} within prediction error: keep the default, or measure"
                " this. It is one"
            )
        case DefaultComparison.SLOWER:
            opening = f"This is slower than {default}: keep the default. It is one"
        case _:
            opening = "One"
    return (
        f"{opening} call of the runtime. The code alone runs the runtime's default algorithm;"
        " set this one in the environment of every process before it starts;"
        f" {explain_scope(answer.steps[0].collective, line=line)}. It was chosen for this size:"
    )


def _default(answer: PlacedAnswer) -> str:
    """Return the runtime's own choice, as ``tree, ll128, 356 us``."""
    chosen = answer.default
    return f"{chosen.name}, {chosen.protocol.value}, {format_duration(chosen.seconds)}"


def _no_code_reason(answer: PlacedAnswer) -> str:
    """Return the reason why there is nothing to paste."""
    if answer.is_default:
        return "this is the runtime's default"
    if answer.advice.by is AdviceKind.NOTHING:
        return answer.advice.text
    return f"no runtime offers this; the default is {_default(answer)}"


def emit_question(
    ranking: Ranking, index: int, target: str, size_bytes: int | None = None
) -> dict[str, Any]:
    """Return the question of ``emit`` for the answer of one row, without the other answers.

    ``size_bytes`` selects one of a range of sizes. The default is the size at which the row is to
    be tried, as its commands name that file, else the first size. Raises InputError if there is no
    such row.
    """
    answer = answer_at(ranking, index)
    chosen: dict[str, Any] = {}
    alone: dict[str, Any] = {"answers": [answer]}
    match ranking:
        case PlanReply():
            alone = {"entries": [ranking.entries[index]], "ranking": []}
        case SweepReply():
            stretch = ranking.stretches[index]
            own = stretch.trial.bytes if stretch.trial else stretch.from_bytes
            chosen["bytes"] = size_bytes or own
            alone = {"stretches": [stretch], "sizes": []}
    if isinstance(answer, PlacedAnswer):
        chosen["placement"] = answer.placement
    given = to_json(ranking.model_copy(update=alone))
    return {"from": given, "rank": answer.rank, "target": target, **chosen}
