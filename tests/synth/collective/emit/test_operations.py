"""Reduction operations other than the sum: where they are said, and where they cannot be.

That what is emitted takes maxima is run in ``test_fleet``, ``test_jax`` and ``run/test_run``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError, Reduction
from strategies import reducing, source, striped
from synth.ask.outputs import EmitQuestion, emit_program
from synth.ask.questions.question import parse_question
from synth.collective.emit.document.writing import read_stripes
from synth.collective.emit.source import CannotExpressError, EmitSource
from synth.collective.emit.targets import TARGETS, emit
from synth.collective.ranking.request import Watcher
from synth.collective.verify.replay import Failure, replay

PLAIN = Reduction.plain(2, 2)
NESTED = "reduce-scatter d0 inside; all-reduce d0 parallel(root); all-gather d0 inside"
REDUCING = {
    Goal.ALL_REDUCE: NESTED,
    Goal.REDUCE_SCATTER: "reduce-scatter d0 parallel(root); reduce-scatter d0 inside",
    Goal.REDUCE: "reduce d0 inside; reduce d0 master(root)",
}
OTHERS = [ReductionKind.MAX, ReductionKind.MIN]


def made(op: ReductionKind, goal: Goal = Goal.ALL_REDUCE) -> EmitSource:
    return reducing(source(REDUCING[goal], PLAIN, 64, 1, goal), op)


@pytest.mark.parametrize("op", OTHERS)
@pytest.mark.parametrize("goal", REDUCING)
def test_a_replay_takes_the_maximum_of_what_members_hold(goal: Goal, op: ReductionKind) -> None:
    schedule = made(op, goal).schedule
    given = np.array([[-5, -7, 3, -1], [-6, -2, 1, -1], [-9, -3, 2, -4], [-8, -4, -3, 0]])
    together = np.max if op is ReductionKind.MAX else np.min
    whole = together(given, axis=0)
    found = replay(schedule, given)
    assert not isinstance(found, Failure)
    match goal:
        case Goal.ALL_REDUCE:
            assert found.tolist() == [whole.tolist()] * 4
        case Goal.REDUCE_SCATTER:
            assert found.tolist() == [[one] for one in whole.tolist()]
        case _:
            assert found[0].tolist() == whole.tolist()


@pytest.mark.parametrize("op", ReductionKind)
@pytest.mark.parametrize("goal", REDUCING)
def test_a_document_names_its_operation_and_is_read_with_it(goal: Goal, op: ReductionKind) -> None:
    for given in (made(op, goal), reducing(side_by_side(goal), op)):
        [text] = emit("json", given).values()
        body = json.loads(text)
        assert body.get("op", "sum") == op.value
        assert {one.op for one in read_stripes(str(text))} == {op}


def side_by_side(goal: Goal) -> EmitSource:
    return striped([(REDUCING[goal], 40, 2), (REDUCING[goal], 30, 1)], PLAIN, goal)


def test_a_document_of_an_operation_of_nothing_is_refused() -> None:
    given = source("all-gather root inside", PLAIN, 64, 1, Goal.ALL_GATHER)
    [text] = emit("json", given).values()
    more = str(text).replace('"version": 1,', '"version": 1, "op": "max",')
    with pytest.raises(InputError, match="op: max, and of all-gather nothing is reduced"):
        read_stripes(more)


def test_a_trace_names_its_operation() -> None:
    [text] = emit("trace", made(ReductionKind.MIN)).values()
    assert json.loads(text)["otherData"]["op"] == "min"


def test_a_plan_of_mscclpp_adds() -> None:
    with pytest.raises(CannotExpressError, match=r"a max: its plans add") as refused:
        emit("mscclpp", made(ReductionKind.MAX))
    assert "torch" in str(refused.value)
    assert "mscclpp" not in str(refused.value.hint)


@pytest.mark.parametrize("goal", REDUCING)
@pytest.mark.parametrize("target", ["torch", "jax", "jax-flat", "mpi"])
def test_emitted_files_of_maxima_never_add(target: str, goal: Goal) -> None:
    [text] = emit(target, made(ReductionKind.MAX, goal)).values()
    for adds in ("ReduceOp.SUM", "MPI.SUM", "psum(", "psum_scatter", ".sum(", "install_ddp"):
        assert adds not in str(text)


@pytest.mark.skipif(shutil.which("ruff") is None, reason="needs ruff")
@pytest.mark.parametrize("target", ["torch", "jax", "jax-flat", "mpi"])
def test_emitted_files_of_maxima_are_clean(target: str, tmp_path: Path) -> None:
    for goal in REDUCING:
        for given in (
            made(ReductionKind.MAX, goal),
            reducing(side_by_side(goal), ReductionKind.MAX),
        ):
            [(name, text)] = emit(target, given).items()
            (tmp_path / f"{goal.name.lower()}_{bool(given.beside)}_{name}").write_text(str(text))
    words = ["ruff", "check", "--isolated", "--select=F,I", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


QUESTION = {
    "program": "all-reduce root inside",
    "system": "dgx-h100:1",
    "axes": {"data": 8},
    "reduce": ["data"],
    "target": "torch",
    "op": "max",
}


def test_a_question_s_operation_is_answered() -> None:
    answer = emit_program(parse_question(EmitQuestion, QUESTION), Watcher()).body
    assert answer["op"] == "max"
    assert "ReduceOp.MAX" in answer["files"][0]["text"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"op": "prod"}, "op: "),
        (
            {"program": "all-gather root inside", "request": "all-gather"},
            "--op: max, and of",
        ),
        ({"program": "all-reduce root inside; all-reduce root inside"}, "the program is "),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, str], said: str) -> None:
    """To take a contribution twice is refused, though a maximum would be the same."""
    with pytest.raises(InputError) as refused:
        emit_program(parse_question(EmitQuestion, {**QUESTION, **changed}), Watcher())
    assert said in str(refused.value)


def test_every_runnable_target_names_the_operation_or_refuses_it() -> None:
    for name, row in TARGETS.items():
        if row.runs:
            try:
                files = emit(name, made(ReductionKind.MIN))
            except CannotExpressError:
                assert name == "mscclpp"
            else:
                assert any("min" in str(text).lower() for text in files.values())


def test_an_operation_of_nothing_is_refused_where_a_schedule_is_made() -> None:
    given = source("all-gather root inside", PLAIN, 64, 1, Goal.ALL_GATHER)
    with pytest.raises(InputError, match="these reduce: all-reduce, reduce-scatter, reduce"):
        replace(given.schedule, op=ReductionKind.MAX)
