"""The verb trace: models of the zoo, texts that were kept, models of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hierarchies import InputError
from manual import DOCS
from synth.ask.training.traces import TraceQuestion, trace
from synth.cli.app import app
from synth.collective.ranking.request import Watcher
from synth.step.zoo.sizes import ZOO

OWN = """
import jax
import jax.numpy as jnp

def number(*shape): return jax.ShapeDtypeStruct(shape, jnp.float32)

def model():
    return lambda p, b: ((b @ p["w"]) ** 2).mean(), {"w": number(4, 2)}, number(8, 4)

def whole():
    def step(parameters, moments, batch):
        return {"w": parameters["w"] - moments * batch.mean()}, moments, batch.sum()
    return step, {"w": number(4, 2)}, number(), number(8, 4)

def unknown():
    def loss(p, b): return jnp.linalg.slogdet(p @ p.T + b)[1]
    return loss, number(3, 3), number(3, 3)

def opaque():
    return lambda p, b: p.sum() + jax.lax.linalg.lu(b)[0].sum(), number(3), number(3, 3)
opaque.replicated = ("lu",)

def broken(): raise RuntimeError("no such thing")
def empty(): return None
def depends():
    return lambda p, b: (p[b > 0]).sum(), number(8), number(8)
"""


def answer(**question: Any) -> Any:
    return trace(TraceQuestion.model_validate(question), Watcher()).body


def asked(*words: str) -> Any:
    return CliRunner().invoke(app, ["trace", *words])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def test_a_kept_text_is_the_step_that_was_traced() -> None:
    first = answer(model="gpt2-tiny", batch=4, remat=True)
    text = first["files"][0]["text"]
    again = answer(model={"name": "kept.step", "text": text})
    assert first.pop("sizes") == {
        "layers": 2,
        "width": 32,
        "heads": 4,
        "sequence": 16,
        "vocabulary": 64,
    }
    assert again.pop("sizes") == {}
    assert again == first


def test_facts_of_a_model() -> None:
    found = answer(model="gpt2-tiny", batch=4, sizes={"layers": 3})
    assert found["sizes"]["layers"] == 3
    assert found["bytes"]["moment"] == 2 * found["bytes"]["parameter"] == 8 * found["parameters"]
    assert found["bytes"]["batch"] == 2 * 4 * 16 * 4
    assert found["flops"] == sum(one["flops"] for one in found["work"])
    assert [one["count"] for one in found["loops"]] == [3, 3]
    without = answer(model="gpt2-tiny", batch=4, sizes={"layers": 3}, optimizer="sgd")
    assert without["bytes"]["moment"] == 0
    assert without["parameters"] == found["parameters"]
    assert answer(model="llama3-tiny")["sizes"]["dropless"] == 0
    dropping = answer(model="dropless-tiny", sizes={"dropless": 0})
    assert dropping["work"] == answer(model="mixtral-tiny")["work"]


def test_code_is_never_run_for_a_question(own: Path) -> None:
    for model in (f"{own}:broken", "own.py:broken", str(own)):
        with pytest.raises(InputError, match="no model"):
            answer(model=model)
    with pytest.raises(InputError, match="expected one of: step"):
        answer(model={"name": f"{own}:broken", "text": OWN})


@pytest.mark.parametrize("given", [{"batch": 4}, {"sizes": {"layers": 1}}, {"remat": True}])
def test_a_text_is_what_it_is(given: dict[str, Any]) -> None:
    text = "step a\nin x: f32[2] parameter\nout x\n"
    assert answer(model={"name": "a", "text": text})["parameters"] == 2
    with pytest.raises(InputError, match="a text is what it is"):
        answer(model={"name": "a", "text": text}, **given)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"model": "gpt5"}, "no model 'gpt5'"),
        ({"model": "gpt2-small", "sizes": {"layers": 300}, "unrolled": True}, "at most 256"),
        ({"model": "gpt2-small", "sizes": {"vocabulary": 10**15}}, "gpt2"),
    ],
)
def test_what_cannot_be_traced(question: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        answer(**question)
    assert said in str(refused.value)


def test_models_of_ones_own(own: Path) -> None:
    body = json.loads(asked(f"{own}:model", "--json").stdout)
    assert body["name"] == "own"
    assert body["parameters"] == 8
    assert body["bytes"]["moment"] == 64
    # Forwards, and backwards to the weight only, as nobody asks for the batch's gradient.
    [products] = [one for one in body["work"] if one["primitive"] == "dot_general"]
    assert products["flops"] == 2 * 2 * 8 * 4 * 2
    assert all(
        "own.py:" in line for line in body["files"][0]["text"].splitlines() if "tanh" in line
    )
    whole = json.loads(asked(f"{own}:whole", "--json").stdout)
    assert (whole["bytes"]["state"], whole["bytes"]["moment"]) == (4, 0)
    kept = json.loads(asked(f"{own}:opaque", "--json").stdout)
    assert {"lu": "unknown"}.items() <= {w["primitive"]: w["kind"] for w in kept["work"]}.items()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("unknown", "primitive"),
        ("broken", "RuntimeError: no such thing"),
        ("empty", "it returned a NoneType; return (loss, parameters, batch)"),
        ("depends", "own.py:26"),
        ("nothing", "no function 'nothing'"),
    ],
)
def test_a_model_of_ones_own_that_is_wrong_is_one_line(own: Path, function: str, said: str) -> None:
    result = asked(f"{own}:{function}")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import nothing_of_that_name\n")
    assert "ModuleNotFoundError" in asked(f"{wrong}:model").stderr
    assert "there is no file" in asked(f"{tmp_path}/none.py:model").stderr
    assert "there is no file" in asked(f"{tmp_path}/none.step").stderr


def test_a_step_is_written_and_read(tmp_path: Path) -> None:
    place = tmp_path / "kept.step"
    assert asked("lstm-tiny", "-o", str(place)).exit_code == 0
    result = asked(str(place))
    assert "5280" in result.stdout.replace(",", "")


ALONE = """
import sys
sys.modules["jax"] = None
from hierarchies import InputError
from synth.collective.ranking.request import Watcher
from synth.ask.training.traces import TraceQuestion, trace
text = "step a\\nin x: f32[2] parameter\\nout x\\n"
question = TraceQuestion(model={"name": "a", "text": text})
assert trace(question, Watcher()).body["parameters"] == 2
try:
    trace(TraceQuestion(model="mlp-tiny"), Watcher())
