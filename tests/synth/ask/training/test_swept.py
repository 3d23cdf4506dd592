"""A sweep of ``plan``: each row is the answer of its own question."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synth
from hierarchies import InputError
from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.planning import PlanQuestion, plan
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome
from synth.ask.training.swept import (
    APART_FIRST,
    LEAST_IN_PIECE,
    MOST_COMBINATIONS,
    SWEPT_KEYS,
    divide_sweep,
    join_sweeps,
)
from synth.cli.inputs import read_swept
from synth.collective.ranking.request import Watcher
from synth.service.limits import Limits

ASKED: dict[str, Any] = {
    "system": "dgx-h100:1",
    "model": "llama3-tiny",
    "batch": 16,
    "k": 1,
    "pin": "pipe=1 zero=0 sequence=no",
}


def answer(watcher: Watcher | None = None, **others: Any) -> Any:
    return plan(parse_question(PlanQuestion, {**ASKED, **others}), watcher or Watcher()).body


def test_each_row_is_the_advised_plan_of_its_own_question() -> None:
    swept = {"batch": ["8", "16"], "system": ["dgx-h100:1"]}
    found = PlanSweepReply.model_validate(answer(sweep=swept))
    assert found.swept == swept
    assert found.complete
    pairs = [(batch, system) for batch in swept["batch"] for system in swept["system"]]
    for row, (batch, system) in zip(found.rows, pairs, strict=True):
        assert row.values == {"batch": batch, "system": system}
        alone = answer(batch=int(batch), system=system)
        advised = alone["plans"][alone["advised"]]
        assert (row.plan, row.seconds) == (advised["plan"], advised["seconds"])
        assert (row.system, row.samples) == (system, int(batch))
        assert row.bytes == advised["memory"]["bytes"]


def test_a_combination_that_cannot_be_planned_has_a_row_with_the_reason() -> None:
    found = answer(sweep={"pin": ["pipe=1 tensor=2", "tensor=3"], "batch": ["16"]})
    first, second = found["rows"]
    assert first["problem"] == ""
    assert first["plan"]
    assert "tensor=3 on 8 devices" in second["problem"]
    assert second["plan"] is None
    assert second["complete"]


class StopsAfterOne(Watcher):
    """Stops as soon as one combination is answered."""

    done = 0

    def judged(self, done: int, of: int) -> None:
        self.done = done

    def go_on(self) -> bool:
        return not self.done


def test_a_sweep_that_is_stopped_has_the_rows_so_far() -> None:
    found = answer(StopsAfterOne(), sweep={"batch": ["8", "16", "32"]})
    assert [row["values"] for row in found["rows"]] == [{"batch": "8"}]
    assert found["rows"][0]["complete"]
    assert not found["complete"]


@pytest.mark.parametrize(
    ("sweep", "problem"),
    [
        ({"batches": ["8"]}, "no key 'batches' to sweep"),
        ({"batch": []}, "a sweep over no value of batch"),
        ({"batch": ["8", "8"]}, "batch=8 is given twice"),
        ({"batch": ["many"]}, "batch=many cannot be read"),
        ({"batch": [*map(str, range(1, MOST_COMBINATIONS + 2))]}, "combinations"),
    ],
)
def test_a_sweep_of_no_use_is_refused(sweep: dict[str, list[str]], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_question(PlanQuestion, {**ASKED, "sweep": sweep})


def test_a_job_is_not_swept() -> None:
    given = {"system": "dgx-h100:1", "job": "gpt-18b-3d", "sweep": {"nccl": ["2.28.3"]}}
    with pytest.raises(InputError, match="sweep beside a job"):
        parse_question(PlanQuestion, given)


def test_files_of_swept_systems_are_read_by_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text("name = 'ours'", encoding="utf-8")
    read = read_swept([f"system=dgx-h100:1,{file}", "dtype=float32"])
    assert read["system"] == ["dgx-h100:1", {"name": str(file), "text": "name = 'ours'"}]
    assert read["dtype"] == ["float32"]
    with pytest.raises(InputError, match="'batch' sweeps nothing"):
        read_swept(["batch"])
    with pytest.raises(InputError, match="'batch=8,,16' has an empty value; leave out the extra"):
        read_swept(["batch=8,,16"])
    with pytest.raises(InputError, match=r"--sweep, nowhere\.toml: cannot read the file"):
        read_swept(["system=nowhere.toml"])
    with pytest.raises(InputError, match="batch is swept twice"):
        read_swept(["batch=8", "batch=16"])


def test_a_service_limits_the_combinations() -> None:
    question = parse_question(PlanQuestion, {**ASKED, "sweep": {"batch": ["8", "16", "32"]}})
    Limits(combinations=3).check(question)
    with pytest.raises(InputError, match="sweep comes to 3"):
        Limits(combinations=2).check(question)
    large = parse_question(PlanQuestion, {**ASKED, "sweep": {"system": ["dgx-h100:4"]}})
    with pytest.raises(InputError, match="the system has 32 devices"):
        Limits(devices=16).check(large)


def test_python_sweeps_too() -> None:
    found = synth.plan(**ASKED, sweep={"batch": ["8", "16"]})
    assert [row.values["batch"] for row in found.rows] == ["8", "16"]


SWEEPS = st.dictionaries(
    st.sampled_from(SWEPT_KEYS),
    st.lists(st.integers(1, 99).map(str), min_size=1, max_size=6, unique=True),
    min_size=1,
    max_size=4,
)


def combinations_of(sweep: Any) -> list[tuple[str, ...]]:
    return [*product(*sweep.values())]


@given(SWEEPS, st.integers(1, 40))
def test_pieces_of_a_sweep_hold_each_combination_once(sweep: Any, pieces: int) -> None:
    found = divide_sweep(sweep, pieces)
    assert len(found) <= pieces
    counts = [len(combinations_of(piece)) for piece in found]
    assert all(count >= LEAST_IN_PIECE for count in counts) or found == [sweep]
    assert all([*piece] == [*sweep] for piece in found)
    together = [values for piece in found for values in combinations_of(piece)]
    assert sorted(together) == sorted(combinations_of(sweep))


def test_questions_about_one_model_stay_together() -> None:
    assert sorted(APART_FIRST) == sorted(SWEPT_KEYS)
    batches, systems = [str(2**n) for n in range(3)], ["a", "b", "c", "d"]
    sweep: Any = {"batch": batches, "model": ["x", "y"], "system": systems}
    assert divide_sweep(sweep, 1) == [sweep]
    assert divide_sweep(sweep, 2) == [{**sweep, "model": ["x"]}, {**sweep, "model": ["y"]}]
    assert [piece["system"] for piece in divide_sweep(sweep, 4)] == 2 * [["a", "b"], ["c", "d"]]


def test_the_rows_of_pieces_are_the_answer_of_one_process() -> None:
    sweep: Any = {"batch": ["8", "16", "24"], "system": ["dgx-h100:1", "nowhere"]}
    question = parse_question(PlanQuestion, {**ASKED, "sweep": sweep})
    pieces = [{**sweep, "system": [system]} for system in sweep["system"]]
    replies = [
        plan(parse_question(PlanQuestion, {**ASKED, "sweep": piece}), Watcher()) for piece in pieces
    ]
    assert [reply.outcome for reply in replies] == [Outcome.OK, Outcome.NO]
    whole = plan(question, Watcher())
    assert join_sweeps(question.sweep, reversed(replies)) == whole
    assert [*join_sweeps(question.sweep, replies).body] == [*whole.body]
    part = join_sweeps(question.sweep, replies[:1])
    assert part.outcome is Outcome.PARTIAL
    assert part.body["rows"] == replies[0].body["rows"]
    assert not part.body["complete"]
