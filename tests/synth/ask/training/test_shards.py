"""The verb shard: plans in, sharded steps out; on a machine; and all that is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar import Goal
from grammar.tensors.parser import parse_sharded
from hierarchies import Axis, InputError, load_known
from manual import DOCS
from synth.ask.training.shards import ShardQuestion, shard
from synth.cli.app import app
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request, Watcher
from synth.collective.semantics.programs import Language
from synth.measure.calibration.typical import apply_typical
from synth.step.sharded_step import check

OWN = """
import jax
import jax.numpy as jnp

def number(*shape): return jax.ShapeDtypeStruct(shape, jnp.float32)

def unknown():
    return lambda p, b: p.sum() + jax.lax.linalg.lu(b)[0].sum(), number(3), number(4, 3, 3)

def asked():
    return lambda p, b: p.sum() + jax.lax.linalg.lu(b)[0].sum(), number(3), number(4, 3, 3)
asked.replicated = ("lu",)

def forever():
    def loss(p, b):
        twice = jax.lax.while_loop(lambda x: x.sum() < 5, lambda x: x * 2, b)
        return (p * twice).sum()
    return loss, number(8), number(8)

def depends():
    return lambda p, b: (p[b > 0]).sum(), number(8), number(8)
"""
DATA = "data=2; batch over data"


def answer(**question: Any) -> Any:
    return shard(ShardQuestion.model_validate(question), Watcher()).body


def asked(*words: str) -> Any:
    return CliRunner().invoke(app, ["shard", *words])


def refused(*words: str) -> str:
    """What the command line says: one message, on standard error, and nothing was done."""
    result = asked(*words)
    assert result.exit_code == 2, result.stdout
    assert not result.stdout
    assert result.stderr.startswith("collsynth: ")
    assert "Traceback" not in result.stderr
    return str(result.stderr)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


# -- what it answers


def test_a_sharded_step_is_kept_and_asked_about_again(tmp_path: Path) -> None:
    place = tmp_path / "gpt2.sharded"
    plan = "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1"
    first = answer(model="gpt2-tiny", plan=plan)
    assert asked("gpt2-tiny", "--plan", plan, "-o", str(place)).exit_code == 0
    text = place.read_text()
    assert [{"name": "gpt2-tiny.sharded", "text": text}] == first["files"]
    check(parse_sharded(text))
    again = answer(model={"name": "gpt2.sharded", "text": text})
    assert (first.pop("plan"), again.pop("plan")) == (plan, None)
    assert again == first


def test_megatron_sends_two_all_reduces_a_layer_and_pass() -> None:
    """And data parallelism one for each gradient; a loop counts as often as it goes round."""
    plan = "data=2 tensor=2; batch over data; weights over tensor as Megatron"
    found = answer(model="gpt2-tiny", sizes={"layers": 5}, plan=plan)
    by_axes = {tuple(one["axes"]): one for one in found["sent"] if one["request"] == "all-reduce"}
    assert by_axes["tensor",]["times"] == 5 * 2 * 2
    parameters = [one for one in found["inputs"] if one["role"] == "parameter"]
    assert by_axes["data",]["times"] == len(parameters)
    activations = [one for one in found["requests"] if one["axes"] == ["tensor"]]
    assert [(one["bytes"], one["times"]) for one in activations] == [(4 * 16 * 32 * 4, 20)]
    assert {value["role"] for one in activations for value in one["values"]} == {"value"}
    assert {value["line"] for one in activations for value in one["values"]}


def test_types_and_bytes_of_inputs() -> None:
    found = answer(model="mlp-tiny", plan="data=4; batch over data; zero=1")
    by_label = {one["label"]: one for one in found["inputs"]}
    weight, moment = by_label["first/weight"], by_label["mean/first/weight"]
    assert (weight["type"], weight["bytes"], weight["device_bytes"]) == ("f32[16,32]", 2048, 2048)
    assert (moment["type"], moment["device_bytes"]) == ("f32[16@data,32]", 512)
    assert found["device"]["moment"] * 4 == found["whole"]["moment"]
    assert found["devices"] == 4
    assert found["machine"] is None
    assert {one["seconds"] for one in found["requests"]} == {None}
    assert {one["move"] for one in found["local"]} == {"slice"}


@pytest.mark.parametrize(
    ("plan", "axes"),
    [
        ("batch over data; zero=1", {"data": 2}),
        ("data=2; batch over data; zero=1", {"data": 2}),
        ("zero=1; batch over data", {"data": 2}),
    ],
)
def test_axes_may_be_given_in_either_place(plan: str, axes: dict[str, int]) -> None:
    one = answer(model="mlp-tiny", plan=plan, axes=axes)
    two = answer(model="mlp-tiny", plan="data=2; batch over data; zero=1")
    assert one["files"] == two["files"]


def test_a_plan_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "cut.plan").write_text(f"{DATA}\n")
    by_file = asked("mlp-tiny", "--plan", str(tmp_path / "cut.plan"), "--json").stdout
    assert json.loads(by_file)["files"] == answer(model="mlp-tiny", plan=DATA)["files"]


def test_seconds_are_those_of_the_planner_on_the_placement() -> None:
    """Every request, asked again by itself; a step takes all of them, each as often as it is."""
    matrix = ((2, 1), (1, 8))
    plan = "data=2 tensor=8; batch over data; weights over tensor as Megatron; zero=1"
    sizes = {"heads": 8, "width": 64}
    given = {"system": "dgx-h100:2", "placement": [list(row) for row in matrix]}
    found = answer(model="gpt2-tiny", sizes=sizes, plan=plan, **given)
    system = apply_typical(load_known("dgx-h100:2"))
    seconds = 0.0
    for one in found["requests"]:
        request = Request(
            (Axis("data", 2), Axis("tensor", 8)),
            tuple(one["axes"]),
            one["bytes"],
            k=1,
            language=Language(goal=Goal(one["request"])),
            placement=matrix,
        )
        [best] = answers(system, request).answers
        assert (one["seconds"], one["program"]) == (best.candidate.seconds, best.candidate.text)
        seconds += one["seconds"] * one["times"]
    assert found["machine"]["seconds"] == pytest.approx(seconds, rel=1e-12)
    assert sum(one["seconds"] for one in found["sent"]) == pytest.approx(seconds, rel=1e-12)
    assert "laid_out_by" not in found["machine"]


def test_the_placement_is_that_of_frameworks_unless_it_is_given() -> None:
    plan = "data=8 tensor=4; batch over data; weights over tensor as Megatron"
    found = answer(model="gpt2-tiny", plan=plan, system="dgx-h100:4")
    assert found["machine"]["placement"] == [[4, 2], [1, 4]]
    assert found["machine"]["laid_out_by"] == "framework"


def test_a_machine_chooses_the_path() -> None:
    """By bytes alone a gradient that all tensor devices have alike is cut among them first."""
    plan = "data=4 tensor=2; batch over data; weights over tensor as Megatron"
    alone = answer(model="gpt2-tiny", plan=plan)
    on_machine = answer(model="gpt2-tiny", plan=plan, system="dgx-h100:1")
    assert {tuple(one["axes"]) for one in alone["requests"] if one["request"] == "all-gather"}
    assert {one["request"] for one in on_machine["requests"]} == {"all-reduce"}
    check(parse_sharded(on_machine["files"][0]["text"]))


def test_code_is_never_run_for_a_question(own: Path) -> None:
    for model in (f"{own}:asked", "own.py:asked", str(own)):
        with pytest.raises(InputError, match="no model"):
            answer(model=model, plan=DATA)
    with pytest.raises(InputError, match="expected one of: step"):
        answer(model={"name": f"{own}:asked", "text": OWN}, plan=DATA)


def test_a_primitive_that_is_not_known_is_done_whole_if_asked(own: Path) -> None:
    result = asked(f"{own}:asked", "--plan", DATA, "--json")
    body = json.loads(result.stdout)
    text = body["files"][0]["text"]
    [line] = [one for one in text.splitlines() if " lu(" in one]
    assert "replicated=true" in line
    assert "@data" not in line
    by_batch = [one for one in body["requests"] if one["request"] == "all-gather"]
    assert [one["values"][0]["role"] for one in by_batch] == ["batch"]


# -- what is refused

MIXED = "data=2 tensor=2; batch over data; weights over tensor as Megatron"
BAD_MODELS = {
    "a primitive that is not known": (
        "unknown",
        "own.py:8: primitive 'lu' is not known; replicated",
    ),
    "a while without a trip count": (
        "forever",
        "own.py:16: primitive 'while' is not known; the number",
    ),
    "shapes that depend on data": ("depends", "own.py:21: the step cannot be traced"),
}
BAD_PLANS = {
    "a batch that does not divide": (
        ["mlp-tiny", "--plan", "data=3; batch over data"],
        "input classes: data=3 cuts dimension 0 of i32[8] in 3 parts, of 8 elements",
    ),
    "heads that do not divide": (
        ["gpt2-tiny", "--plan", "tensor=8; weights over tensor as Megatron"],
        "input layers/attention/key: tensor=8 cuts dimension 2 of f32[2,32,4,8] in 8 parts, of 4",
    ),
    "an axis given twice": (["mlp-tiny", "--plan", "data=2 data=4"], "an axis is given twice"),
    "an axis used twice": (
        ["gpt2-tiny", "--plan", "data=2; batch over data; weights over data as Megatron"],
        "axis 'data' shards batch and weights",
    ),
    "an axis that is not there": (
        ["mlp-tiny", "--plan", "data=2; batch over dta"],
        "no axis 'dta'",
    ),
    "a plan for another model": (
        ["resnet-tiny", "--plan", "tensor=2; weights over tensor as Megatron"],
        "nothing of resnet-tiny is sharded by 'weights over tensor as Megatron'",
    ),
    "a word that is none": (["mlp-tiny", "--plan", "data=2; batch at data"], "not understood"),
    "no plan": (["mlp-tiny", "--axes", "data=2"], "--plan: which plan?"),
    "no axes": (["mlp-tiny", "--plan", "batch over data"], "no axes in 'batch over data'"),
    "two different axes": (
        ["mlp-tiny", "--axes", "data=2", "--plan", "data=4; batch over data"],
        "--axes: data=2, and the plan has data=4",
    ),
    "another order of axes": (
        ["gpt2-tiny", "--axes", "tensor=2,data=2", "--plan", MIXED],
        "--axes: tensor=2 data=2, and the plan has data=2 tensor=2",
    ),
    "too many axes": (["mlp-tiny", "--plan", "a=2 b=2 c=2 d=2 e=2"], "at most 4"),
    "too many devices": (["mlp-tiny", "--plan", "a=10000000"], "10000000 devices"),
    "a number without end": (["mlp-tiny", "--plan", f"a={'9' * 5000}"], "more than 18 digits"),
    "another number of devices": (
        ["mlp-tiny", "dgx-h100:1", "--plan", DATA],
        "multiply to 2 devices, and dgx-h100 has 8",
    ),
    "a placement on no machine": (
        ["mlp-tiny", "--plan", DATA, "--placement", "[[1, 2]]"],
        "--placement: a placement on no machine",
    ),
    "no such model": (["gpt5", "--plan", DATA], "no model 'gpt5'"),
    "no such file": (["gpt5.step", "--plan", DATA], "there is no file 'gpt5.step'"),
    "no such plan": (["mlp-tiny", "--plan", "cut.plan"], "there is no file 'cut.plan'"),
}
STEP = """step small{over}
in x: f32[8{x},16{k}] batch
in w: f32[16{w},4] parameter
v0: f32[8{x},4]{v0} = dot_general(x, w) dimension_numbers=(((1),(0)),((),())) @own.py:3
v1: f32[8{x},4]{v1} = {primitive}(v0){asking} @own.py:4
out v1
"""
PLAIN = dict.fromkeys(("over", "x", "k", "w", "v0", "v1", "asking"), "") | {"primitive": "tanh"}
OVER = PLAIN | {"over": " over data=2 model=2", "x": "@data"}
AXIS_TWICE = "line 2, column 7: axis 'data' occurs 2 times"
BAD_TEXTS = {
    "a primitive that nobody knows": (
        PLAIN | {"primitive": "besselj"},
        ["--plan", DATA],
        "own.py:4: no sharding rules for the primitive 'besselj'",
    ),
    "it may be asked for": (
        OVER | {"primitive": "thing"},
        [],
        "own.py:4: no sharding rules for the primitive 'thing'; did you mean",
    ),
    "it may be asked for where no runtime computes it": (
        PLAIN | {"primitive": "thing", "asking": " replicated=true"},
        ["--plan", DATA],
        "replicated=true is for cholesky, clz, eigh",
    ),
    "an axis in two places of a type": (OVER | {"k": "@data"}, [], AXIS_TWICE),
    "a size that an axis does not divide": (
        OVER | {"over": " over data=3"},
        [],
        "data=3 cuts dimension 0 of f32[8,16] in 3 parts, of 8 elements",
    ),
    "a partial sum where it may not be": (
        OVER | {"k": "@model", "w": "@model", "v0": "{sum:model}", "v1": "{sum:model}"},
        [],
        "own.py:4: tanh cannot take [sum] to [sum] along axis 'model'; redistribute first",
    ),
    "orders of axes that differ": (
        OVER | {"x": "", "k": "@(data,model)", "w": "@(model,data)", "v0": "{sum:(data,model)}"},
        [],
        "own.py:3: dot_general has 'contracting 0' cut in different orders of axes: (data,model)",
    ),
    "a text that is sharded, and a plan": (OVER, ["--plan", DATA], "--plan: this step is sharded"),
    "a text that is sharded, and axes": (
        OVER,
        ["--axes", "data=2"],
        "--axes: this step is sharded",
    ),
    "parameters that are none": (
        PLAIN | {"primitive": "transpose"},
        ["--plan", DATA],
        "own.py:4: transpose has no parameter 'permutation'",
    ),
    "a size of a model of the zoo": (
        PLAIN,
        ["--plan", DATA, "--batch", "4"],
        "batch: this changes",
    ),
}


@pytest.mark.parametrize("what", BAD_MODELS)
@pytest.mark.parametrize("verb", ["trace", "shard"])
def test_bad_models(verb: str, what: str, own: Path) -> None:
    function, said = BAD_MODELS[what]
    words = [verb, f"{own}:{function}", *(("--plan", DATA) if verb == "shard" else ())]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("what", BAD_PLANS)
def test_bad_plans(what: str) -> None:
    words, said = BAD_PLANS[what]
    message = refused(*words)
    assert said in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("what", BAD_TEXTS)
def test_bad_texts(what: str, tmp_path: Path) -> None:
    holes, words, said = BAD_TEXTS[what]
    place = tmp_path / "small.step"
    place.write_text(STEP.format(**holes))
    assert said in refused(str(place), *words)


def test_the_texts_without_their_mistakes(tmp_path: Path) -> None:
    place = tmp_path / "small.step"
    asking = "cholesky(v0) symmetrize_input=true replicated=true"
    for holes, words in ((PLAIN, ["--plan", DATA]), (OVER, [])):
        place.write_text(STEP.format(**holes))
        assert asked(str(place), *words).exit_code == 0
    square = STEP.format(**PLAIN).replace(",4]", ",8]")
    place.write_text(square.replace("tanh(v0)", asking))
    assert asked(str(place), "--plan", DATA).exit_code == 0


JAX = """
import importlib.metadata, sys
found = {found!r}
if found is None:
    sys.modules["jax"] = None
