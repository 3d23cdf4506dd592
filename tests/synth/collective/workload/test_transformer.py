"""Jobs derived from models: published totals, sums worked out apart, and the shipped files."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synth
from grammar import Goal
from hierarchies import InputError, load
from places import ROOT
from synth.collective.workload.assignments import SettledJob, assignments, settle_job
from synth.collective.workload.files import load_job, read_job, shipped_jobs, write
from synth.collective.workload.job import Workload, values_at
from synth.collective.workload.quantities import AtMostRule, evaluate_amount
from synth.collective.workload.shapes import StateSharding, Training, TransformerShape
from synth.collective.workload.transformer import transformer_job

GPT3 = TransformerShape(96, 12288, 96, 51200, positions=2048)
LLAMA3_70B = TransformerShape(
    80, 8192, 64, 128256, kv_heads=8, feed_forward=28672, gated=True, classic=False, tied=False
)
MIXTRAL = TransformerShape(
    32, 4096, 32, 32000, 8, 14336, gated=True, classic=False, tied=False, experts=8
)
DOCS = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
ONE = Training(2048, micro_batches=1)


def settle(
    shape: TransformerShape, training: Training, of: dict[str, int] | None = None, **sizes: int
) -> SettledJob:
    """The job with one size for every axis, named or not."""
    given_sizes = of or sizes
    job = transformer_job(shape, training, {name: (size,) for name, size in given_sizes.items()})
    return settle_job(job, given_sizes)


def number(job: Workload, name: str, **sizes: int) -> Fraction:
    """The value of one of the job's named numbers."""
    return Fraction(str(values_at(job, sizes)[name]))


def parameters(shape: TransformerShape) -> int:
    """The parameters of the whole model, as the gradients of one device that holds it have them."""
    job = settle(shape, replace(ONE, gradient_bytes=1), data=2)
    return sum(entry.payload_bytes for entry in job.entries)


def times(job: SettledJob, goal: Goal) -> Fraction:
    return sum((entry.times for entry in job.entries if entry.goal is goal), Fraction(0))


NARAYANAN = [
    (1.7, 24, 2304, 24),
    (3.6, 30, 3072, 32),
    (7.5, 36, 4096, 32),
    (18.4, 40, 6144, 48),
    (39.1, 48, 8192, 64),
    (76.1, 60, 10240, 80),
    (145.6, 80, 12288, 96),
    (310.1, 96, 16384, 128),
    (529.6, 105, 20480, 128),
    (1008.0, 128, 25600, 160),
    (174.6, 96, 12288, 96),
]
"""Billions of parameters, layers, hidden size, heads: Narayanan et al. 2021, tables 1 and 2."""


@pytest.mark.parametrize(("billions", "layers", "hidden", "heads"), NARAYANAN)
def test_gpt_models_have_the_parameters_that_were_published(
    billions: float, layers: int, hidden: int, heads: int
) -> None:
    count = parameters(TransformerShape(layers, hidden, heads, 51200, positions=2048))
    words = 51200 + 2048
    formula = (
        12
        * layers
        * hidden**2
        * (1 + Fraction(13, 12 * hidden) + Fraction(words, 12 * layers * hidden))
    )
    assert count == formula
    assert count / 1e9 == pytest.approx(billions, abs=0.06)


@pytest.mark.parametrize(
    ("shape", "published"), [(LLAMA3_70B, 70_553_706_496), (MIXTRAL, 46_702_792_704)]
)
def test_others_have_all_parameters_but_the_last_norm(
    shape: TransformerShape, published: int
) -> None:
    assert parameters(shape) == published - shape.hidden


