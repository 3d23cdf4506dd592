"""What to do about an answer: judged by the rows that people see, and by what the file has."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from hierarchies import UndeterminedLevels, describe_system
from hierarchies.units import format_bytes, format_duration
from machines import bare, calibration, precise_text
from plain_text import printed
from synth.ask.answers.parts import LaterDefault
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import RankingReply, SweepReply
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.algorithms.protocols import Protocol
from synth.collective.ranking.request import Watcher
from synth.collective.ranking.settings import explain_scope
from synth.measure.calibration.experiments import isolating_experiment, launch_lines
from synth.show.report.details import emit_question
from synth.show.terminal.deciding import ToDo, find_deciding_runs
from synth.show.terminal.rankings import render_top
from synth.show.terminal.rows import Ranking, rows
from synth.show.terminal.verdict import KEEP, Verdict, verdict

SHORT: dict[str, Any] = {"reduce": ["data"], "k": 4, "max_steps": 3, "stripes": False}
H100 = {**SHORT, "system": "dgx-h100:4", "axes": {"data": 8, "model": 4}}
P2 = {**SHORT, "system": precise_text("p2-a100:4"), "axes": {"data": 64}}
RANGE = {**P2, "system": precise_text("p2-a100:4", error=0.15)}
TREE = {**RANGE, "bytes": "1MiB"}
V100 = {**SHORT, "system": "p2-v100:2", "axes": {"data": 4, "model": 4}, "per_placement": True}
ASKED = {
    "keep": H100,
    "measure": {**SHORT, "system": "dgx-h100:4", "axes": {"data": 32}, "bytes": "16MiB"},
    "a file": P2,
    "a variable": TREE,
    "a variable first": {
        **H100,
        "axes": {"data": 8, "tensor": 4},
        "bytes": "64MiB",
        "stripes": True,
    },
    "placements": V100,
    "not offered": {**H100, "bytes": "64KiB", "algorithm": "any", "per_placement": True},
    "gathered": {**P2, "request": "all-gather"},
    "chips": {**SHORT, "system": "tpu-v5e-slice:4x4", "axes": {"data": 16}},
}


def answered(**given: Any) -> Ranking:
    question = parse_question(VERBS["top"].question, given)
    found: Ranking = judge("top").validate_python(VERBS["top"].answer(question, Watcher()).body)
    return found


def told(reply: Ranking) -> Verdict:
    found = verdict(reply)
    assert found is not None
    return found


@pytest.mark.parametrize("case", ASKED)
def test_it_is_the_largest_speed_up_that_can_be_had_or_that_there_is_none(case: str) -> None:
    reply = answered(**ASKED[case])
    assert isinstance(reply, RankingReply)
    found, seen = told(reply), rows(reply)
    gains = [
        (float(row.speedup[0].rstrip("x")), at)
        for at, row in enumerate(seen)
        if row.speedup[0].endswith("x") and row.proof == "proved"
        if reply.answers[at].advice.by.value in ("environment", "file")
    ]
    best = max((speedup for speedup, _ in gains if speedup > 1), default=None)
    open_ = [one.worth_measuring for one in reply.answers if one.worth_measuring]
    if best is None and open_:
        most = min(open_, key=lambda one: one.seconds)
        quick = [one for one in open_ if one.advice.by.value == "environment"]
        first = min(quick, key=lambda one: one.seconds, default=most)
        runs = [one for one in open_ if one in (first, most)]
        upto = "up to " * (len(runs) > 1)
        assert found.headline == f"{KEEP}; worth measuring: {upto}{most.speedup:.2f}x"
        assert [reply.answers[run.row].worth_measuring for run in found.to_do] == runs
        for run, one in zip(found.to_do, runs, strict=True):
            assert [*filter(None, (run.emits, *run.lines.splitlines()))] == one.commands
            assert "collsynth emit" not in run.lines
            assert (run.expected, run.under) == (
                f"{one.speedup:.2f}x",
                format_duration(one.default_seconds / one.decides_speedup),
            )
            assert run.between == " to ".join(f"{end:.2f}x" for end in one.speedup_interval)
        assert runs[0].decides.partition(":")[0].partition("if it ")[2][:26] in found.decides
        assert format_duration(runs[0].default_seconds) in found.decides
        shown = " ".join(printed(render_top(reply)).split())
        # A long cell is printed on several lines, beside those of the other columns.
        parts = [word for run in found.to_do for word in run.sets.split()]
        for cell in (found.headline, *parts, *(run.between for run in found.to_do)):
            assert cell in shown, "the terminal says what the page does"
        return
    if best is None:
        assert (found.headline, found.to_do) == (KEEP, ())
        assert format_duration(reply.best_default_seconds) in found.lines[0]
        return
    assert found.headline == f"{best:.2f}x: do this"
    assert (best, found.to_do[0].row) in gains
    assert format_duration(reply.answers[found.to_do[0].row].runtime_seconds) in found.lines[0]


def test_a_variable_is_a_line_to_set_and_a_file_is_one_that_is_emitted() -> None:
    [line] = told(answered(**TREE)).to_do
    assert re.fullmatch(
        "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:(LL|LL128|Simple)", line.lines
    )
    for case, hook in (("a file", "install_ddp"), ("gathered", "install_fsdp2")):
        reply = answered(**ASKED[case])
        [put] = told(reply).to_do
        assert hook in put.lines
        shown = " ".join(printed(render_top(reply)).split())
        assert " ".join(f"{put.emits} {put.what} {put.lines}".split()) in shown
        assert put.file is not None
        assert put.file.name.removesuffix(".py") in put.lines
        assert f"def {hook}(" in emitted(reply, put)


def emitted(reply: Ranking, what: ToDo) -> str:
    """The text of the file that something to do needs, under the very name that is said there."""
    assert what.file is not None
    emit, size = VERBS["emit"], what.file.size_bytes
    question = parse_question(emit.question, emit_question(reply, what.row, what.file.target, size))
    [file] = judge("emit").validate_python(emit.answer(question, Watcher()).body).files
    assert file.name == what.file.name
    unsized = parse_question(emit.question, emit_question(reply, what.row, what.file.target))
    assert unsized == question, "wherever the row's file is handed out it is this one"
    return str(file.text)


TENSOR: dict[str, Any] = {"reduce": ["data"], "axes": {"data": 16, "tensor": 2}}
WITH_FILES = {
    "two rows": (2, {**RANGE, "bytes": [2**26, 2**30]}),
    "a run": (1, {**TENSOR, "system": "dgx-a100:4", "bytes": "256MiB"}),
    "a run, and a gain from a size on": (1, {**RANGE, "bytes": [2**10, 2**26]}),
}


@pytest.mark.parametrize("case", WITH_FILES)
def test_files_of_two_rows_have_two_names_and_each_command_runs_its_own(case: str) -> None:
    """Both were called ``collsynth_torch.py``: the second ran in the place of the first."""
    files, given = WITH_FILES[case]
    reply = answered(**given)
    texts = {}
    for one in told(reply).to_do:
        if one.file:
            texts[one.file.name] = emitted(reply, one)
            assert one.emits.endswith(f" -o {one.file.name}")
            if one.under:
                assert all(f" {one.file.name} --bytes" in line for line in one.lines.splitlines())
    assert len(set(texts.values())) == len(texts) == files


@pytest.mark.parametrize(("data", "warned"), [(8, True), (16, False)])
def test_the_default_without_nvls_is_followed_by_that_of_later_nccl(
    data: int, warned: bool
) -> None:
    """Two GPUs of a node in each communicator, or four."""
    axes = {"data": data, "tensor": 32 // data}
    reply = answered(**{**H100, "axes": axes, "bytes": "256MiB", "k": 1})
    assert isinstance(reply, RankingReply)
    [one] = reply.answers
    assert one.default.name == ("ring" if warned else "nvls_tree")
    assert ("nvls_tree" in one.defaults) != warned
    said = [at for at, line in enumerate(told(reply).lines) if "no NVLS" in line]
    assert said == [0 if told(reply).headline != KEEP else 1] * warned
    if warned:
        assert one.later_default
        assert one.later_default.name == "nvls_tree"
        line = told(reply).lines[said[0]]
        took = format_duration(one.later_default.seconds), format_duration(one.baseline_seconds)
        assert "In later NCCL it is nvls_tree: {}, not {}. ".format(*took) in line
        assert one.later_default.seconds > one.baseline_seconds
        setting = "NCCL_ALGO=allreduce:Ring NCCL_PROTO=allreduce:Simple keeps what is priced"
        assert line.endswith(f". {setting}: {explain_scope('all-reduce')}")


def test_sizes_without_an_available_default_are_reported() -> None:
    given = {**H100, "axes": {"data": 8, "tensor": 4}, "bytes": [2**25, 2**27], "max_steps": 1}
    reply = answered(**given)
    assert isinstance(reply, SweepReply)
    [one] = reply.stretches
    assert one.first.later_default is None
    first, size = one.last.later_default, one.until_bytes
    assert first
    [said] = [line for line in told(reply).lines[:2] if "no NVLS" in line]
    took = format_duration(one.last.baseline_seconds)
    then = f" {first.name}: {format_duration(first.seconds)} at {format_bytes(size)}, not {took}. "
    keeps = f"NCCL_ALGO=allreduce:Ring keeps what is priced: {explain_scope('all-reduce')}"
    assert said.endswith(then + keeps)
    sizes = [reply.sizes[0].model_copy(update={"default_name": "tree"}), *reply.sizes[1:]]
    told_of_two = told(reply.model_copy(update={"sizes": sizes}))
    assert not any("NCCL_" in line for line in told_of_two.lines)


def test_a_size_has_one_verdict_alone_and_in_a_range() -> None:
    """The answer of a single size omitted the program that a range proposed to measure."""
    size, given = 2**24, {**SHORT, "axes": {"data": 32}, "stripes": True, "k": 2}
    alone = answered(**{**given, "system": "dgx-a100:4", "bytes": size})
    inside = answered(**{**given, "system": "dgx-a100:4", "bytes": [size, size + 2**10]})
    assert isinstance(alone, RankingReply)
    assert isinstance(inside, SweepReply)
    [here], [there] = told(alone).to_do, told(inside).to_do
    assert (here.expected, here.under) == (there.expected, there.under)
    assert here.besides == there.besides
    assert here.sets == there.sets
    assert inside.stretches[0].first.program == alone.answers[here.row].program


def test_unmeasured_and_version_dependent_gains_are_marked_after_the_gain() -> None:
    reply = answered(**{**P2, "k": 1})
    assert isinstance(reply, RankingReply)
    [one] = reply.answers
    missing = "all-reduce by ring was not measured here: priced from all-reduce by tree"
    for share, left in ((1.5, "gains 1.50x"), (1.0, "gains nothing")):
        seconds = share * one.runtime_seconds
        later = LaterDefault(name="nvls", protocol=Protocol.SIMPLE, seconds=seconds)
        update = {"unmeasured": missing, "later_default": later}
        found = told(reply.model_copy(update={"answers": [one.model_copy(update=update)]}))
        assert found.headline.endswith("do this")
        gain, decides, said, *_ = found.lines
        assert "where the best default" in gain
        then = f"{format_duration(seconds)}, not {format_duration(one.baseline_seconds)}"
        assert decides.endswith(f"In later NCCL it is nvls: {then}; over that row 1 {left}")
        assert said == missing


def test_unproved_programs_are_not_advised() -> None:
    reply = answered(**{**P2, "k": 1})
    assert isinstance(reply, RankingReply)
    [one] = reply.answers
    unknown = one.model_copy(update={"proof": "unknown", "proof_reason": "it was not asked"})
    found = told(reply.model_copy(update={"answers": [unknown]}))
    assert found.headline == KEEP
    assert "it is not proved" in found.lines[0]


def test_of_sizes_each_stretch_that_gains_has_its_line() -> None:
    reply = answered(**RANGE, bytes=[2**10, 2**26])
    assert isinstance(reply, SweepReply)
    found = told(reply)
    gains = {
        at: max(more)
        for at, row in enumerate(rows(reply))
        if (more := [float(one[:-1]) for one in row.speedup if one > "1" and one[-1] == "x"])
    }
    wanted = [*gains, *(run.row for run in find_deciding_runs(reply))]
    assert [one.row for one in found.to_do] == sorted(wanted)
    assert found.headline == f"Up to {max(gains.values()):.2f}x: do this"


def test_of_a_few_sizes_inside_a_range_no_rule_is_made() -> None:
    """528 to 560 KiB have a row; whoever set a line for these would set it for all others, too."""
    given = {"system": "p2-a100:2", "axes": {"data": 32}, "reduce": ["data"], "max_steps": 3}
    reply = answered(**given, bytes=[2**14, 2**24])
    assert isinstance(reply, SweepReply)
    few = [
        row
        for row, one in enumerate(reply.stretches[1:-1], start=1)
        if one.until_bytes < 1.5 * one.from_bytes and not one.keeps_default
    ]
    assert few
    found = told(reply)
    assert found.to_do
    assert not {one.row for one in found.to_do} & {*few}
    assert any("too few sizes for a rule" in line for line in found.lines)


def test_of_a_job_it_is_how_much_less_a_step_waits_and_where_its_axes_lie() -> None:
    sent = [
        {"reduce": ["data"], "bytes": "1GiB"},
        {"reduce": ["model"], "bytes": "1MiB", "times": 9},
    ]
    given = {"system": "p2-a100:2", "axes": {"data": 8, "model": 4}, "k": 1, "max_steps": 2}
    reply = answered(**given, collectives=sent)
    assert isinstance(reply, PlanReply)
    found, best = told(reply), reply.ranking[0]
    # A variable of one sum is of the other, too, which has what that costs it.
    more = sum(
        entry.times * (effect.seconds_with or 0.0) - entry.times * effect.seconds
        for own in reply.entries
        for effect in own.side_effects
        for entry in reply.entries
        if entry.name == effect.entry
    )
    exposed = best.exposed_seconds + more
    less = reply.default_exposed_seconds / exposed
    assert found.headline == f"{less:.2f}x: do this"
    assert format_duration(exposed) in found.lines[0]
    assert any(str(best.placement) in one for one in found.lines)
    assert {one.what.partition(",")[0] for one in found.to_do} <= {e.name for e in reply.entries}


def test_of_groups_it_is_over_the_plain_all_reduce_and_of_one_device_there_is_nothing() -> None:
    given = {**SHORT, "system": "dgx-h100:2", "axes": {"data": 15}, "without": ["node1/gpu3"]}
    found = told(answered(**given))
    assert found.headline == KEEP or found.to_do
    alone = told(answered(**{**SHORT, "system": "dgx-h100:1", "axes": {"data": 1, "model": 8}}))
    assert (alone.headline, alone.to_do) == ("Nothing to do", ())


@pytest.mark.parametrize("size", ["64MiB", ["1MiB", "2MiB"]])
def test_ambiguous_levels_come_with_a_deciding_test(size: object) -> None:
    """In the verdict, which the page shows, and below a ranking and a range in the terminal."""
    open_ = replace(
        calibration(), undetermined_levels=(UndeterminedLevels(("node", "gpu"), "node"),)
    )
    system = replace(bare(), calibration=open_)
    text = {"name": "mine.toml", "text": describe_system(system, "made up")}
    reply = answered(**SHORT, system=text, axes={"data": 32}, bytes=size)
    test = isolating_experiment(system, "gpu")
    assert test
    [said] = [line for line in told(reply).lines if test.name in line]
    assert said.startswith("to distinguish levels 'node' and 'gpu', run on level gpu alone")
    assert launch_lines(system, test).mpirun in said
    assert 'NCCL_TESTS_SPLIT="DIV 4" -x NCCL_ALGO=Ring' in said
    shown = " ".join(printed(render_top(reply), 100).split())
    assert " ".join(said.split()) in shown
