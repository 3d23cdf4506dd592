"""Why an answer beats what the runtime would do, or does not: in words, from its prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hierarchies.units import format_bytes, format_duration
from synth.collective.price.steps import InstructionPrice, sum_by_name, total_busy_seconds
from synth.collective.price.ways import MEMORY
from synth.collective.ranking.how_to_get import AdviceKind, advise
from synth.collective.ranking.request import Answer, DefaultComparison
from synth.collective.ranking.settings import explain_scope

_ALIKE = 1e-3
"""Times that differ by less than this share count as the same."""
_BUSY = 0.9
"""Where something is busy for this share of the time, waits are hidden."""
_Stripes = Sequence[tuple[Sequence[InstructionPrice], int]]
"""For each program that runs: the prices of one of its segments, and how many it has."""


def explain_answer(answer: Answer) -> list[str]:
    """Sentences: what the default waits for, what the answer waits for, and what to do.

    The default is what the runtime would choose on the same placement. An answer without steps
    needs no words.
    """
    if not answer.prices:
        return ["there is nothing to do: a reduction group is one device"]
    seconds = answer.candidate.seconds
    default = f"the default ({answer.defaults.chosen}, {answer.defaults.protocol.value})"
    plain = _describe_time(default, [(answer.defaults.baseline, 1)], answer.baseline_seconds)
    missing = [answer.not_measured] if answer.not_measured else []
    if not _is_different(answer):
        kept = "this is what the runtime would do: keep the default"
        return [plain, *_explain_calls(answer), *missing, kept]
    said = answer.called.said if answer.called and answer.called.each and not answer.plain else ()
    verdict = (*said, *_explain_calls(answer), *missing, _verdict(answer))
    if len(answer.stripes) > 1:
        return [plain, *_describe_stripes(answer), *verdict]
    segments = answer.candidate.segments
    lines = [plain, _describe_time("this program", [(answer.prices, segments)], seconds)]
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
    """How near the answer is to what switches that add up can do, where that is below the bound."""
    calls, seconds = answer.calls_bound, answer.candidate.seconds
    if calls and seconds and calls.seconds > answer.bound.seconds * (1 + _ALIKE):
        yield (
            "switches that add up are used by two calls, a pull of the sum and a write to all: so "
            f"nothing takes less than {format_duration(calls.seconds)} "
            f"({calls.seconds / seconds:.0%})"
        )


def _is_different(answer: Answer) -> bool:
    """Whether an answer is anything else than the default."""
    if len(answer.stripes) > 1:
        return True
    ours, plain = (
        [(price.what, price.algorithm, price.protocol, price.size_bytes) for price in prices]
        for prices in (answer.prices, answer.defaults.baseline)
    )
    return ours != plain


def _describe_time(who: str, stripes: _Stripes, seconds: float) -> str:
    """Half a sentence: how long something takes, how busy each level is, with how many bytes."""
    busy = _busy_seconds(stripes)
    carried = sum_by_name(
        _multiply_rows(p.bytes_per_port, many) for prices, many in stripes for p in prices
    )
    parts = [
        f"{name} is busy {time / seconds:.0%}"
        + ("" if name == MEMORY else f" ({format_bytes(carried[name])} a port)")
        for name, time in sorted(busy.items(), key=lambda item: -item[1])
        if name == MEMORY or name in carried
    ]
    overlaps = len(stripes) > 1 or stripes[0][1] > 1
    waits = max(many * sum(price.latency_seconds for price in prices) for prices, many in stripes)
    if not overlaps and waits > seconds / 100:
        parts.append(f"messages are waited for {waits / seconds:.0%}")
    if overlaps and waits > seconds / 2 > 0 and max(busy.values(), default=0.0) < _BUSY * seconds:
        parts.append("messages are waited for most of the time")
    return f"{who} takes {format_duration(seconds)}, of which {', '.join(parts)}"


def _describe_stripes(answer: Answer) -> list[str]:
    """How long all takes, and which levels each stripe keeps busy meanwhile."""
    seconds = answer.candidate.seconds
    stripes = [(stripe.prices, stripe.part.segments) for stripe in answer.stripes]
    lines = [
        _describe_time(
            f"the payload split over {len(stripes)} programs side by side", stripes, seconds
        )
    ]
    whole = sum(part.size_bytes for part in answer.candidate.parts)
    for number, (part, stripe) in enumerate(zip(answer.candidate.parts, stripes, strict=True), 1):
        busy = sorted(_busy_seconds([stripe]).items(), key=lambda item: -item[1])
        links = ", ".join(f"{name} {time / seconds:.0%}" for name, time in busy if name != MEMORY)
        cut = f" in {part.segments} segments" if part.segments > 1 else ""
        share = f"{part.size_bytes / whole:.0%} of the payload{cut}"
        lines.append(f"stripe {number}, {share}, keeps busy: {links}")
    shared = "while one waits for messages or for a level, others use the links"
    return [*lines, f"stripes share the links and wait for nothing of each other: {shared}"]


def _busy_seconds(stripes: _Stripes) -> dict[str, float]:
    """How long each resource is busy in all."""
    return total_busy_seconds(stripes)


def _multiply_rows(rows: Iterable[tuple[str, float]], many: int) -> list[tuple[str, float]]:
    return [(name, many * value) for name, value in rows]


def _describe_advice(answer: Answer) -> str:
    """How to get an answer; of a line of the environment, what else it holds for."""
    how = advise(answer)
    return (
        f"{how.text}; {explain_scope(answer.goal.value)}"
        if how.by is AdviceKind.ENVIRONMENT
        else how.text
    )


def _verdict(answer: Answer) -> str:
    """What prices can tell of an answer and the default, and how to get what is gained."""
    plain, ours = answer.baseline_seconds, answer.runtime_seconds
    how = _describe_advice(answer)
    match answer.against_default:
        case DefaultComparison.FASTER:
            return f"it is {plain / ours:.2f} times as fast as the default: {how}"
        case DefaultComparison.SLOWER:
            return f"it takes {answer.candidate.seconds / plain:.2f} times as long: {how}"
        case DefaultComparison.SAME:
            return f"tie with the default (within prediction error): {how}"
        case DefaultComparison.NOT_OFFERED:
            return how
