"""What pages say of one answer beside its row: which devices hold what, its steps, its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hierarchies import InputError, asked_as, in_words
from synth.report.coordinates import coordinates
from synth.report.topology import Topology, unit_name
from synth.tables.placements import placement_of
from synth.tables.rows import Ranking
from synth.tables.style import request_text
from synth.verbs.answers.degraded import UnevenAnswer, UnevenReply
from synth.verbs.answers.parts import StepPrice, as_json
from synth.verbs.answers.planning import PlanReply
from synth.verbs.answers.ranked import Answer, RankingReply, SweepReply


@dataclass(frozen=True)
class Device:
    """A device that is drawn; where it is missing it has no coordinates."""

    number: int
    name: str
    coordinates: tuple[int, ...]


def title(answer: Ranking) -> str:
    """What was asked, in a line."""
    if isinstance(answer, PlanReply):
        return f"{answer.title or answer.job} on {machine(answer)}"
    sizes = answer.bytes if isinstance(answer, SweepReply) else [answer.bytes]
    return f"{request_text(answer.request, answer.reduce, *sizes)} on {machine(answer)}"


def machine(answer: Ranking) -> str:
    """The machine that was asked of, as one asks for it."""
    return asked_as(answer.system.name, [level.count for level in answer.system.levels])


def answers_of(answer: Ranking) -> Sequence[Answer | UnevenAnswer]:
    """The answers of the rows; of a range of sizes those at the smallest of each stretch."""
    match answer:
        case SweepReply():
            return [one.first for one in answer.stretches]
        case PlanReply():
            return [one.answer for one in answer.entries]
        case RankingReply() | UnevenReply():
            return answer.answers


def answer_at(answer: Ranking, index: int) -> Answer | UnevenAnswer:
    """The answer of a row. Raises InputError where there is no such row."""
    answers = answers_of(answer)
    if not 0 <= index < len(answers):
        raise InputError(f"there is no answer {index}", where="answer", hint="rows count from 0")
    return answers[index]


def over_at(answer: Ranking, index: int) -> Sequence[str]:
    """The axes that the collective of a row is over."""
    return answer.entries[index].over if isinstance(answer, PlanReply) else answer.reduce


def lies(ranking: Ranking, answer: Answer | UnevenAnswer) -> Sequence[str]:
    """Where each axis lies, in words; nothing on a machine that lacks devices."""
    if isinstance(answer, Answer):
        with suppress(InputError):  # names that no machine has, in an answer that was sent
            return in_words(placement_of(ranking.system.levels, answer.axes, answer.placement))
    return ()


def devices(ranking: Ranking, answer: Answer | UnevenAnswer, drawn: Topology) -> Sequence[Device]:
    """The devices that are drawn, each with its coordinates on the axes."""
    placed: Mapping[int, tuple[int, ...]] = {}
    if isinstance(ranking, UnevenReply):
        placed = {device: (rank,) for rank, device in enumerate(ranking.uneven.devices)}
    elif isinstance(answer, Answer):
        placed = {one: coordinates(at, answer.placement) for one, at in drawn.devices.items()}
    return [
        Device(one, unit_name(ranking.system.levels, at), placed.get(one, ()))
        for one, at in drawn.devices.items()
    ]


def steps(answer: Answer | UnevenAnswer) -> Iterator[tuple[str, StepPrice]]:
    """The steps, numbered; with several stripes each has both numbers, as in ``2.1``."""
    counts = [len(answer.steps)]
    if isinstance(answer, Answer):
        counts = [one.steps for one in answer.stripes]
    numbers = [
        f"{stripe + 1}.{step + 1}" if len(counts) > 1 else str(step + 1)
        for stripe, count in enumerate(counts)
        for step in range(count)
    ]
    return zip(numbers, answer.steps, strict=True)


def emit_question(ranking: Ranking, index: int, target: str) -> dict[str, Any]:
    """The question of ``emit`` for the answer of one row; the other answers are left out of it.

    Raises InputError where there is no such row.
    """
    answer = answer_at(ranking, index)
    chosen: dict[str, Any] = {}
    match ranking:
        case PlanReply():
            alone = {"entries": [ranking.entries[index]], "ranking": []}
            given = as_json(ranking.model_copy(update=alone))
        case SweepReply():
            stretch = ranking.stretches[index]
            chosen["bytes"] = stretch.from_bytes
            given = as_json(ranking.model_copy(update={"stretches": [stretch], "sizes": []}))
        case RankingReply() | UnevenReply():
            given = as_json(ranking.model_copy(update={"answers": [answer]}))
    if isinstance(answer, Answer):
        chosen["placement"] = answer.placement
    return {"from": given, "rank": answer.rank, "target": target, **chosen}
