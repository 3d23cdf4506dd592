"""What a verb refuses before it searches is refused at once, in the same words, and nothing else.

The verb itself is the judge: it is carried out, as a worker would.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the examples are of the extra server")

from hierarchies import InputError
from synth.ask import outputs
from synth.ask.questions.question import Question, parse_question
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits

TEXT: Any = {"name": "own.txt", "text": "nonsense"}
GONE: Any = {"system": "dgx-h100:2", "axes": {"data": 15}, "without": ["node1/gpu5"]}
SENT: Any = [{"reduce": [axis], "bytes": 1024} for axis in ("data", "model")]
LLAMA: Any = {"system": "dgx-h100:4", "model": "llama3-8b", "job": None, "k": 1}

ALL_TO_ALL: Any = {"request": "all-to-all", "program": "all-to-all root inside"}
CONFIGURED: Any = {"model": "gpt2-small", "system": "dgx-h100:1", "runtime": "megatron"}
LONG: Any = {
    "name": "long.step",
    "text": "".join((*("# as traced\n" for _ in range(2**12)), EXAMPLES["shard"]["model"]["text"])),
}
SHARDED: Any = {
    "name": "sharded.step",
    "text": VERBS["shard"]
    .answer(parse_question(VERBS["shard"].question, EXAMPLES["shard"]), Watcher())
    .body["files"][0]["text"],
}

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("systems", {"without": ["node9"]}),
    ("systems", {"slow": {"node1": 2.0}}),
    ("import", {"kind": "nvidia-smy"}),
    ("import", {"files": [TEXT]}),
    ("import", {"gpu": "a1000"}),
    ("import", {"files": [TEXT, TEXT]}),
    ("graph", {"slow": {"node9": 0.5}}),
    ("place", {"axes": {"data": 33}}),
    ("place", {"placement": [[1, 8], [1, 4]]}),
    ("count", {"max_steps": 0}),
    ("top", {"axes": {"data": 8, "model": 3}}),
    ("top", {"axes": {"data": 1, "model": 0}}),
    ("top", {"reduce": ["none"]}),
    ("top", {"reduce": ["data", "data"]}),
    ("top", {"reduce": []}),
    ("top", {"k": 0}),
    ("top", {"max_steps": 0}),
    ("top", {"bytes": 0}),
    ("top", {"placement": [[1, 7], [4, 1]]}),
    ("top", {"slow": {"node0": 0.0}}),
    ("top", {"without": ["node0/gpu0", "node9"]}),
    ("top", {**GONE, "axes": {"data": 16}}),
    ("top", {**GONE, "request": "all-gather"}),
    ("top", {**GONE, "bytes": [1024, 2048]}),
    ("top", {**GONE, "across": True}),
    ("top", {**GONE, "placement": [[2, 8]]}),
    ("top", {"reduce": None, "collectives": SENT, "axes": {"data": 8, "model": 3}}),
    ("top", {"reduce": None, "collectives": SENT, "explain": True}),
    ("top", {"reduce": None, "collectives": SENT, "placement": [[1, 7], [4, 1]]}),
    ("top", {"bytes": [1024, 2048], "per_placement": True}),
    ("check", {"tree": [2] * 9}),
    ("sweep", {"axes": {"data": 33}}),
    ("sweep", {"systems": ["dgx-h100:4", "dgx-a100:2"]}),
    ("sweep", {"without": ["node3"], "systems": ["dgx-h100:4", "dgx-a100:2"]}),
    ("cost", {"slow": {}}),
    ("cost", {"axes": {"data": 16, "model": 3}}),
    ("cost", {"reduce": ["none"]}),
    ("cost", {"slow": {}, "without": ["node9"]}),
    ("cost", {"slow": {}, "without": ["node1/gpu1"], "request": "all-gather"}),
    ("cost", {"slow": {}, "without": ["node1"], "axes": {"data": 16, "model": 2}}),
    ("plan", {"job": "gpt-18b-4d"}),
    ("plan", {"job": TEXT}),
    ("plan", {"system": "dgx-h100:3"}),
    ("plan", {"max_steps": 0}),
    ("plan", {**LLAMA, "model": "llama4-8b"}),
    ("plan", {**LLAMA, "sizes": {"layerz": 2}}),
    ("plan", {**LLAMA, "sizes": {"heads": 7}}),
    ("plan", {**LLAMA, "device": "abacus"}),
    ("plan", {**LLAMA, "pin": "tensor=8 tensor=4"}),
    ("plan", {**LLAMA, "pin": "tensor"}),
    ("plan", {**LLAMA, "pin": "schedule=2f2b"}),
    ("plan", {**LLAMA, "explain": "zero=4"}),
    ("plan", {**LLAMA, "seed": 3}),
    ("job", {"heads": 7}),
    ("job", {"axes": {"data": "some"}}),
    ("order", {"order": "2f2b"}),
    ("order", {"stages": None}),
    ("order", {"chunks": 3}),
    ("order", {"stages": 30_000, "microbatches": 30_000}),
    ("order", {"order": "zero-bubble", "stages": 512, "microbatches": 2}),
    ("order", {"weight": 3.0}),
    ("order", {"order": "0F0,0F1 0B0", "stages": None, "microbatches": None}),
    ("diff", {"first": {"none": 1}}),
    ("diff", {"second": {"answers": 3}}),
    ("check", {"program": "reduce node sideways"}),
    ("check", {"tree": None}),
    ("check", {"tree": [2, 1]}),
    ("check", {"program": "all-reduce d7 inside"}),
    ("lower", {"program": "no program"}),
    ("lower", {"axes": {"data": 33}}),
    ("lower", {"reduce": ["none"]}),
    ("time", {"program": "all-reduce nowhere inside"}),
    ("time", {"slow": {"node9": 0.5}}),
    ("emit", {"target": "fortran"}),
    ("emit", {"program": None}),
    ("emit", {"program": "no program"}),
    ("emit", {"rank": 2}),
    ("emit", {"entry": "all"}),
    ("run", {"backend": "abacus"}),
    ("run", {"dtype": "float7"}),
    ("run", {"bytes": 2**50}),
    ("calibrate", {"files": [TEXT]}),
    ("calibrate", {"plan": False}),
    ("calibrate", {"only": ["gpu-alone-all-gather", "none"]}),
    ("calibrate", {"system": "tpu-v5e-slice:4x4"}),
    ("calibrate", {"plan": False, "files": [TEXT]}),
    ("doctor", {"files": [TEXT]}),
    ("trace", {"model": "gpt5"}),
    ("trace", {"sizes": {"layers": 2}}),
    ("trace", {"model": "gpt2-small", "sizes": {"layers": 0}}),
    ("shard", {"plan": None}),
    ("shard", {"plan": "data=8; batch over none"}),
    ("shard", {"plan": "data=8; batch sideways", "axes": None}),
    ("shard", {"placement": [[7]]}),
    ("shard", {"plan": "data=4; batch over data"}),
    ("simulate", {"system": None}),
    ("simulate", {"plan": "data=4; batch over data"}),
    ("simulate", {"device": "abacus"}),
    ("buckets", {"system": "dgx-h100:2", "without": ["node1/gpu1"]}),
    ("buckets", {"device": "abacus"}),
    ("buckets", {"system": "dgx-h100:3"}),
    ("buckets", {"model": TEXT}),
    ("import", {"kind": "slurm", "inside": "dgx-h100"}),
    ("plan", {"placement": [[1, 7], [4, 8], [1, 1]]}),
    ("lower", {"program": "all-gather root inside"}),
    ("emit", {"request": "all-gather"}),
    ("shard", {"model": TEXT}),
    ("train", {"plan": None}),
    ("train", {"runtime": "jax", "overlap": "gradients"}),
    ("train", {"runtime": "megatron"}),
    ("train", {"runtime": "megatron", "model": "llama3-8b"}),
    ("profile", {"plan": "data=0; batch over data"}),
    ("top", {"bytes": [4096, 1024]}),
    ("sweep", {"bytes": [4096, 1024], "systems": ["dgx-h100:4", "dgx-a100:4"]}),
    ("order", {"protocol": "blocking"}),
    ("order", {"order": "0F0 0B0", "stages": None, "microbatches": None, "transfer": -1.0}),
    ("check", {"program": "all-to-all root inside"}),
    ("check", {"request": "all-to-all"}),
    ("emit", {"target": "nccl-tuner"}),
    ("emit", {"target": "nccl-tuner", "channels": 1000}),
    ("emit", {"target": "nccl-tuner", **ALL_TO_ALL}),
    ("emit", {"target": "chakra", "request": "broadcast", "program": "broadcast root inside"}),
    ("emit", {"target": "mscclpp", "request": "reduce", "program": "reduce root inside"}),
    ("emit", {"target": "mscclpp", "op": "max"}),
    ("emit", {"hosts": ["a", "a"], "target": "slurm"}),
    ("shard", {"plan": "tensor=8; weights over tensor as Megatron", "axes": None}),
    ("shard", {"plan": "t=8; weights weight[1] over t", "axes": None}),
    ("shard", {"plan": "t=8; weights none[0] over t", "axes": None}),
    ("shard", {"plan": "t=8; input features as [t]", "axes": None}),
    ("shard", {"plan": "pipe=8; schedule 1f1b, 8 microbatches", "axes": None}),
    ("shard", {"plan": "batch over data; 2 microbatches"}),
    ("shard", {"plan": "batch over data; gradients in bf16"}),
    ("shard", {"plan": "batch over data; remat layers"}),
    ("shard", {"plan": "plan of another", "axes": None}),
    ("shard", {"model": LONG, "plan": "t=8; vocabulary over t", "axes": None}),
    ("shard", {"model": LONG, "plan": "data=3; batch over data", "axes": None, "system": None}),
    ("shard", {"model": {**LONG, "text": LONG["text"] + "out nothing"}}),
    ("shard", {"model": SHARDED}),
    ("shard", {"model": SHARDED, "plan": None}),
    ("simulate", {"plan": "t=8; tokens over t"}),
    ("train", {"plan": "data=3; batch over data"}),
    ("train", {"plan": "t=8; experts over t"}),
    ("train", {**CONFIGURED, "plan": "tensor=8; weights over tensor as Megatron"}),
    ("train", {**CONFIGURED, "batch": 12, "plan": "data=8; batch over data"}),
    ("train", {**CONFIGURED, "runtime": "torchtitan", "plan": "data=8; batch over data"}),
    ("profile", {"plan": "data=3; batch over data"}),
]


def put(verb: str, change: dict[str, Any]) -> Question:
    given = {**EXAMPLES[verb], **change}
    return parse_question(
        VERBS[verb].question, {key: one for key, one in given.items() if one is not None}
    )


def refusal(verb: str, change: dict[str, Any]) -> str:
    """What is said at once."""
    try:
        question = put(verb, change)
        Limits().check(question)
        question.check_early()
    except InputError as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize(
    ("verb", "change"), REFUSED, ids=[f"{verb} {change}"[:70] for verb, change in REFUSED]
)
def test_what_a_verb_refuses_is_refused_before_it_is_begun(
    verb: str, change: dict[str, Any]
) -> None:
    said = refusal(verb, change)
    with pytest.raises(InputError) as later:
        VERBS[verb].answer(put(verb, change), Watcher())
    assert str(later.value) == said


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("tensor=7", "pin: tensor=7 on 32 devices"),
        ("tensor=8 data=8", "pin: tensor=8 data=8 on 32 devices"),
        ("microbatches=3", "pin: 256 samples in 3 microbatches"),
    ],
)
def test_pins_that_no_plan_can_have_are_refused_before_any_is_made(pin: str, said: str) -> None:
    """In other words than the verb's, which has looked at all plans by then."""
    assert said in refusal("plan", {**LLAMA, "pin": pin})