@pytest.mark.parametrize("sequence_parallel", [True, False])
@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize(("tensor", "pipeline"), [(8, 1), (8, 16), (2, 4)])
def test_tensor_parallelism_sends_what_was_published(
    sequence_parallel: bool, recompute: bool, tensor: int, pipeline: int
) -> None:
    """Narayanan et al., section 3.2: 8 b s h (t-1)/t elements a layer and micro-batch by rings,
    12 if the forward pass is computed twice; all-gathers and reduce-scatters in the place of
    all-reduces send as much (Korthikanti et al.), but for the gathers that are done again.
    """
    training = Training(
        2048,
        4,
        micro_batches=3,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    job = settle(GPT3, training, tensor=tensor, pipeline=pipeline)
    elements = Fraction(0)
    for entry in job.entries:
        if entry.over == ("tensor",) and entry.weight:
            rounds = 2 if entry.goal is Goal.ALL_REDUCE else 1
            often = entry.times - 3 * max(1, Fraction(2, pipeline))
            elements += rounds * often * Fraction(entry.payload_bytes, 2)
    elements *= Fraction(tensor - 1, tensor)
    published = (12 if recompute else 8) * 4 * 2048 * 12288 * Fraction(tensor - 1, tensor)
    assert elements == published * Fraction(96, pipeline) * 3


def test_sequence_parallelism_gathers_and_scatters_four_times_a_layer() -> None:
    job = settle(GPT3, ONE, tensor=8, pipeline=96)
    shown = {entry.name: (entry.times, entry.hidden) for entry in job.entries}
    assert shown == {
        "activations gathered": (4 + 1, 0),
        "activations scattered": (4 + 1, 0),
        "activations gathered again": (2 + 1, 1),
    }
    plain = settle(GPT3, replace(ONE, sequence_parallel=False), tensor=8, pipeline=96)
    assert [(entry.name, entry.times) for entry in plain.entries] == [("activations summed", 5)]


@pytest.mark.parametrize(
    ("sharding", "axes", "volume", "gigabytes"),
    [
        (StateSharding.NONE, {"data": 64}, 2, 120),
        (StateSharding.OPTIMIZER, {"data": 64}, 2, 31.4),
        (StateSharding.FSDP, {"shard": 64}, 3, 1.9),
    ],
)
def test_sharding_sends_and_holds_what_was_published(
    sharding: StateSharding, axes: dict[str, int], volume: int, gigabytes: float
) -> None:
    """ZeRO, section 7: 2, 2 and 3 times the parameters; figure 1: bytes of 7.5 billion of them on
    64 devices. Embedding and logits stay gathered between the passes, and so are sent once less.
    """
    shape = TransformerShape(36, 4096, 32, 51200, positions=2048)
    count, embedding = parameters(shape), (51200 + 2048) * 4096
    training = replace(ONE, gradient_bytes=2, sharding=sharding, memory_GB=1000)
    sent = Fraction(0)
    for entry in settle(shape, training, axes).entries:
        rounds = 2 if entry.goal is Goal.ALL_REDUCE else 1
        sent += rounds * entry.times * Fraction(entry.payload_bytes, 2)
    kept = embedding if sharding is StateSharding.FSDP else 0
    assert sent == volume * count - kept
    job = transformer_job(shape, training, dict.fromkeys(axes))
    memory = next(each.rule for each in job.requires if each.name == "memory")
    assert isinstance(memory, AtMostRule)
    held = evaluate_amount(memory.left, values_at(job, axes))
    assert float(held / count) * 7.5 == pytest.approx(gigabytes, abs=0.05)


def test_hybrid_sharding_sums_the_shards_over_the_replicas() -> None:
    training = replace(ONE, sharding=StateSharding.HSDP)
    whole = settle(LLAMA3_70B, replace(training, sharding=StateSharding.FSDP), shard=8)
    job = settle(LLAMA3_70B, training, replica=4, shard=8)
    assert [e for e in job.entries if e.over == ("shard",)] == list(whole.entries)
    scattered = [e for e in job.entries if e.goal is Goal.REDUCE_SCATTER]
    summed = [e for e in job.entries if e.goal is Goal.ALL_REDUCE]
    assert [e.over for e in summed] == [("replica",)] * 2
    assert [(e.payload_bytes, e.times, e.hidden) for e in summed] == [
        (ceil(Fraction(e.payload_bytes, 8)), e.times, e.hidden) for e in scattered
    ]


def test_experts_exchange_tokens_four_times_a_layer() -> None:
    """GShard: to the experts and back, forward and backward; each token ``experts_per_token``
    times.
    """
    training = Training(4096, 2, micro_batches=5, capacity=1.25)
    job = settle(MIXTRAL, training, data=2, expert=8, tensor=4)
    exchange = next(entry for entry in job.entries if entry.goal is Goal.ALL_TO_ALL)
    assert exchange.over == ("expert",)
    assert exchange.times == 4 * 32 * 5
    assert exchange.payload_bytes == 4096 * 2 // 4 * 2 * 4096 * 2 * 1.25
    assert exchange.hidden == 0
    expert_gradients = 4 * 32 * 8 * 3 * 4096 * 14336 // 8 // 4
    shown = {entry.name: entry for entry in job.entries if "gradients" in entry.name}
    assert shown["gradients summed"].over == ("data", "expert")
    assert shown["gradients of experts summed"].over == ("data",)
    assert shown["gradients of experts summed"].payload_bytes == expert_gradients
    gathered = next(entry for entry in job.entries if entry.name == "experts' tokens gathered")
    assert gathered.payload_bytes == exchange.payload_bytes * 4
    assert times(job, Goal.ALL_GATHER) == (2 * 32 + 2) * 5 + (32 + 1) * 5 + 2 * 32 * 5


SIZES = st.sampled_from([1, 2, 4])


@given(
    st.builds(
        TransformerShape,
        layers=st.sampled_from([4, 8, 12]),
        hidden=st.sampled_from([64, 128]),
        heads=st.just(8),
        vocabulary=st.integers(100, 999),
        kv_heads=st.sampled_from([0, 2, 8]),
        feed_forward=st.sampled_from([0, 100]),
        gated=st.booleans(),
        classic=st.booleans(),
        tied=st.booleans(),
        positions=st.sampled_from([0, 32]),
    ),
    st.booleans(),
    st.sampled_from([StateSharding.NONE, StateSharding.OPTIMIZER]),
    st.tuples(SIZES, SIZES, SIZES),
)
def test_a_dense_job_is_the_sum_worked_out_apart(
    shape: TransformerShape, recompute: bool, sharding: StateSharding, sizes: tuple[int, int, int]
) -> None:
    data, tensor, pipeline = sizes
    training = Training(32, 2, batch=64, sharding=sharding, recompute=recompute)
    job = settle(shape, training, data=data, tensor=tensor, pipeline=pipeline)
    square = shape.hidden**2 + (shape.hidden if shape.classic else 0)
    kv = (shape.kv_heads or 8) / 8
    inner = shape.feed_forward or 4 * shape.hidden
    layer = round((2 + 2 * kv) * square) + (2 + shape.gated) * shape.hidden * inner
    layer += (4 if shape.classic else 2) * shape.hidden
    layer += ((1 + shape.gated) * inner + shape.hidden) if shape.classic else 0
    words = shape.vocabulary * (1 if shape.tied or pipeline > 1 else 2)
    stage = layer * shape.layers // pipeline + (words + shape.positions) * shape.hidden
    stage = Fraction(stage, tensor)
    micro_batches = 64 // 2 // data
    wanted: list[tuple[Goal, int, Fraction]] = []
    if tensor > 1:
        passes = (3 if recompute else 2) * 2 * shape.layers // pipeline
        activations = 2 * 32 * 2 * shape.hidden
        often = Fraction((passes + (2 if pipeline == 1 else 1)) * micro_batches)
        again = Fraction((2 * shape.layers // pipeline + 1) * micro_batches)
        wanted += [
            (Goal.ALL_GATHER, activations, often),
            (Goal.REDUCE_SCATTER, activations, often),
            (Goal.ALL_GATHER, activations, again),
        ]
    if data > 1 and sharding is StateSharding.NONE:
        wanted.append((Goal.ALL_REDUCE, ceil(4 * stage), Fraction(1)))
    elif data > 1:
        wanted.append((Goal.REDUCE_SCATTER, ceil(4 * stage), Fraction(1)))
        wanted.append((Goal.ALL_GATHER, ceil(2 * stage), Fraction(1)))
    assert [(e.goal, e.payload_bytes, e.times) for e in job.entries] == wanted
    sent = [(e.payload_bytes, e.times) for e in job.unpriced]
    if pipeline > 1:
        ends = [(ceil(Fraction(4 * shape.vocabulary * shape.hidden, tensor)), 1)]
        between = (ceil(Fraction(2 * 32 * 2 * shape.hidden, tensor)), 2 * micro_batches)
        assert sent == [between, *(ends if shape.tied else [])]
    else:
        assert sent == []


def test_only_sizes_that_can_be_are_considered() -> None:
    training = Training(2048, batch=1536, memory_GB=70, most_bubble=0.1)
    job = transformer_job(GPT3, training, dict.fromkeys(("data", "tensor", "pipeline")))
    found = assignments(job, 384)
    assert {"data": 4, "tensor": 8, "pipeline": 12} in found
    for sizes in found:
        data, tensor, pipeline = sizes.values()
        micro_batches = Fraction(1536, data)
        assert micro_batches.denominator == 1
        assert 96 % pipeline == 96 % tensor == 0
        assert 10 * (pipeline - 1) <= micro_batches
        assert number(job, "stage_parameters", **sizes) * 18 <= 70e9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TransformerShape(0, 64, 8, 100), "layers is 0; at least 1 is needed"),
        (
            lambda: TransformerShape(4, 60, 8, 100),
            "hidden is 60 with 8 heads; 60 is not a multiple of 8",
        ),
        (lambda: TransformerShape(4, 64, 8, 100, kv_heads=3), "kv_heads is 3 with 8 heads"),
        (lambda: TransformerShape(4, 64, 8, 100, experts=1), "2 experts a token of 1 experts"),
        (lambda: Training(32), "give one of batch and micro_batches"),
        (lambda: Training(32, batch=1, micro_batches=1), "give one of batch and micro_batches"),
        (lambda: Training(32, micro_batches=0), "micro_batches is 0"),
        (lambda: Training(0, batch=1), "sequence is 0"),
        (lambda: Training(32, batch=1, capacity=0), "capacity is 0; a number above 0"),
        (lambda: Training(32, batch=1, memory_GB=float("nan")), "memory_GB is nan"),
    ],
)
def test_numbers_that_make_no_transformer_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("shape", "training", "axes", "words"),
    [
        (GPT3, {}, ["dta"], "no axis 'dta' in a job whose sharding is 'none'; did you mean data"),
        (GPT3, {"sharding": StateSharding.FSDP}, ["data"], "no axis 'data' in a job .* 'fsdp'"),
        (GPT3, {"sharding": StateSharding.HSDP}, ["shard"], "no axis 'replica', which hsdp needs"),
        (GPT3, {}, ["expert"], "an axis 'expert' without experts"),
        (MIXTRAL, {"sharding": StateSharding.FSDP}, ["shard"], "experts with sharding 'fsdp'"),
        (MIXTRAL, {"sequence_parallel": False}, ["tensor"], "experts without sequence parallelism"),
        (GPT3, {}, ["pipeline"], "the job is empty"),
        (GPT3, {}, [], "the job has 0 axes|the job is empty"),
    ],
)
def test_axes_that_do_not_go_together_are_refused(
    shape: TransformerShape, training: dict[str, Any], axes: list[str], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        transformer_job(shape, replace(ONE, **training), dict.fromkeys(axes))


PAPER = "https://arxiv.org/abs/2104.04473, 2026-11-21"
MEGATRON = "157006d6d9bf4f55c0d4d7dacbd2b65e7bd84dc9/examples/gpt3/train_gpt3_175b_distributed.sh"
LLAMA = "d13eea5ec039baa48b5f0fa3641692a45b639da7/models/llama3_1/api/sku_list.py"
MIXTRAL_CONFIG = (
    "Mixtral-8x7B-Instruct-v0.1/resolve/eba92302a2861cdc0098cc54bc9f17cb2c47eb61/config.json"
)
ONE_NODE = (1, 2, 4, 8)
BY_DATA = Training(2048, batch=1536, memory_GB=70, most_bubble=0.1)
BY_SHARD = Training(8192, batch=1024, sharding=StateSharding.FSDP, memory_GB=70)
SHIPPED: dict[str, Workload] = {
    job.name: job
    for job in (
        transformer_job(
            GPT3,
            BY_DATA,
            {"data": None, "tensor": ONE_NODE, "pipeline": (1, 2, 4, 8, 16)},
            name="gpt3-175b-3d",
            title="GPT-3 of 175 billion parameters: data, tensor and pipeline parallelism",
            sources=[f"https://github.com/NVIDIA/Megatron-LM/blob/{MEGATRON}, 2026-11-21", PAPER],
        ),
        transformer_job(
            TransformerShape(40, 6144, 48, 51200, positions=2048),
            replace(BY_DATA, batch=1024),
            {"data": None, "tensor": ONE_NODE, "pipeline": (1, 2, 4, 5, 8)},
            name="gpt-18b-3d",
            title="A GPT of 18.4 billion parameters: data, tensor and pipeline parallelism",
            sources=[PAPER],
        ),
        transformer_job(
            LLAMA3_70B,
            BY_SHARD,
            {"shard": None, "tensor": ONE_NODE},
            name="llama3-70b-fsdp",
            title="Llama 3 70B: fully sharded data parallelism and tensor parallelism",
            sources=[f"https://github.com/meta-llama/llama-models/blob/{LLAMA}, 2026-11-21"],
        ),
        transformer_job(
            LLAMA3_70B,
            replace(BY_SHARD, sharding=StateSharding.HSDP),
            {"replica": None, "shard": None, "tensor": ONE_NODE},
            name="llama3-70b-hsdp",
            title="Llama 3 70B: sharded in each of several replicas (HSDP) and tensor parallelism",
            sources=[f"https://github.com/meta-llama/llama-models/blob/{LLAMA}, 2026-11-21"],
        ),
        transformer_job(
            MIXTRAL,
            Training(4096, batch=1024, sharding=StateSharding.OPTIMIZER, memory_GB=70),
            {"data": None, "expert": ONE_NODE, "tensor": ONE_NODE},
            name="mixtral-8x7b-experts",
            title="Mixtral 8x7B: data, expert and tensor parallelism, sharded optimizer",
            sources=[f"https://huggingface.co/mistralai/{MIXTRAL_CONFIG}, 2026-11-21"],
        ),
    )
}


def test_every_shipped_job_is_derived() -> None:
    assert sorted(SHIPPED) == list(shipped_jobs())


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_job_is_what_its_shape_gives(name: str, update_golden: bool) -> None:
    path = Path(synth.__file__).parent / "collective" / "workload" / "jobs" / f"{name}.toml"
    if update_golden:
        path.write_text(write(SHIPPED[name]), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == write(SHIPPED[name])
    assert load_job(name) == SHIPPED[name] == read_job(write(SHIPPED[name]))


@pytest.mark.parametrize("nodes", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_job_fits_machines_of_many_sizes(name: str, nodes: int) -> None:
    devices = load(f"dgx-h100:{nodes}").hierarchy.devices
    if name == "gpt3-175b-3d" and nodes < 8:
        with pytest.raises(InputError, match="meet the requirement 'memory'"):
            assignments(SHIPPED[name], devices)
        return
    for sizes in assignments(SHIPPED[name], devices):
        job = settle_job(SHIPPED[name], sizes)
        assert job.entries
        assert all(entry.times.denominator == 1 for entry in job.entries)


SMALLEST = re.findall(r"^\| `(\S+)` \|.*\| ([0-9]+) node", DOCS, re.MULTILINE)


@pytest.mark.parametrize(("name", "nodes"), SMALLEST)
def test_docs_name_the_smallest_machine(name: str, nodes: str) -> None:
    fits = []
    for count in range(1, int(nodes) + 1):
        try:
            assignments(SHIPPED[name], 8 * count)
        except InputError:
            continue
        fits.append(count)
    assert fits == [int(nodes)]


def test_the_python_example_in_docs_prints_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    exec(DOCS.split("```python\n")[1].split("```")[0], {})
    job = read_job(capsys.readouterr().out)
    assert job.name == "llama2-13b"
    assert assignments(job, 32)
