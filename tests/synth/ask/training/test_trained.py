"""The verb train: the plan in numbers, the file, what is tried, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grammar.tensors.operations import Step
from hierarchies import InputError
from places import TESTS
from synth.ask.questions.question import parse_question
from synth.ask.table import judge
from synth.ask.training import trained as training
from synth.ask.training.trained import TrainQuestion, TrainReply, train_step
from synth.cli.app import app
from synth.cli.foreign_inputs import read_step
from synth.collective.ranking.request import Watcher
from synth.show.terminal.table import TABLES
from synth.step.emit import NOT_EXECUTED
from synth.step.models import own_function
from synth.step.trials import SingleDeviceRun, StepDifference, TrialComparison

KEPT = TESTS / "steps" / "mlp-tiny.step"
TEXT = {"name": "kept.step", "text": KEPT.read_text(encoding="utf-8")}


def answer(**given: Any) -> TrainReply:
    body = train_step(parse_question(TrainQuestion, {"model": TEXT, **given}), Watcher()).body
    found: TrainReply = judge("train").validate_python(body)
    assert TABLES["train"](body)
    return found


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["train", *words])


def test_zero_determines_bytes_held_and_sent() -> None:
    whole = 4 * (32 + 16 * 32 + 8 + 32 * 8 + 2 * 32 + 2 * 32 * 32)
    for zero, parameters, moments in ((0, 1, 1), (1, 1, 4), (2, 1, 4), (3, 4, 4)):
        plan = "data=4; batch over data" + (f"; zero={zero}" if zero else "")
        found = answer(plan=plan)
        assert found.plan == plan
        assert found.axes == {"data": 4}
        assert found.devices == 4
        assert found.held.parameter == whole // parameters
        assert found.held.moment == 2 * whole // moments
        sent = {one.what: one.times for one in found.redistributions}
        assert ("all-reduce over data" in sent) == (zero < 2)
        assert ("reduce-scatter over data" in sent) == (zero >= 2)
        assert ("all-gather over data" in sent) == (zero >= 1)
    assert found.check is None


def test_a_gradient_is_sent_once_for_each_parameter_and_loops_count_as_often_as_they_go() -> None:
    (reduced,) = answer(plan="data=2; batch over data").redistributions
    assert reduced.times == 6
    gathered = answer(plan="data=2; batch over data; zero=3").redistributions
    by_name = {one.what: one.times for one in gathered}
    assert by_name["reduce-scatter over data"] == 6
    assert by_name["all-gather over data"] >= 4 + 2 * 2


def test_files_are_for_a_runtime(tmp_path: Path) -> None:
    for runtime, word in (("jax", "jax.shard_map"), ("torch", "torch.distributed")):
        [file] = answer(plan="data=2; batch over data", runtime=runtime).files
        assert file.name == f"mlp-tiny_{runtime}.py"
        assert word in file.text
        assert NOT_EXECUTED in file.text.split('"""')[1]
        path = tmp_path / f"{runtime}.py"
        words = ("--plan", "data=2; batch over data", "--runtime", runtime, "-o", str(path))
        found = run(str(KEPT), *words)
        assert found.exit_code == 0, found.stderr
        assert path.read_text(encoding="utf-8") == file.text


def test_no_other_verb_hands_out_a_step_that_runs(tmp_path: Path) -> None:
    """A text is typed and checked by those who read it; configurations run a framework's own step.

    If one of these ever writes a step for a runtime, that must say whether it was executed.
    """
    data = ("--plan", "data=8; batch over data")
    for words in (("shard", str(KEPT), *data), ("plan", "dgx-h100:1", "--model", "gpt2-tiny")):
        place = tmp_path / words[0]
        found = CliRunner().invoke(app, [*words, "-o", str(place)])
        assert found.exit_code == 0, found.stderr
        written = [place] if place.is_file() else [one for one in place.rglob("*") if one.is_file()]
        assert written
        for file in written:
            text = file.read_text(encoding="utf-8")
            assert ("def device_step" not in text) or "xecuted when it was written" in text, file


def test_gradients_are_sent_beside_compute_if_that_is_asked_for() -> None:
    """In words of simulate; without it every collective is waited for where it stands."""
    asked_for = {"plan": "data=2; batch over data", "runtime": "torch"}
    plain, early = (
        answer(**asked_for, **more).files[0].text for more in ({}, {"overlap": "gradients"})
    )
    assert "later=True" not in plain
    gradients, loss = 6, 1
    assert early.count("later=True)") == gradients + loss


def test_overlap_that_nobody_could_write_is_refused() -> None:
    plan = {"plan": "data=8; batch over data", "overlap": "gradients"}
    with pytest.raises(InputError, match="--overlap: jax is told no order"):
        answer(**plan, runtime="jax")
    with pytest.raises(InputError, match="--overlap: programs for a machine are waited for"):
        answer(**plan, runtime="torch", system="dgx-h100:1")


@pytest.mark.slow
def test_overlapped_steps_train_like_one_device() -> None:
    for plan in ("data=2; batch over data; zero=1", "data=2; batch over data; zero=3"):
        found = answer(plan=plan, runtime="torch", overlap="gradients", check=True, steps=2)
        assert found.check is not None
        assert found.check.equal


def test_a_plan_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.txt"
    path.write_text("data=2; batch over data\n")
    found = run(str(KEPT), "--plan", str(path), "--json")
    assert json.loads(found.stdout)["plan"] == "data=2; batch over data"