@pytest.mark.parametrize("verb", ["shard", "simulate", "train", "profile"])
def test_samples_that_no_plan_divides_are_refused_before_a_model_is_traced(verb: str) -> None:
    """In other words than the verb's, which speaks of an input of the step."""
    change = {"model": "gpt2-tiny", "axes": None, "plan": "data=8; batch over data; 3 microbatches"}
    assert refusal(verb, change).startswith("--batch: 8 samples in 24 parts")
    assert "nothing" in refusal(verb, {**change, "batch": 24})
    with pytest.raises(InputError, match=r"input targets: .* cuts dimension 0"):
        VERBS[verb].answer(put(verb, change), Watcher())


@pytest.mark.parametrize(
    "much", [{"segments": 65}, {"system": "p2-a100:8", "axes": {"data": 128}}], ids=str
)
def test_slow_files_are_written_by_the_worker_only(
    monkeypatch: pytest.MonkeyPatch, much: dict[str, Any]
) -> None:
    """A timeline of 4,096 segments took nine seconds."""
    written: list[object] = []
    monkeypatch.setattr(outputs, "emit_program", lambda *given: written.append(given))
    put("emit", {"target": "trace", **much}).check_early()
    assert not written
    put("emit", {"target": "trace", "segments": 64}).check_early()
    assert written


def test_nothing_else_is_refused() -> None:
    for verb in VERBS:
        put(verb, {}).check_early()
    put("shard", {"model": LONG}).check_early()
    put("shard", {"model": SHARDED, "plan": None, "axes": None}).check_early()
    put("emit", {"target": "nccl-tuner", "channels": 8}).check_early()
    put("order", {"order": "gpipe", "protocol": "blocking"}).check_early()
