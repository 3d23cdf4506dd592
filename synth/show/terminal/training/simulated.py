"""A simulated training step: time by part, memory, and what would make it faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.planned import PlanOfStep
from synth.ask.answers.training.simulated import (
    BytesOfKind,
    CollectiveOfRank,
    GainOfStep,
    MeasuredOfStep,
    RankOfStep,
    SimulateReply,
)
from synth.show.terminal.placements import render_placements
from synth.show.terminal.style import (
    Columns,
    axes_text,
    paragraphs,
    pluralize,
    precision_lines,
    price_basis,
    shape,
    speed_lines,
    table,
    table_of,
)

LEAST_SHARE = 0.001
"""Requests with less exposed time than this share of the step are put together."""

TIME_PARTS: Mapping[str, Callable[[PlanOfStep | RankOfStep], float]] = {
    "compute": lambda part: part.compute_seconds,
    "exposed communication": lambda part: part.exposed_seconds,
    "bubble": lambda part: part.idle_seconds,
}
"""How the busiest rank spends a step: parts that add up."""
_MOST_RANKS = 16
_TENTH = 0.1


def render_simulation(answer: SimulateReply) -> RenderableType:
    """Return the time of a step by part, its collectives, its memory, and possible gains."""
    return paragraphs(
        *_head(answer),
        "",
        _parts(answer),
        *_collective_lines(answer),
        *_ranks(answer),
        "",
        *_memory(answer),
        "",
        *_gains(answer),
        "\n-o FOLDER writes the timeline for ui.perfetto.dev, and the collectives as a job.",
    )


def _head(answer: SimulateReply) -> Iterator[RenderableType]:
    machine = answer.machine
    yield f"{answer.name} over {axes_text(answer.axes)}: {pluralize(answer.devices, 'device')}"
    yield f"plan: {answer.plan}"
    yield f"on {machine.system}, {shape(machine.levels)}, each a {machine.device}"
    yield from render_placements(machine.levels, answer.axes, [machine.placement])
    low, high = answer.interval
    yield (
        f"\n{format_duration(answer.seconds)} a step, {format_duration(low)} to"
        f" {format_duration(high)} for fast or slow compute ({answer.compute_source});"
        f" {price_basis(machine.prices)}"
    )
    if answer.measured:
        yield measured_share(answer.measured)
    rate = f"{answer.tokens_per_second:,.0f} tokens/s" if answer.tokens else ""
    per = f"{answer.tokens_per_second / answer.devices:,.0f} each" if answer.tokens else ""
    whole = f"{answer.samples / answer.seconds:,.4g} samples/s" if answer.seconds else ""
    peak = answer.machine.peak_flops_per_second / 1e12
    rates = [text for text in (rate, per, whole) if text]
    yield (
        f"{', '.join(rates)}; model FLOP utilisation {answer.utilisation:.1%} of"
        f" {peak:,.{0 if peak >= 1 else 2}f} Tflop/s"
        f" in {machine.precision or machine.dtype}"
    )
    yield from precision_lines(machine.precision)
    yield from speed_lines(answer.speed)


def measured_share(found: MeasuredOfStep) -> str:
    """Return the share of the local seconds that a profile measured."""
    rest = "; the rest is by the roofline" if found.share < 1 else ""
    return (
        f"{found.share:.0%} of the local seconds are measured ({found.measured_kinds} of"
        f" {pluralize(found.kinds, 'kind')} of operations, {found.profile}){rest}"
    )


def _parts(answer: SimulateReply) -> RenderableType:
    rank, several = answer.ranks[answer.busiest], len(answer.ranks) > 1
    rows = table("a step of the busiest rank" if several else "a step", "", "share")
    for name, seconds_of in TIME_PARTS.items():
        if name != "bubble" or several:
            seconds = seconds_of(rank)
            share = seconds / answer.seconds if answer.seconds else 0.0
            rows.add_row(name, format_duration(seconds), f"{share:.1%}")
    return rows


def _collective_lines(answer: SimulateReply) -> Iterator[RenderableType]:
    shown = [call for call in answer.sent if call.exposed_seconds > LEAST_SHARE * answer.seconds]
    rest = [call for call in answer.sent if call not in shown]
    yield ""
    if shown:
        yield table_of(
            shown, _COLLECTIVE_CELLS, right="times,total,exposed,hidden", wraps="request"
        )
    if rest:
        seconds = sum(call.seconds for call in rest)
        yield (
            f"{pluralize(len(rest), 'other request')}: {format_duration(seconds)}, almost all"
            " hidden"
        )
    if not answer.sent:
        yield "no communication"


_COLLECTIVE_CELLS: Columns[CollectiveOfRank] = {
    "request": lambda call: call.request,
    "times": lambda call: str(call.times),
    "total": lambda call: format_duration(call.seconds),
    "exposed": lambda call: format_duration(call.exposed_seconds),
    "hidden": lambda call: f"{call.hidden:.0%}",
}

_Row = tuple[int, RankOfStep]


def _ranks(answer: SimulateReply) -> Iterator[RenderableType]:
    if len(answer.ranks) < 2:
        return
    yield ""
    rows = list(enumerate(answer.ranks))
    yield table_of(rows[:_MOST_RANKS], _RANKS, right="compute,communication,bubble,memory")
    if len(rows) > _MOST_RANKS:
        yield f"and {pluralize(len(rows) - _MOST_RANKS, 'more rank')}: --json has all"
    yield f"{answer.idle_share:.1%} of all ranks' time is bubble"


_RANKS: Columns[_Row] = {
    "rank": lambda row: str(row[0]),
    "stages": lambda row: ", ".join(map(str, row[1].stages)),
    "compute": lambda row: format_duration(row[1].compute_seconds),
    "communication": lambda row: format_duration(row[1].exposed_seconds),
    "bubble": lambda row: f"{row[1].idle_share:.1%}",
    "memory": lambda row: format_bytes(row[1].memory.bytes),
}


def _memory(answer: SimulateReply) -> Iterator[RenderableType]:
    moment, there = answer.memory, answer.machine.device_bytes
    where = f" on rank {answer.fullest}" if len(answer.ranks) > 1 else ""
    yield (
        f"peak memory: {format_bytes(moment.bytes)} of {format_bytes(there)}{where}, at"
        f" {format_duration(moment.seconds)}"
    )
    if not answer.fits:
        buffers = moment.largest[:3]
        largest = ", ".join(f"{buffer.name} ({format_bytes(buffer.bytes)})" for buffer in buffers)
        yield f"DOES NOT FIT: {format_bytes(moment.bytes - there)} too much; the largest: {largest}"
    yield table_of(moment.kinds, _KINDS, right="bytes")


_KINDS: Columns[BytesOfKind] = {
    "what": lambda kind: kind.what.value,
    "bytes": lambda kind: format_bytes(kind.bytes),
}


def _gains(answer: SimulateReply) -> Iterator[RenderableType]:
    yield table_of(answer.gains, _GAINS, right="step time,gain")
    enough = [gain.what for gain in answer.gains if gain.gain >= _TENTH]
    if enough:
        yield f"changes that gain 10 % or more: {'; '.join(enough)}"
    else:
        yield "none of these gains 10 %"


_GAINS: Columns[GainOfStep] = {
    "what if": lambda gain: gain.what,
    "step time": lambda gain: format_duration(gain.seconds),
    "gain": lambda gain: f"{gain.gain:.1%}",
}