except InputError as error:
    print(error)
"""


def test_without_jax_texts_are_read_and_the_zoo_names_the_install_command() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=True
    )
    assert "tracing a model needs JAX" in found.stdout
    assert "pip install 'collsynth[jax]'" in found.stdout


LARGE = """
from pathlib import Path
from synth.step.models import ModelSettings, zoo_step
step = zoo_step("gpt3-175b", {}, ModelSettings(dtype="bfloat16", remat=True))
pairs = zip(step.graph.inputs, step.roles)
assert sum(v.type.elements for v, r in pairs if r == "parameter") > 174e9
[most] = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
print(most.split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_gpt3_is_traced_in_less_than_1500_megabytes() -> None:
    """Not by getrusage: a process begins with the peak of the one that forked it."""
    found = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) * 1024 < 1.5e9


def test_the_model_and_the_step_of_the_docs_can_be_traced(tmp_path: Path) -> None:
    page = (DOCS / "training-steps.md").read_text(encoding="utf-8")
    blocks = (one.split("```")[0] for one in page.split("```python\n")[1:])
    (tmp_path / "own.py").write_text(next(one for one in blocks if "def model" in one))
    assert json.loads(asked(f"{tmp_path}/own.py:model", "--json").stdout)["parameters"] == 8
    (tmp_path / "mlp.step").write_text(
        "step mlp\n" + page.split("```\nstep mlp\n")[1].split("```")[0]
    )
    assert json.loads(asked(f"{tmp_path}/mlp.step", "--json").stdout)["flops"] == 1024 + 32


def test_all_names_of_the_zoo_and_of_their_sizes_are_in_the_docs() -> None:
    page = (DOCS / "training-steps.md").read_text(encoding="utf-8")
    for name, sizes in ZOO.items():
        assert f"`{name}`" in page
        has = {field.name for field in fields(sizes)} - {"blocks", "rope_base", "form"}
        assert all(f"`{one}`" in page for one in has)