else:
    real = importlib.metadata.version
    importlib.metadata.version = lambda name: found if name == "jax" else real(name)
from synth.cli.app import app
app(["{verb}", "mlp-tiny", *{more!r}])
"""


@pytest.mark.parametrize(("verb", "found"), [("trace", "0.4.30"), ("shard", None)])
def test_a_missing_or_old_jax_is_reported_with_the_extra(verb: str, found: str | None) -> None:
    more = ["--plan", DATA] if verb == "shard" else []
    code = JAX.format(found=found, verb=verb, more=more)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "tracing a model needs JAX 0.10 or later, and" in done.stderr
    assert "pip install 'collsynth[jax]'" in done.stderr
    assert (found or "import of jax") in done.stderr
    assert len(done.stderr.splitlines()) == 1


LARGE = """
from pathlib import Path
from synth.collective.ranking.request import Watcher
from synth.ask.training.shards import ShardQuestion, shard
plan = "data=8 tensor=8; batch over data; weights over tensor as Megatron; zero=1"
found = shard(ShardQuestion(model="gpt3-175b", plan=plan), Watcher()).body
assert found["device"]["parameter"] < found["whole"]["parameter"] / 7
[most] = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
print(most.split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_gpt3_is_sharded_in_less_than_1500_megabytes() -> None:
    found = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) * 1024 < 1.5e9


def test_the_sharded_text_of_the_docs_is_right() -> None:
    page = (DOCS / "training-steps.md").read_text(encoding="utf-8")
    text = "step mlp over" + page.split("```\nstep mlp over")[1].split("```")[0]
    check(parse_sharded(text))
