"""What is kept from question to question changes no answer, and is what would be computed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import synth
from hierarchies import InputError, load
from hierarchies.devices import device_named
from results.speedup.perfect import Several
from synth import verbs
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.cache.choice import NONE, VARIABLE
from synth.collective.ranking import library, oracle
from synth.collective.ranking.request import Watcher
from synth.step import models
from synth.step.models import ModelSettings, zoo_step
from synth.step.search import links
from synth.step.search.composing import kept as insides
from synth.step.search.composing.composer import Composer
from synth.step.search.composing.inside import Inside
from synth.step.search.job import PlanningProblem
from synth.step.search.pins import Pins
from synth.step.sharding import Recipe

CODING = insides.KEPT._codec
ROOT = Path(__file__).parents[4]


def forget() -> None:
    """As a fresh process: nothing is in memory."""
    for each in (insides.KEPT, models.KEPT, links.KEPT, oracle.KEPT, library.PROOFS):
        each.forget()
    models._recall_zoo.cache_clear()
    vars(links._THREAD).clear()
    verbs.ANSWERS.forget()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, of which this process knows nothing."""
    forget()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kept"))
    yield tmp_path / "kept"
    forget()


def job(
    model: str = "gpt2-tiny", batch: int = 32, system: str = "dgx-h100:2", device: str = ""
) -> PlanningProblem:
    machine = load(system)
    spelling = ModelSettings(batch=batch, dtype="bfloat16")
    return PlanningProblem(model, {}, spelling, machine, device_named(device or machine.device))


def fill(problem: PlanningProblem, pins: str = "", crew: Watcher | None = None) -> list[Any]:
    """Returns what was written out for a problem, and its composer's insides."""
    composer = problem.compose()
    wanted = composer.wanted(problem.recipes(Pins.parse(pins)))
    composer.write(wanted, crew or Watcher())
    return [wanted, composer._written]


PINNED = ("", "schedule=zero-bubble-h1", "remat=yes zero=3")


@pytest.mark.parametrize("pins", PINNED)
def test_insides_that_are_kept_are_those_that_are_written_out(folder: Path, pins: str) -> None:
    wanted, written = fill(job(), pins)
    assert wanted
    for where in ("in memory", "on disk"):
        if where == "on disk":
            forget()
        nothing, recalled = fill(job(), pins)
        assert nothing == []
        assert recalled == written
        for key, inside in written.items():  # in the same order, in which they are summed
            assert CODING.encode(recalled[key]) == CODING.encode(inside)


@pytest.mark.parametrize("model", ["mixtral-tiny", "lstm", "resnet50"])
def test_other_models_are_kept_as_well(folder: Path, model: str) -> None:
    _, written = fill(job(model), "remat=no zero=1")
    forget()
    assert fill(job(model), "remat=no zero=1") == [[], written]


OTHERS: list[dict[str, Any]] = [{"batch": 64}, {"batch": 16}, {"system": "dgx-h100:4"}]


@pytest.mark.parametrize("other", OTHERS)
def test_another_batch_or_machine_needs_what_differs_alone(
    folder: Path, other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(job())
    forget()
    wanted, written = fill(job(**other))
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, NONE)
        all_wanted, alone = fill(job(**other))
    assert written == alone
    count = sum(len(counts) for _, counts in wanted)
    assert count < sum(len(counts) for _, counts in all_wanted) / 2


def test_other_rates_need_other_insides(folder: Path) -> None:
    """The memory of a pass depends on which tasks overlap, and so on their seconds."""
    wanted, written = fill(job(), "zero=0 remat=no")
    others, of_others = fill(job(device="A100 SXM4 80 GB"), "zero=0 remat=no")
    assert others == wanted
    assert of_others != written


def test_processes_keep_what_their_forks_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.search.forks.WORTH_SECONDS", 0)
    _, written = fill(job(), "zero=0 remat=no", Several(2))
    monkeypatch.setenv(VARIABLE, str(folder / "other"))  # so what is found is in memory
    assert fill(job(), "zero=0 remat=no") == [[], written]


