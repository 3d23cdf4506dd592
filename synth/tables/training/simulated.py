"""A training step on the clock in few words: what takes how long, memory, what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.tables.placements import placed
from synth.tables.style import axes_text, follows, many, paragraphs, shape, table, table_of
from synth.verbs.answers.training.simulated import (
    BytesOfKind,
    GainOfStep,
    MeasuredOfStep,
    RankOfStep,
    SentOnClock,
    SimulateReply,
)

SHOWN = 0.001
"""Requests that wait for less than this share of the step are put together."""

_MOST_RANKS = 16
_TENTH = 0.1


def simulate(answer: SimulateReply) -> RenderableType:
    """Seconds of a step, and where they go."""
    return paragraphs(
        *_head(answer),
        "",
        _parts(answer),
        *_sent(answer),
        *_ranks(answer),
        "",
        *_memory(answer),
        "",
        *_gains(answer),
        "\n-o FOLDER writes the timeline for ui.perfetto.dev, and the collectives as a job.",
    )


def _head(answer: SimulateReply) -> Iterator[RenderableType]:
    machine = answer.machine
    yield f"{answer.name} over {axes_text(answer.axes)}: {many(answer.devices, 'device')}"
    yield f"plan: {answer.plan}"
    yield f"on {machine.system}, {shape(machine.levels)}, each a {machine.device}"
    yield from placed(machine.levels, answer.axes, [machine.placement])
    low, high = answer.interval
    yield (
        f"\n{duration(answer.seconds)} a step, {duration(low)} to {duration(high)} as computing is"
        f" fast or slow ({answer.how}); {follows(machine.prices)}"
    )
    if answer.measured:
        yield measured_share(answer.measured)
    rate = f"{answer.tokens_per_second:,.0f} tokens/s" if answer.tokens else ""
    per = f"{answer.tokens_per_second / answer.devices:,.0f} each" if answer.tokens else ""
    whole = f"{answer.samples / answer.seconds:,.4g} samples/s" if answer.seconds else ""
    peak = answer.machine.peak_flops_per_second / 1e12
    said = [one for one in (rate, per, whole) if one]
    yield (
        f"{', '.join(said)}; model FLOP utilisation {answer.utilisation:.1%} of"
        f" {peak:,.{0 if peak >= 1 else 2}f} Tflop/s"
        f" in {machine.dtype}"
    )


def measured_share(found: MeasuredOfStep) -> str:
    """How much of what is computed goes by a profile."""
    rest = "; the rest is by the roofline" if found.share < 1 else ""
    return (
        f"{found.share:.0%} of the local seconds are measured ({found.measured_kinds} of"
        f" {many(found.kinds, 'kind')} of operations, {found.profile}){rest}"
    )


def _parts(answer: SimulateReply) -> RenderableType:
    """What the busiest rank does in a step, in parts that add up."""
    rank = answer.ranks[answer.busiest]
    lines = table("a step of the busiest rank" if len(answer.ranks) > 1 else "a step", "", "share")
    for what, seconds in (
        ("computing", rank.compute_seconds),
        ("waiting for communication", rank.exposed_seconds),
        *([("waiting for other stages", rank.idle_seconds)] if len(answer.ranks) > 1 else []),
    ):
        share = seconds / answer.seconds if answer.seconds else 0.0
        lines.add_row(what, duration(seconds), f"{share:.1%}")
    return lines


def _sent(answer: SimulateReply) -> Iterator[RenderableType]:
    shown = [one for one in answer.sent if one.exposed_seconds > SHOWN * answer.seconds]
    rest = [one for one in answer.sent if one not in shown]
    yield ""
    if shown:
        yield table_of(shown, _SENT, right="times,in all,exposed,hidden", wraps="sent")
    if rest:
        seconds = sum(one.seconds for one in rest)
        yield f"{many(len(rest), 'other request')}: {duration(seconds)}, next to all of it hidden"
    if not answer.sent:
        yield "nothing is sent"


_SENT: Mapping[str, Callable[[SentOnClock], str]] = {
    "sent": lambda one: one.request,
    "times": lambda one: str(one.times),
    "in all": lambda one: duration(one.seconds),
    "exposed": lambda one: duration(one.exposed_seconds),
    "hidden": lambda one: f"{one.hidden:.0%}",
}

_Row = tuple[int, RankOfStep]


def _ranks(answer: SimulateReply) -> Iterator[RenderableType]:
    if len(answer.ranks) < 2:
        return
    yield ""
    rows = list(enumerate(answer.ranks))
    yield table_of(rows[:_MOST_RANKS], _RANKS, right="computing,waiting,bubble,memory")
    if len(rows) > _MOST_RANKS:
        yield f"and {many(len(rows) - _MOST_RANKS, 'more rank')}: --json has all"
    yield f"{answer.idle_share:.1%} of all ranks' time is bubble"


_RANKS: Mapping[str, Callable[[_Row], str]] = {
    "rank": lambda row: str(row[0]),
    "stages": lambda row: ", ".join(map(str, row[1].stages)),
    "computing": lambda row: duration(row[1].compute_seconds),
    "waiting": lambda row: duration(row[1].exposed_seconds),
    "bubble": lambda row: f"{row[1].idle_share:.1%}",
    "memory": lambda row: volume(row[1].memory.bytes),
}


def _memory(answer: SimulateReply) -> Iterator[RenderableType]:
    moment, there = answer.memory, answer.machine.device_bytes
    where = f" on rank {answer.fullest}" if len(answer.ranks) > 1 else ""
    yield (
        f"memory: {volume(moment.bytes)} of {volume(there)}{where}, the most of all moments, at"
        f" {duration(moment.seconds)}"
    )
    if not answer.fits:
        yield (
            f"DOES NOT FIT: by {volume(moment.bytes - there)}; the largest are"
            f" {', '.join(f'{one.name} ({volume(one.bytes)})' for one in moment.largest[:3])}"
        )
    yield table_of(moment.kinds, _KINDS, right="bytes")


_KINDS: Mapping[str, Callable[[BytesOfKind], str]] = {
    "what": lambda one: one.what,
    "bytes": lambda one: volume(one.bytes),
}


def _gains(answer: SimulateReply) -> Iterator[RenderableType]:
    yield table_of(answer.gains, _GAINS, right="a step,gains")
    enough = [one.what for one in answer.gains if one.gain >= _TENTH]
    if enough:
        yield f"10 % are gained by: {'; '.join(enough)}"
    else:
        yield "none of these gains 10 %"


_GAINS: Mapping[str, Callable[[GainOfStep], str]] = {
    "if": lambda one: one.what,
    "a step": lambda one: duration(one.seconds),
    "gains": lambda one: f"{one.gain:.1%}",
}
