"""Why an answer beats what the runtime would do, or does not: in words, from its prices."""

from __future__ import annotations

from collections.abc import Sequence

from synth.request import Answer
from synth.simulator import MEMORY, StepPrice, summed
from synth.units import duration, volume

_ALIKE = 1e-3
"""Times that differ by less than this share are told as the same."""


def why(answer: Answer) -> list[str]:
    """Sentences: what the default waits for, what the answer waits for, and what to do.

    The default is what the runtime would choose on the same placement. An answer without steps
    needs no words.
    """
    if not answer.prices:
        return ["there is nothing to do: a reduction group is one device"]
    seconds = answer.candidate.seconds
    default = f"the default ({answer.defaults.chosen}, {answer.defaults.protocol.value})"
    plain = _told(default, answer.defaults.baseline, 1, answer.baseline_seconds)
    if not _differs(answer):
        return [plain, "this is what the runtime would do: keep the default"]
    segments = answer.candidate.segments
    lines = [plain, _told("this program", answer.prices, segments, seconds)]
    if segments > 1 and len(answer.prices) > 1:
        lines.append(
            f"its steps overlap in {segments} segments; one after the other they would take "
            f"{duration(answer.barrier_seconds)}"
        )
    elif len(answer.prices) == 1:
        [price] = answer.prices
        how = price.algorithm.value if price.algorithm else "no algorithm"
        lines.append(f"it is the same collective by {how}, {price.protocol.value}")
    else:
        lines.append("its steps wait for each other: links that a step does not use stand idle")
    return [*lines, _verdict(answer.baseline_seconds, seconds)]


def _differs(answer: Answer) -> bool:
    """Whether an answer is anything else than the default."""
    ours, plain = (
        [(price.what, price.algorithm, price.protocol, price.size_bytes) for price in prices]
        for prices in (answer.prices, answer.defaults.baseline)
    )
    return ours != plain


def _told(who: str, prices: Sequence[StepPrice], segments: int, seconds: float) -> str:
    """How long something takes, how long each level is busy then, and with how many bytes."""
    busy = summed(price.busy_seconds for price in prices)
    carried = summed(price.bytes_per_port for price in prices)
    parts = [
        f"{name} is busy {segments * time / seconds:.0%}"
        + ("" if name == MEMORY else f" ({volume(segments * carried[name])} a port)")
        for name, time in sorted(busy.items(), key=lambda item: -item[1])
        if name == MEMORY or name in carried
    ]
    waits = segments * sum(price.latency_seconds for price in prices)
    if segments == 1 and waits > seconds / 100:
        parts.append(f"messages are waited for {waits / seconds:.0%}")
    if segments > 1 and waits > seconds / 2:
        parts.append("messages are waited for in most of the time")
    return f"{who} takes {duration(seconds)}, of which {', '.join(parts)}"


def _verdict(plain: float, ours: float) -> str:
    if plain > ours * (1 + _ALIKE):
        return f"it is {plain / ours:.2f} times as fast as the default"
    if ours > plain * (1 + _ALIKE):
        return f"it takes {ours / plain:.2f} times as long: keep the default"
    return "it takes as long: keep the default"
