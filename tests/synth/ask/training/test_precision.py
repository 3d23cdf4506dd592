"""Steps whose weights are multiplied in eight bits: seconds, files, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import synth
from framework_files import megatron_parser, words
from hierarchies import InputError
from synth.step.models import ModelSettings, zoo_step
from synth.step.sharding import parse_recipe, plan_of, prepare_step
from synth.step.simulation.sources import find_vocabulary
from synth.step.zoo.sizes import Decoder, sizes_of

STEP = {"batch": 8, "dtype": "bfloat16", "sizes": {"layers": 2, "sequence": 2048}}
PLAN = "data=4 tensor=2; batch over data; weights over tensor as Megatron; vocabulary over tensor"


def simulated(**other: Any) -> Any:
    return synth.simulate("llama3-8b", "dgx-h100:1", plan=PLAN, **STEP, **other)


def test_a_step_in_fp8_is_faster_and_its_share_is_of_the_rate_in_fp8() -> None:
    kept, quantized = simulated(), simulated(precision="fp8")
    assert quantized.seconds < kept.seconds
    assert quantized.machine.precision == "fp8"
    assert quantized.machine.peak_flops_per_second == 2 * 989.5e12
    share = quantized.flops / quantized.seconds / 8 / quantized.machine.peak_flops_per_second
    assert quantized.utilisation == pytest.approx(share)
    assert quantized.memory.bytes == kept.memory.bytes, "activations stay as they are"


def test_the_vocabulary_is_known_whole_and_as_it_is_sharded() -> None:
    step = zoo_step("llama3-tiny", {"layers": 2}, ModelSettings(8, dtype="bfloat16"))
    plan = plan_of(step, parse_recipe(PLAN))
    sizes = sizes_of("llama3-tiny", {})
    assert isinstance(sizes, Decoder)
    words_of = sizes.vocabulary
    assert find_vocabulary(prepare_step(step, plan), plan) == {words_of, words_of // 2}


def test_plans_are_in_the_precision_and_files_switch_it_on() -> None:
    pins = "tensor=2 pipe=1 zero=1 remat=no"
    found = synth.plan("dgx-b200:1", model="llama3-8b", pin=pins, k=1, precision="mxfp8", **STEP)
    assert found.precision == "mxfp8"
    files = {file.name: file.text for file in found.files}
    flags = megatron_parser().parse_args(words(files["megatron/arguments.sh"]))
    assert (flags.fp8, flags.fp8_recipe, flags.bf16) == ("e4m3", "mxfp8", True)
    assert "bf16_with_mxfp8_mixed" in files["bridge/collsynth_bridge.py"]
    refused = {entry.framework: entry.reason for entry in found.unsupported}
    assert "products in mxfp8" in refused["torchtitan"]


def test_a_precision_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="does not multiply in fp8"):
        synth.plan("aws-p4d:1", model="llama3-8b", precision="fp8", **STEP)
    with pytest.raises(InputError, match="of values in f32"):
        synth.plan("dgx-h100:1", model="llama3-8b", precision="fp8", **{**STEP, "dtype": "float32"})
