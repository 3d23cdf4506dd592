"""Sentences on why an answer is faster than the runtime's default, or is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from hierarchies.units import format_bytes, format_duration
from synth.collective.price.steps import InstructionPrice, total_busy_seconds
from synth.collective.price.ways import MEMORY
from synth.collective.ranking.how_to_get import AdviceKind, advise
from synth.collective.ranking.request import Answer, DefaultComparison
from synth.collective.ranking.settings import explain_scope

_ALIKE = 1e-3
"""Times that differ by less than this share count as the same."""
_BUSY = 0.9
"""A resource busy for this share of the time hides latencies."""
_Stripes = Sequence[tuple[Sequence[InstructionPrice], int]]
"""For each concurrent program: the prices of one of its segments, and its segment count."""


def explain_answer(answer: Answer) -> list[str]:
    """Returns sentences: where the default and the answer spend time, and what to do.

    The default is what the runtime would choose on the same placement. An answer without steps
    needs one sentence.
    """
    if not answer.prices:
        return ["there is nothing to do: a reduction group is one device"]
    seconds = answer.candidate.seconds
    default_name = f"the default ({answer.defaults.chosen}, {answer.defaults.protocol.value})"
    default_time = _describe_time(
        default_name, [(answer.defaults.baseline, 1)], answer.baseline_seconds
    )
    missing = [answer.not_measured] if answer.not_measured else []
    if not _is_different(answer):
        kept = "this is what the runtime would do: keep the default"
        return [default_time, *_explain_calls(answer), *missing, kept]
    said = answer.called.said if answer.called and answer.called.each and not answer.plain else ()
    verdict = (*said, *_explain_calls(answer), *missing, _verdict(answer))
    if len(answer.stripes) > 1:
        return [default_time, *_describe_stripes(answer), *verdict]
    segments = answer.candidate.segments
    lines = [default_time, _describe_time("this program", [(answer.prices, segments)], seconds)]
    if segments > 1 and len(answer.prices) > 1:
        lines.append(
            f"its steps overlap in {segments} segments; one after the other they would take "
            f"{format_duration(answer.barrier_seconds)}"
        )
    elif len(answer.prices) == 1:
        [price] = answer.prices
        how = price.algorithm.value if price.algorithm else "no algorithm"
        lines.append(f"it is the same collective by {how}, {price.protocol.value}")
    else:
        lines.append("its steps wait for each other: links that a step does not use stand idle")
    return [*lines, *verdict]


def _explain_calls(answer: Answer) -> Iterator[str]:
    """Compares the answer with the bound for switches that reduce, where that bound is higher."""
    calls, seconds = answer.calls_bound, answer.candidate.seconds
    if calls and seconds and calls.seconds > answer.bound.seconds * (1 + _ALIKE):
        yield (
            "switches that add up are used by two calls, a pull of the sum and a write to all: so "
            f"nothing takes less than {format_duration(calls.seconds)} "
            f"({calls.seconds / seconds:.0%})"
        )


def _is_different(answer: Answer) -> bool:
    """Whether an answer differs from the default."""
    if len(answer.stripes) > 1:
        return True
    ours, default = (
        [(price.what, price.algorithm, price.protocol, price.size_bytes) for price in prices]
        for prices in (answer.prices, answer.defaults.baseline)
    )
    return ours != default


def _describe_time(who: str, stripes: _Stripes, seconds: float) -> str:
    """Returns a clause: the duration, how busy each level is, and the bytes per port."""
    busy, carried = total_busy_seconds(stripes), dict[str, float]()
    for prices, count in stripes:
        for name, size in chain.from_iterable(price.bytes_per_port for price in prices):
            carried[name] = carried.get(name, 0.0) + count * size
    parts = [
        f"{name} is busy {time / seconds:.0%}"
        + ("" if name == MEMORY else f" ({format_bytes(carried[name])} a port)")
        for name, time in sorted(busy.items(), key=lambda item: -item[1])
        if name == MEMORY or name in carried
    ]
    overlaps = len(stripes) > 1 or stripes[0][1] > 1
    waits = max(count * sum(price.latency_seconds for price in prices) for prices, count in stripes)
    if not overlaps and waits > seconds / 100:
        parts.append(f"messages are waited for {waits / seconds:.0%}")
    if overlaps and waits > seconds / 2 > 0 and max(busy.values(), default=0.0) < _BUSY * seconds:
        parts.append("messages are waited for most of the time")
    return f"{who} takes {format_duration(seconds)}, of which {', '.join(parts)}"


def _describe_stripes(answer: Answer) -> list[str]:
    """Returns the total duration, and how busy each stripe keeps the levels."""
    seconds = answer.candidate.seconds
    stripes = [(stripe.prices, stripe.part.segments) for stripe in answer.stripes]
    lines = [
        _describe_time(
            f"the payload split over {len(stripes)} programs side by side", stripes, seconds
        )
    ]
    whole = sum(part.size_bytes for part in answer.candidate.parts)
    for number, (part, stripe) in enumerate(zip(answer.candidate.parts, stripes, strict=True), 1):
        busy = sorted(total_busy_seconds([stripe]).items(), key=lambda item: -item[1])
        links = ", ".join(f"{name} {time / seconds:.0%}" for name, time in busy if name != MEMORY)
        cut = f" in {part.segments} segments" if part.segments > 1 else ""
        share = f"{part.size_bytes / whole:.0%} of the payload{cut}"
        lines.append(f"stripe {number}, {share}, keeps busy: {links}")
    shared = "while one waits for messages or for a level, others use the links"
    return [*lines, f"stripes share the links and wait for nothing of each other: {shared}"]


def _describe_advice(answer: Answer) -> str:
    """Returns how to get an answer, and the scope of an environment setting."""
    how = advise(answer)
    return (
        f"{how.text}; {explain_scope(answer.goal.value, line=how.text)}"
        if how.by is AdviceKind.ENVIRONMENT
        else how.text
    )


def _verdict(answer: Answer) -> str:
    """Compares an answer with the default, and says how to get the gain."""
    default, ours = answer.baseline_seconds, answer.runtime_seconds
    how = _describe_advice(answer)
    match answer.against_default:
        case DefaultComparison.FASTER:
            return f"it is {default / ours:.2f} times as fast as the default: {how}"
        case DefaultComparison.SLOWER:
            return f"it takes {answer.candidate.seconds / default:.2f} times as long: {how}"
        case DefaultComparison.SAME:
            return f"tie with the default (within prediction error): {how}"
        case DefaultComparison.NOT_OFFERED:
            return how
