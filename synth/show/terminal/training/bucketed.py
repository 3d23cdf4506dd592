"""Gradient buckets for DDP as tables: the default, the extremes and the best."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.training.bucketed import BucketOfGradients, BucketsReply, FillPolicy, WayToFill
from synth.show.terminal.style import Columns, paragraphs, pluralize, price_basis, shape, table_of
from synth.step.search.resolution import CLOCK_ERROR

_MOST_BUCKETS = 40


def render_buckets(answer: BucketsReply) -> RenderableType:
    """Return the time of a step by each policy, and the best buckets."""
    each = f"{answer.samples // answer.devices:,} on each of {pluralize(answer.devices, 'device')}"
    return paragraphs(
        f"{answer.name}: {answer.samples:,} samples a step, {each}",
        f"on {answer.system}, {shape(answer.levels)}, each a {answer.device}; compute by"
        f" {_SECONDS_SOURCES[answer.compute_source]}",
        price_basis(answer.prices),
        f"{pluralize(answer.gradients, 'gradient')}, {format_bytes(answer.bytes)} in"
        f" {answer.dtype}, all ready after {format_duration(answer.compute_seconds)}\n",
        table_of(answer.ways, _ways(answer), right="buckets,step time,exposed,reduce,gap"),
        "",
        *_our_buckets(answer),
        "",
        *_verdict(answer),
        *_lower_bound_lines(answer),
    )


_SECONDS_SOURCES = {
    "measured": "measurements",
    "fitted": "rates fitted to such devices",
    "roofline": "rooflines",
}


def _ways(answer: BucketsReply) -> Columns[WayToFill]:
    def name(way: WayToFill) -> str:
        cap = way.filling is FillPolicy.CAP
        return f"bucket_cap_mb={answer.cap_mib}" if cap else way.filling.value

    return {
        "policy": name,
        "buckets": lambda way: str(len(way.buckets)),
        "step time": lambda way: format_duration(way.seconds),
        "vs default": lambda way: _saving_text(way, answer.ways[0].seconds),
        "exposed": lambda way: format_duration(way.exposed_seconds),
        "reduce": lambda way: format_duration(way.summing_seconds),
        "gap": lambda way: f"{way.gap:.1%}",
    }


def _saving_text(way: WayToFill, default_seconds: float) -> str:
    """``3-9% less``, as shares of the time of a step with DDP's default."""
    if way.filling is FillPolicy.USUAL:
        return ""
    if way.against_default == "same":
        longer = way.seconds / default_seconds - 1
        far = f"perhaps {abs(longer):.0%} {'more' if longer > 0 else 'less'} time"
        return far if abs(longer) > CLOCK_ERROR else "tie"
    ends = sorted(abs(end) / default_seconds for end in way.saved_seconds)
    low, high = (round(100 * end) for end in ends)
    share = f"{low}%" if low == high else f"{low}-{high}%"
    return f"{share} {'less' if way.against_default == 'faster' else 'more'}"


def _our_buckets(answer: BucketsReply) -> Iterator[RenderableType]:
    found = answer.ways[-1].buckets
    yield table_of(enumerate(found[:_MOST_BUCKETS], 1), _BUCKETS, right="bucket,bytes,tensors")
    if len(found) > _MOST_BUCKETS:
        yield f"and {pluralize(len(found) - _MOST_BUCKETS, 'more bucket')}: --json lists all"


_Row = tuple[int, BucketOfGradients]
_BUCKETS: Columns[_Row] = {
    "bucket": lambda row: str(row[0]),
    "bytes": lambda row: format_bytes(row[1].bytes),
    "tensors": lambda row: str(row[1].tensors),
    "gradients": lambda row: _tensor_range(row[1]),
    "reduced": lambda row: (
        f"{format_duration(row[1].begin_seconds)} to {format_duration(row[1].end_seconds)}"
    ),
}


def _tensor_range(bucket: BucketOfGradients) -> str:
    return bucket.first if bucket.tensors == 1 else f"{bucket.first} to {bucket.last}"


def _verdict(answer: BucketsReply) -> Iterator[str]:
    if answer.ways[-1].against_default == "faster":
        yield "-o collsynth_buckets.py writes these buckets; add two lines to your script:"
    else:
        yield (
            "keep DDP's default: these buckets tie with it within prediction error. To use them,"
            " -o collsynth_buckets.py and:"
        )
    yield "    import collsynth_buckets"
    yield "    model = collsynth_buckets.wrap(model)  # was DistributedDataParallel(model)\n"


def _lower_bound_lines(answer: BucketsReply) -> Iterator[str]:
    least = answer.least
    yield (
        f"gap: above {format_duration(least.seconds)}, the largest of"
        f" {format_duration(least.compute_seconds)} of compute,"
        f" {format_duration(least.communication_seconds)} of reductions and"
        f" {format_duration(least.chain_seconds)} until the last gradient is reduced"
    )
    yield (
        "exposed: time in which the optimizer waits for reductions; tie, perhaps: within the"
        " prediction's uncertainty"
    )