REFUSED = {
    "another machine": ({"system": "dgx-h100:1"}, "--plan", "the axes multiply to 2 devices, and"),
    "programs for stages in JAX": (
        {"system": "dgx-h100:1", "runtime": "jax", "model": "mlp-tiny", "sizes": {"layers": 6}}
        | {"plan": "data=4 pipe=2; batch over data; schedule 1f1b, 2 microbatches"},
        "SYSTEM",
        "stages in JAX call no programs",
    ),
    "no plan": ({"plan": "batch over data"}, "plan", "no axes in"),
    "what does not divide": (
        {"plan": "data=3; batch over data"},
        "input ",
        "data=3 cuts dimension",
    ),
    "nothing Megatron cuts": (
        {"plan": "data=2; weights over data as Megatron"},
        "",
        "nothing of",
    ),
    "processes": ({"check": True, "processes": 3}, "--processes", "3 processes, and the axes"),
    "sizes of a text": ({"sizes": {"layers": 2}}, "sizes", "this changes models of the zoo"),
}


@pytest.mark.parametrize(("given", "where", "problem"), REFUSED.values(), ids=REFUSED)
def test_invalid_input_is_refused(given: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        answer(**{"plan": "data=2; batch over data", "runtime": "torch", **given})
    assert where in str(refused.value)


def test_a_runtime_that_is_missing_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr("synth.step.trials.processes.find_spec", lambda name: None)
    found = run(str(KEPT), "--plan", "data=2; batch over data", "--check", "--runtime", "torch")
    assert found.exit_code == 2
    assert found.stderr.strip().endswith("not installed; pip install 'collsynth[torch]'")


@pytest.mark.slow
def test_a_trial_is_announced_and_exits_by_its_comparison(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    words = (str(KEPT), "--plan", "data=2; batch over data", "--runtime", "torch", "--check")
    found = run(*words, "--steps", "2", "--json")
    assert found.exit_code == 0, found.stderr
    check = json.loads(found.stdout)["check"]
    assert (check["equal"], check["unlike"], check["processes"]) == (True, [], 2)
    assert check["alone"] == "the step's text on one device"
    assert len(check["steps"]) == 2
    assert all(one["difference"] < 1e-6 for one in check["steps"])
    heading = " ".join(json.loads(found.stdout)["files"][0]["text"].split('"""')[1].split())
    assert f"2 steps by 2 processes of torch {version('torch')}, compared with the" in heading
    assert heading.endswith("one device: equal within rounding.")
    whole = training.write
    monkeypatch.setattr(
        training, "write", lambda *given, **more: whole(*given, **more).replace("0.95 *", "0.94 *")
    )
    path = tmp_path / "step.py"
    found = run(*words, "-o", str(path))
    assert found.exit_code == 1
    assert "NOT equal: square/" in found.stdout
    assert "NOT equal: square/" in path.read_text(encoding="utf-8").split('"""')[1]


OWN = """
import jax, jax.numpy as jnp, numpy as np
MASK = np.tril(np.ones((8, 8), np.float32))
def model():
    def loss(p, x):
        return ((jnp.asarray(MASK) * (x @ p["w"])) ** 2).mean()
    shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    return loss, {"w": shape}, shape
"""


def test_only_what_this_process_traced_is_run_again(tmp_path: Path) -> None:
    """A text with the name of a file and a function runs nothing, as in the service."""
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    (tmp_path / "own.py").write_text(OWN)
    text = read_step(f"{tmp_path}/own.py:model")["text"]
    assert own_function(text) is not None
    assert own_function(text.replace("step own", "step other")) is None
    assert own_function(TEXT["text"]) is None


def test_the_function_is_asked_where_this_process_has_it(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    (tmp_path / "own.py").write_text(OWN)
    row = StepDifference(1.0, 1.0, 0.0, 0.0)
    monkeypatch.setattr(training, "trained_in", lambda *given: None)
    monkeypatch.setattr(training, "run_text", lambda *given: SingleDeviceRun("text", {}, {}))
    monkeypatch.setattr(
        training, "run_own_function", lambda step, function, *more: SingleDeviceRun("own", {}, {})
    )
    monkeypatch.setattr(training, "compare_runs", lambda *given: TrialComparison((row,), ("v0",)))
    own, plan = read_step(f"{tmp_path}/own.py:model"), "a=2; batch over a"
    other = {**own, "text": own["text"].replace("step own", "step other")}
    for model, alone in ((own, "own"), (other, "text")):
        found = answer(model=model, plan=plan, check=True, steps=1)
        assert found.check is not None
        assert found.check.alone == alone
        heading = " ".join(found.files[0].text.split('"""')[1].split())
        assert heading.endswith(f"compared with {alone}: NOT equal: v0.")


@pytest.mark.slow
def test_a_model_of_ones_own_is_compared_with_its_function(tmp_path: Path, monkeypatch) -> None:
    """Not with its trace: where that has other values than the function, the check says so."""
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    (tmp_path / "own.py").write_text(OWN)
    words = (f"{tmp_path}/own.py:model", "--plan", "a=2; batch over a", "--check")
    words += ("--processes", "1", "--steps", "1")
    found = run(*words, "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["check"]["alone"] == "the model's own function in JAX"
    from synth.step.trace import tracing  # Not at the top of the file: it needs JAX.

    whole = tracing.trace_step

    def with_zeros(*given: Any) -> Step:
        step = whole(*given)
        zeros = tuple((name, bytes(len(data))) for name, data in step.constants)
        return replace(step, constants=zeros)

    monkeypatch.setattr(tracing, "trace_step", with_zeros)
    found = run(*words)
    assert found.exit_code == 1
    assert "NOT equal: loss" in found.stdout