class Store:
    """Insides of one sample are kept."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside

    def find(self, within: Recipe, counts: Sequence[int]) -> dict[int, Inside]:
        return {count: self.inside for count in counts if count == 1}

    def keep(self, within: Recipe, counts: Sequence[int], insides: Sequence[Inside]) -> None:
        pass


@pytest.mark.parametrize("kept", [False, True])
def test_insides_that_cannot_be_written_out_together_are_all_refused(kept: bool) -> None:
    """As without a cache: what is found of a group does not make the rest of it valid."""
    [inside, *_] = fill(job(), "zero=0 remat=no")[1].values()
    asked: list[Sequence[int]] = []

    def refuse(within: Recipe, counts: Sequence[int]) -> Sequence[Inside]:
        asked.append(counts)
        raise InputError("no")

    store: Any = Store(inside) if kept else None
    composer = Composer(2, 32, refuse, kept=store)
    composer.write(composer.wanted(job().recipes(Pins.parse("zero=0 remat=no"))), Watcher())
    assert all(counts[0] == 1 for counts in asked)
    assert all(isinstance(result, InputError) for result in composer._written.values())


def test_a_step_that_is_kept_is_the_step_that_was_traced(folder: Path) -> None:
    for model in ("gpt2-tiny", "mixtral-tiny", "lstm", "resnet50", "mlp"):
        given = model, {}, ModelSettings(batch=4)
        traced = zoo_step(*given)
        forget()
        again = zoo_step(*given)
        assert again is not traced
        text = models.KEPT._codec.encode(traced)  # has the user's lines, which == passes over
        assert models.KEPT._codec.encode(again) == text
        assert str(again) == str(traced)


QUESTIONS: list[dict[str, Any]] = [
    {"model": "gpt2-tiny", "batch": 16, "pin": "zero=1 remat=no", "explain": "tensor=4"},
    {"model": "gpt2-tiny", "batch": 32, "pin": "zero=1 remat=no pipe=2"},
    {"model": "lstm", "batch": 64, "pin": "zero=0"},
]


def answer(question: dict[str, Any]) -> str:
    asked = parse_question(VERBS["plan"].question, {"system": "dgx-h100:1", **question})
    return json.dumps(VERBS["plan"].answer(asked, Watcher()).body, allow_nan=False)


def test_answers_are_the_same_with_and_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, NONE)
        alone = [answer(question) for question in QUESTIONS]
    assert not folder.exists()
    assert [answer(question) for question in QUESTIONS] == alone
    assert [answer(question) for question in QUESTIONS[::-1]] == alone[::-1]
    forget()
    assert [answer(question) for question in QUESTIONS] == alone


def test_a_plan_asked_twice_is_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = synth.plan("dgx-h100:1", **QUESTIONS[0])
    expected = first.model_dump_json()
    first.plans.clear()
    watched = synth.plan("dgx-h100:1", **QUESTIONS[0], watcher=Watcher())
    monkeypatch.setattr("synth.ask.planning.plan_step", None)
    again = synth.plan("dgx-h100:1", **QUESTIONS[0])
    assert again.model_dump_json() == watched.model_dump_json() == expected


def test_damaged_entries_are_written_again(folder: Path) -> None:
    expected = answer(QUESTIONS[0])
    entries = {path: path.read_bytes() for path in folder.iterdir()}
    for number, path in enumerate(entries):
        content = entries[path]
        path.write_bytes(content[: len(content) // 2] if number % 2 else b"0" + content)
    forget()
    assert answer(QUESTIONS[0]) == expected
    assert {path: path.read_bytes() for path in folder.iterdir()} == entries


ASKING = """
import json, sys
import synth
answer = synth.plan("dgx-h100:1", model="gpt2-tiny", batch=16, pin="zero=0 remat=no")
print(answer.model_dump_json())
print("jax" in sys.modules)
"""


def start() -> subprocess.Popen[str]:
    words = [sys.executable, "-c", ASKING]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def test_processes_at_once_and_after_one_another(folder: Path) -> None:
    """A process that finds everything does not import JAX."""
    at_once = [process.communicate() for process in [start(), start()]]
    later = start().communicate()
    answers = [output.splitlines() for output, _ in (*at_once, later)]
    assert [errors for _, errors in (*at_once, later)] == [""] * 3
    assert len({first for first, _ in answers}) == 1
    assert [imported for _, imported in answers] == ["True", "True", "False"]
