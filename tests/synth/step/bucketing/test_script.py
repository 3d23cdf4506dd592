"""The file for DDP: run by two real ranks, gradients are those of plain DDP."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from bucketed_steps import replica_of, step
from forking import FLEET, torch_python
from synth.collective.run.processes import Command, supervise
from synth.step.bucketing import SCRIPT_NAME, BucketComparison, compare_policies, write_script
from synth.step.bucketing.choosing import MIB, fill_buckets
from synth.step.bucketing.clock import simulate_buckets
from synth.step.bucketing.gradients import BackwardPass, Gradient


def in_three(found: BucketComparison) -> BucketComparison:
    """With three buckets for ours: so small a model is best in one, as by DDP's default."""
    ends = (1, 5, len(found.replica.backward.gradients))
    ours = simulate_buckets(found.replica.backward, ends, found.replica.sums.seconds)
    return replace(found, ways=(*found.ways[:-1], replace(found.best, ends=ends, timed=ours)))


def ended(elements: list[int], caps_mib: list[float]) -> list[int]:
    """The elements of the buckets that DDP fills of gradients made in this order."""
    made = tuple(Gradient(str(one), -1, one, 4 * one, 0.0) for one in elements)
    upto = [0, *accumulate(elements)]
    ends = fill_buckets(BackwardPass("f32", made, 0.0, 0.0), [one * MIB for one in caps_mib])
    return [upto[last] - upto[first] for first, last in pairwise((0, *ends))]


def test_ddp_fills_our_buckets_and_trains_as_it_did(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    found = in_three(compare_policies(replica_of(step())))
    (tmp_path / SCRIPT_NAME).write_text(write_script(found, "mlp-tiny", "a test"))
    words = (str(FLEET / "forked.py"), "2", str(FLEET / "torch_buckets.py"), str(tmp_path))
    ranks = Command("the ranks", (*torch_python(), *words), {"OMP_NUM_THREADS": "1"})
    sizes, refused = supervise([ranks], tmp_path, 300).strip().splitlines()
    assert sizes == ", ".join(str(one.size_bytes) for one in found.best.timed.buckets)
    assert "the model has 12 parameters, these buckets are for 2,920" in refused


def test_a_model_in_other_tensors_has_the_buckets_next_to_ours(tmp_path: Path) -> None:
    """One that keeps key, query and value in one tensor: a bucket ends where that ends."""
    torch = pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    given: dict[str, Any] = {}
    exec(write_script(compare_policies(replica_of(step())), "mlp-tiny", "a test"), given)
    given["ELEMENTS"] = (30, 50, 20)
    model = torch.nn.ParameterList(torch.empty(size) for size in (18, 4, 43, 7, 28))
    caps = given["caps_mib"](model)
    assert ended([28, 7, 43, 4, 18], caps) == [28, 50, 22]
    assert ended([28, 43, 7, 18, 4], caps) == [28, 43, 29], "no tensor waits for the next large one"
    with pytest.raises(ValueError, match="101 parameters, these buckets are for 100"):
        given["caps_mib"](torch.nn.ParameterList([torch.empty(101)]))
