"""Buckets of gradients for DDP as a table: its own, the extremes, and the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.ask.answers.training.bucketed import BucketOfGradients, BucketsReply, WayToFill
from synth.show.terminal.style import follows, many, paragraphs, shape, table_of
from synth.step.bucketing import Filling
from synth.step.search.resolution import OWN

_MOST_BUCKETS = 40


def buckets(answer: BucketsReply) -> RenderableType:
    """How long a step is by each way to fill buckets, and which ours are."""
    each = f"{answer.samples // answer.devices:,} on each of {many(answer.devices, 'device')}"
    return paragraphs(
        f"{answer.name}: {answer.samples:,} samples a step, {each}",
        f"on {answer.system}, {shape(answer.levels)}, each a {answer.device}; computing by"
        f" {_HOW[answer.how]}",
        follows(answer.prices),
        f"{many(answer.gradients, 'gradient')}, {volume(answer.bytes)} in {answer.dtype}, all made"
        f" after {duration(answer.compute_seconds)}\n",
        table_of(answer.ways, _ways(answer), right="buckets,a step,exposed,sums,gap"),
        "",
        *_ours(answer),
        "",
        *_verdict(answer),
        *_least(answer),
    )


_HOW = {
    "measured": "measurements of it",
    "fitted": "rates that are fitted to such devices",
    "roofline": "rooflines",
}


def _ways(answer: BucketsReply) -> Mapping[str, Callable[[WayToFill], str]]:
    def name(one: WayToFill) -> str:
        cap = one.filling is Filling.CAP
        return f"bucket_cap_mb={answer.cap_mib}" if cap else one.filling.value

    return {
        "filled": name,
        "buckets": lambda one: str(len(one.buckets)),
        "a step": lambda one: duration(one.seconds),
        "than DDP's default": lambda one: _than_default(one, answer.ways[0].seconds),
        "exposed": lambda one: duration(one.exposed_seconds),
        "sums": lambda one: duration(one.summing_seconds),
        "gap": lambda one: f"{one.gap:.1%}",
    }


def _than_default(one: WayToFill, default_seconds: float) -> str:
    """``3-9% less``: as shares of what a step takes by DDP's default."""
    if one.filling is Filling.USUAL:
        return ""
    if one.against_default == "same":
        longer = one.seconds / default_seconds - 1
        far = f"perhaps {abs(longer):.0%} {'more' if longer > 0 else 'less'}"
        return far if abs(longer) > OWN else "same"
    ends = sorted(abs(end) / default_seconds for end in one.saved_seconds)
    low, high = (round(100 * end) for end in ends)
    share = f"{low}%" if low == high else f"{low}-{high}%"
    return f"{share} {'less' if one.against_default == 'faster' else 'more'}"


def _ours(answer: BucketsReply) -> Iterator[RenderableType]:
    found = answer.ways[-1].buckets
    yield table_of(enumerate(found[:_MOST_BUCKETS], 1), _BUCKETS, right="ours,bytes,tensors")
    if len(found) > _MOST_BUCKETS:
        yield f"and {many(len(found) - _MOST_BUCKETS, 'more bucket')}: --json has all"


_Row = tuple[int, BucketOfGradients]
_BUCKETS: Mapping[str, Callable[[_Row], str]] = {
    "ours": lambda row: str(row[0]),
    "bytes": lambda row: volume(row[1].bytes),
    "tensors": lambda row: str(row[1].tensors),
    "of": lambda row: _of(row[1]),
    "sent": lambda row: f"{duration(row[1].begin_seconds)} to {duration(row[1].end_seconds)}",
}


def _of(one: BucketOfGradients) -> str:
    return one.first if one.tensors == 1 else f"{one.first} to {one.last}"


def _verdict(answer: BucketsReply) -> Iterator[str]:
    if answer.ways[-1].against_default == "faster":
        yield "-o collsynth_buckets.py writes ours for your script, where two lines are then:"
    else:
        yield "keep DDP's default: prices do not tell ours from it. Else -o collsynth_buckets.py:"
    yield "    import collsynth_buckets"
    yield "    model = collsynth_buckets.wrap(model)  # was DistributedDataParallel(model)\n"


def _least(answer: BucketsReply) -> Iterator[str]:
    least = answer.least
    yield (
        f"gap: above {duration(least.seconds)}, the most of {duration(least.compute_seconds)} of"
        f" computing, {duration(least.communication_seconds)} of sums and"
        f" {duration(least.chain_seconds)} until the last gradient is summed"
    )
    yield "exposed: what the optimizer waits for sums; same, perhaps: prices do not tell"
