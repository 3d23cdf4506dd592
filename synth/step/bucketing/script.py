"""The file that a training script imports, to fill DDP's buckets as they were found to be best.

DDP of torch 2.13 has a list of caps, one a bucket: it ends a bucket with the gradient by which it
has so many bytes. So caps that are a little less than the bytes of our buckets are our buckets,
filled by DDP's own reducer in the order in which it sees gradients made: no hook of ours runs. Less
by half of the last gradient, or by a hundredth, as that order is not quite the parameters': where a
bias is made before its matrix, a bucket that lacks it would not end before the next matrix.
"""

from __future__ import annotations

from hierarchies.units import format_duration
from synth.collective.emit.text import templates
from synth.step.bucketing.compared import BucketComparison, FillPolicy

SCRIPT_NAME = "collsynth_buckets.py"


def write_script(found: BucketComparison, model: str, made_by: str) -> str:
    """The file's text."""
    best, backward = found.best, found.replica.backward
    [usual] = [one for one in found.ways if one.filling is FillPolicy.USUAL]
    upto = backward.upto_elements
    return (
        templates("synth.step.bucketing")
        .get_template("buckets.py.jinja")
        .render(
            model=model,
            system=found.replica.sums.system.name,
            made_by=made_by,
            usual=format_duration(usual.timed.seconds),
            best=format_duration(best.timed.seconds),
            same="" if best.saved.told else ", a tie within the prediction's uncertainty",
            cap_mib=found.cap_mib,
            buckets=[
                (upto[one.last] - upto[one.first], _names(found, one.first, one.last))
                for one in best.timed.buckets
            ],
        )
    )


def _names(found: BucketComparison, first: int, last: int) -> str:
    """``layers/mlp/up[11] to embedding``."""
    made = found.replica.backward.gradients
    ends = made[first].name, made[last - 1].name
    return ends[0] if last - first == 1 else f"{ends[0]} to {ends[1]}"
