"""Writes the file that a training script imports to fill DDP's buckets as found best.

DDP of torch 2.13 has a list of caps, one a bucket: it ends a bucket with the gradient by which it
has that many bytes. So caps slightly below the bytes of our buckets make our buckets, filled by
DDP's own reducer in the order in which it sees gradients made; no hook of ours runs. Caps are lower
by half of the last gradient, or by a hundredth, as that order is not quite the parameters': where a
bias is made before its matrix, a bucket that lacks it would not end before the next matrix.
"""

from __future__ import annotations

from hierarchies.units import format_duration
from synth.collective.emit.text import templates
from synth.step.bucketing.compared import BucketComparison, FillPolicy

SCRIPT_NAME = "collsynth_buckets.py"


def write_script(comparison: BucketComparison, model: str, made_by: str) -> str:
    """Returns the text of the file."""
    best, backward = comparison.best, comparison.replica.backward
    [usual] = [way for way in comparison.ways if way.filling is FillPolicy.USUAL]
    upto = backward.upto_elements
    return (
        templates("synth.step.bucketing")
        .get_template("buckets.py.jinja")
        .render(
            model=model,
            system=comparison.replica.sums.system.name,
            made_by=made_by,
            usual=format_duration(usual.timed.seconds),
            best=format_duration(best.timed.seconds),
            same="" if best.saved.told else ", a tie within the prediction's uncertainty",
            cap_mib=comparison.cap_mib,
            buckets=[
                (upto[b.last] - upto[b.first], _names(comparison, b.first, b.last))
                for b in best.timed.buckets
            ],
        )
    )


def _names(comparison: BucketComparison, first: int, last: int) -> str:
    """Names a run of gradients: ``layers/mlp/up[11] to embedding``."""
    made = comparison.replica.backward.gradients
    ends = made[first].name, made[last - 1].name
    return ends[0] if last - first == 1 else f"{ends[0]} to {ends[1]}"
