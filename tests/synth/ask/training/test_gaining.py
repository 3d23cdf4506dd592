"""Plans of a whole step, as the verb answers: files, and programs for what gains by them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from hierarchies.devices import device_named
from hierarchies.units import format_duration
from machines import precise, precise_text
from plain_text import printed
from synth.ask.answers.parts import to_json
from synth.ask.answers.training.gained import ProgramOfPlan
from synth.ask.export import prepare_emit_input
from synth.ask.planning import PlanQuestion, plan
from synth.ask.table import judge
from synth.ask.training.gaining import (
    earlier_answer_of,
    emit_files,
    execution_plans_of,
    programs_of,
)
from synth.ask.training.trained import TrainQuestion, train_step
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import EmitOptions
from synth.collective.price.steps import total_seconds
from synth.collective.ranking.request import Watcher
from synth.show.terminal.table import TABLES
from synth.step.frameworks import ModelSpec, PlacedSystem, write_configurations
from synth.step.frameworks import TrainingSpec as Training
from synth.step.models import ModelSettings
from synth.step.search.finalists import Finalist, simulate_candidate
from synth.step.search.gaining import CollectiveGain
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe
from synth.step.search.planning import Planner
from synth.step.sharding import parse_recipe
from synth.step.zoo.sizes import sizes_of

FOUR = "p2-a100:4"
"""What programs gain there prices can tell, though nobody has measured it."""


def answered(**given: Any) -> Any:
    question = PlanQuestion.model_validate(
        {
            "system": "p2-a100:2",
            "model": "gpt2-small",
            "batch": 32,
            "sizes": {"layers": 4, "vocabulary": 4096},
            "k": 1,
            **given,
        }
    )
    return judge("plan").validate_python(plan(question, Watcher()).body)


@cache
def across() -> Any:
    """Each gradient is summed over four nodes, each behind one NIC."""
    return answered(system=precise_text(FOUR), batch=64, pin="data=64 zero=0 remat=no bucket=no")


def test_what_gains_has_a_file_for_each_framework_that_runs_the_plan() -> None:
    found = across()
    assert found.programs
    written = {one.name: one.text for one in found.files}
    frameworks = {name.partition("/")[0] for name in written}
    assert "megatron" in frameworks
    for one in found.programs:
        assert one.seconds < one.default_seconds
        assert bool(one.environment) != bool(one.files)
        folders = [name.split("/")[:2] for name in one.files]
        of_plan = [] if one.no_plan else ["mscclpp"]
        wanted = [[each, "programs"] for each in [*frameworks_of(written), *of_plan]]
        assert not one.files or folders == wanted
        for name in one.files:
            if name.endswith(".py"):
                compile(written[name], name, "exec")
                assert one.request.value in written[name]


def frameworks_of(written: dict[str, str]) -> list[str]:
    found = dict.fromkeys(name.partition("/")[0] for name in written)
    return [each for each in found if each != "mscclpp"]


def test_an_execution_plan_is_written_if_one_segment_gains_else_a_reason() -> None:
    found = across()
    written = {one.name: one.text for one in found.files}
    plans = [name for name in written if name.startswith("mscclpp/")]
    assert plans
    for one in found.programs:
        own = [name for name in one.files if name in plans]
        assert bool(own) != bool(one.no_plan)
        for name in own:
            assert json.loads(written[name])["num_threads_per_block"]
    assert set(plans) == {name for one in found.programs for name in one.files} & set(plans)
    for one in gains():
        plan = execution_plans_of(precise(FOUR), one[1].placement, one[0])
        asked = replace(earlier_answer_of(precise(FOUR), one[1].placement, one[0]), segments=1)
        out = prepare_emit_input(asked, EmitOptions())
        gained = total_seconds(out.source.prices) < out.plain_seconds
        assert isinstance(plan, dict) == gained


@cache
def gains() -> list[tuple[CollectiveGain, Finalist]]:
    system = precise(FOUR)
    sizes = {"layers": 4, "vocabulary": 4096}
    spelling = ModelSettings(batch=64, dtype="bfloat16")
    job = PlanningProblem("gpt2-small", sizes, spelling, system, device_named(system.device))
    recipe = parse_recipe("data=64; batch over data")
    planner = Planner(job)
    one = simulate_candidate(
        job.step, PlacedRecipe(recipe, ((4, 16),)), planner._answers, job.device
    )
    return [(gain, one) for gain in planner.gaining(one)]


def test_savings_are_at_most_the_exposed_time() -> None:
    found = across()
    saved = [one.saved_seconds for one in found.programs]
    assert saved == sorted(saved, reverse=True)
    for one in found.programs:
        most = one.times * (one.default_seconds - one.seconds)
        assert 0 < one.saved_seconds <= most * (1 + 1e-9)


def test_totals_are_calls_times_seconds() -> None:
    """What is sent is on the clock as long as it is told to be: times by seconds of one.

    In a plan of one axis no request takes several collectives, so the clock has the same sums.
    """
    found = across()
    for one in found.sent:
        assert one.all_seconds == pytest.approx(one.times * one.seconds)
        assert one.exposed_seconds == pytest.approx(one.all_seconds * (1 - one.hidden))
    assert sum(one.exposed_seconds for one in found.sent) == pytest.approx(
        found.best.exposed_seconds, rel=0.02
    )
    gains = {(one.request, *one.over, one.bytes): one for one in found.programs}
    sent = {(one.request, *one.over, one.bytes): one for one in found.sent}
    assert gains.keys() <= sent.keys()
    assert all(sent[key].times == one.times for key, one in gains.items())
    text = printed(TABLES["plan"](to_json(found)))
    for seconds in (
        found.sent[0].seconds,
        found.sent[0].all_seconds,
        sum(one.all_seconds for one in found.sent),
    ):
        assert format_duration(seconds) in text


def test_a_variable_is_for_all_its_calls_and_its_effect_on_others_is_stated() -> None:
    found = answered(pin="data=32 zero=0 remat=no bucket=no")
    line = "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:Simple"
    sent = [one.model_copy(update={"request": found.sent[0].request}) for one in found.sent]
    found = found.model_copy(update={"sent": sent})
    told = [
        ProgramOfPlan(
            request=one.request,
            over=one.over,
            bytes=one.bytes,
            times=one.times,
            program="all-reduce root inside",
            seconds=1e-3,
            default_seconds=2e-3,
            saved_seconds=1e-3,
            environment=line,
            files=[],
            no_plan="the runtime does it by itself",
        )
        for one in sent
    ]
    assert len(told) > 2
    others = sent[0].times
    for programs, said in ((told, ""), (told[1:], f"; here also for {others} other calls")):
        whole = found.model_copy(update={"programs": programs})
        text = " ".join(printed(TABLES["plan"](to_json(whole))).split())
        assert text.count(f"{line}: it holds") == 1
        assert f"and for no other collective{said} its timeline" in text
    other = told[1].model_copy(update={"environment": line.replace("Tree", "Ring")})
    whole = found.model_copy(update={"programs": [told[0], other]})
    assert f"only one of these lines can be set for {sent[0].request.value}" in printed(
        TABLES["plan"](to_json(whole))
    )


def test_where_nothing_is_sent_far_nothing_gains() -> None:
    found = answered(system="p2-a100:1", pin="data=16 zero=0 remat=no")
    assert all(one.environment for one in found.programs)


@pytest.mark.slow
def test_programs_number_ranks_like_their_readers() -> None:
    """Where axes lie otherwise than the framework lays them out, ranks go by its own order."""
    system = precise("p2-a100:2")
    spelling = ModelSettings(batch=32, dtype="bfloat16")
    sizes = {"layers": 4, "vocabulary": 4096, "heads": 16, "width": 1024}
    job = PlanningProblem("gpt2-small", sizes, spelling, system, device_named(system.device))
    planner = Planner(job)
    recipe = parse_recipe("data=8 tensor=4; batch over data; weights over tensor as Megatron")
    crossed = PlacedRecipe(recipe, ((1, 8), (2, 2)))
    one = simulate_candidate(job.step, crossed, planner._answers, job.device)
    written = write_configurations(
        recipe,
        ModelSpec(job.model, sizes_of(job.model, sizes), job.step),
        Training(32, 1024),
        PlacedSystem(system, one.placement),
        ("megatron",),
    )
    assert "slurm_hostfile" in written.written["megatron"].files
    gains = planner.gaining(one)
    programs, files = programs_of(system, one.placement, gains, written)
    assert files
    by_file = next(each for each in gains if f"_{each.sent.size_bytes}/" in next(iter(files)))
    told, plain = (
        dict(emit_files(earlier_answer_of(system, one.placement, by_file), "torch", order, "it"))
        for order in (RankOrder.MEGATRON, RankOrder.MACHINE)
    )
    assert next(iter(files.values())) in told.values()
    assert told != plain
    assert [name for each in programs for name in each.files] == [*files]


def configured(**given: Any) -> Any:
    question = TrainQuestion.model_validate(
        {
            "model": "gpt2-small",
            "system": "p2-a100:2",
            "sizes": {"layers": 4, "vocabulary": 4096},
            "batch": 32,
            "dtype": "bfloat16",
            "plan": "data=32; batch over data",
            "runtime": "megatron",
            **given,
        }
    )
    return judge("train").validate_python(train_step(question, Watcher()).body)


def test_a_plan_that_is_given_has_the_files_of_the_one_that_is_found() -> None:
    found = across()
    given = configured(system=precise_text(FOUR), batch=64, plan=found.plans[0].plan)
    beside = ("megatron/", "mscclpp/")
    theirs = {
        one.name.partition("/")[2]: one.text for one in found.files if one.name.startswith(beside)
    }
    assert given.files
    assert all(theirs[one.name] == one.text for one in given.files)
    assert [one.bytes for one in given.programs] == [one.bytes for one in found.programs]


def test_a_framework_that_does_otherwise_reports_it() -> None:
    found = configured(plan="data=16 tensor=2; batch over data; weights over tensor as Megatron")
    assert any("vocabulary" in note for note in found.notes)
    assert "vocabulary over tensor" in found.recipe
    assert "vocabulary over tensor" not in found.plan


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"system": None}, "on which machine"),
        ({"check": True}, "check beside --runtime megatron"),
        ({"plan": "data=16; batch over data"}, "multiply to 16 devices"),
        ({"plan": "data=32; batch over data; schedule gpipe"}, "gpipe|stages"),
        ({"runtime": "torchtitan"}, "no flavour of gpt2-small"),
    ],
)
def test_plans_a_framework_cannot_express_are_reported(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        configured(**given)
