"""Writes the file that a training script imports to fill DDP's buckets as found best.

DDP of torch 2.13 has a list of caps, one per bucket: it ends a bucket with the gradient at which
the bucket reaches that many bytes. Caps slightly below the bytes of our buckets therefore produce
our buckets, filled by DDP's own reducer in the order in which gradients arrive; no hook of ours
runs. Caps are lower by half of the last gradient, or by a hundredth, because that order is not
exactly the order of parameters. If a bias is computed before its matrix, a bucket without the bias
would not end before the next matrix.
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
            same="" if best.saved.is_clear else ", a tie within the prediction's uncertainty",
            cap_mib=comparison.cap_mib,
            buckets=[
                (upto[b.last] - upto[b.first], _names(comparison, b.first, b.last))
                for b in best.timed.buckets
            ],
        )
    )


def _names(comparison: BucketComparison, first: int, last: int) -> str:
    """Returns the names of a run of gradients: ``layers/mlp/up[11] to embedding``."""
    made = comparison.replica.backward.gradients
    ends = made[first].name, made[last - 1].name
    return ends[0] if last - first == 1 else f"{ends[0]} to {ends[1]}"
