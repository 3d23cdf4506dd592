"""Plans of a step as they are answered: what is said of each adds up, and stays small."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from framework_files import megatron_parser, words
from hierarchies import InputError
from hierarchies.units import format_duration
from plain_text import printed
from synth.ask.answers.parts import to_json
from synth.ask.answers.training.planned import ROWS, PlanOfStep, StepPlanReply, thin_front
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.ranking.request import Watcher
from synth.show.terminal.table import TABLES
from synth.step.search.buckets import BUCKETS
from synth.step.sharding import parse_recipe

ASKED = {"system": "dgx-h100:1", "model": "gpt2-tiny", "batch": 64, "k": 3}
PINNED = {**ASKED, "pin": "tensor=1 remat=no", "explain": "pipe=2"}


@cache
def answered(**other: Any) -> StepPlanReply:
    question = parse_question(VERBS["plan"].question, {**PINNED, **other})
    found = judge("plan").validate_python(VERBS["plan"].answer(question, Watcher()).body)
    assert isinstance(found, StepPlanReply)
    return found


def every() -> list[PlanOfStep]:
    answer = answered()
    assert answer.why_not is not None
    return [*answer.plans, answer.why_not]


def test_ranks_add_up_to_the_step_and_hold_its_memory() -> None:
    for one in every():
        for rank in one.ranks:
            parts = rank.compute_seconds, rank.exposed_seconds, rank.idle_seconds
            assert sum(parts) == pytest.approx(one.seconds)
            assert sum(kind.bytes for kind in rank.memory.kinds) == rank.memory.bytes
        assert max(rank.memory.bytes for rank in one.ranks) == one.memory.bytes
        assert len(one.ranks) == one.axes.get("pipe", 1)


def test_timelines_are_short_and_in_the_step() -> None:
    first, *others = ([row for rank in one.ranks for row in rank.rows] for one in every())
    assert 0 < len(first) <= 1_000
    assert 0 < sum(map(len, others)) <= 1_600
    for one in every():
        rows = [row for rank in one.ranks for row in rank.rows]
        assert max(row.end_seconds for row in rows) == pytest.approx(one.seconds)


def test_none_of_the_front_is_beaten_and_the_fastest_is_on_it() -> None:
    answer = answered()
    seconds = [one.seconds for one in answer.front]
    sizes = [one.bytes for one in answer.front]
    assert seconds == sorted(seconds)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(seconds)) == len(set(sizes)) == len(seconds)
    assert seconds[0] <= min(one.composed_seconds for one in answer.plans)
    assert max(sizes) <= answer.device_bytes


def test_of_a_long_front_both_ends_stay_and_what_is_between_is_spread() -> None:
    composed = answered().front
    long = [composed[0]] * 30 + [composed[-1]] * 30
    few = thin_front(long)
    assert len(few) == 20
    assert [few[0], few[-1]] == [composed[0], composed[-1]]
    assert few.count(composed[0]) == 10
    assert thin_front(long[:20]) == long[:20]


def test_replicas_normalise_their_own_samples() -> None:
    """As under DDP: gradients are sent, and no statistics."""
    own = answered(model="resnet-tiny", pin="data=8 zero=0 remat=no", explain="", batch=48, k=1)
    assert own.sizes == {"groups": 8}
    assert "own samples" in own.assumed
    assert sum(one.times for one in own.sent) == 1


def test_without_fitting_plans_none_is_called_simulated() -> None:
    answer = answered(model="llama3-8b", pin="data=8 zero=0", explain="")
    assert not answer.plans
    assert not answer.front
    said = printed(TABLES["plan"](to_json(answer)))
    assert "NOTHING FITS" in said
    assert "simulated" not in said


def test_buckets_that_gain_are_in_the_plan_its_words_and_its_files() -> None:
    given = {
        "system": "dgx-h100:2",
        "model": "gpt2-tiny",
        "sizes": {"layers": 6, "width": 256, "heads": 16, "vocabulary": 8192},
        "batch": 48,
        "k": 1,
        "pin": "data=16 remat=no microbatches=1",
        "explain": "bucket=no",
    }
    question = parse_question(VERBS["plan"].question, given)
    answer = judge("plan").validate_python(VERBS["plan"].answer(question, Watcher()).body)
    assert isinstance(answer, StepPlanReply)
    [best], other = answer.plans, answer.why_not
    assert other is not None
    assert best.bucket_bytes in BUCKETS
    assert parse_recipe(best.plan).bucket_bytes == best.bucket_bytes
    assert (other.bucket_bytes, other.bucket_saved_seconds) == (0, 0)
    waited = other.seconds - other.compute_seconds - (best.seconds - best.compute_seconds)
    assert best.bucket_saved_seconds == pytest.approx(waited)
    text = printed(TABLES["plan"](answer))
    assert f"gradients in buckets: plan 1 {format_duration(best.bucket_saved_seconds)}" in text
    files = {one.name: one.text for one in answer.files}
    megatron = megatron_parser().parse_args(words(files["megatron/arguments.sh"]))
    assert 4 * megatron.ddp_bucket_size == best.bucket_bytes
    deepspeed = json.loads(files["deepspeed/deepspeed.json"])["zero_optimization"]
    assert 2 * deepspeed["reduce_bucket_size"] == best.bucket_bytes


def test_flags_of_a_model_may_be_0() -> None:
    """Whether no token is dropped: without, the model is planned as one that drops some."""
    small = {"system": "dgx-h100:1", "batch": 8, "k": 1, "pin": "data=8"}
    off, other = (
        judge("plan").validate_python(
            VERBS["plan"]
            .answer(parse_question(VERBS["plan"].question, {**small, **model}), Watcher())
            .body
        )
        for model in (
            {"model": "dropless-tiny", "sizes": {"dropless": 0}},
            {"model": "mixtral-tiny"},
        )
    )
    assert off.sizes == {"dropless": 0}
    assert off.plans[0].seconds == other.plans[0].seconds


def test_a_plan_of_rows_is_written_in_full_and_simulated_alike() -> None:
    asked = {"system": "dgx-h100:1", "model": "mlp-tiny", "batch": 64, "k": 2}
    asked["framework"] = "ideal"
    question = parse_question(VERBS["plan"].question, asked)
    answer = judge("plan").validate_python(VERBS["plan"].answer(question, Watcher()).body)
    assert isinstance(answer, StepPlanReply)
    first, other = answer.plans
    assert first.rows is not None
    assert other.rows is None
    assert first.recipe == first.rows.recipe
    assert first.rows.sums < first.rows.recipe_sums
    assert [(one.name, one.text) for one in answer.files] == [(ROWS, first.plan)]
    assert [one.framework for one in answer.unsupported] == ["frameworks"]
    text = printed(TABLES["plan"](answer))
    assert f"1: {first.title}" in text
    assert "-o FILE writes it in full" in text
    assert "FOLDER" not in text
    assert ("fewer devices would do" in text) == (not answer.sent)
    assert not answer.sent  # whoever plans 8 GPUs for so little must be told
    simulated = parse_question(
        VERBS["simulate"].question,
        {
            "model": "mlp-tiny",
            "system": "dgx-h100:1",
            "batch": 64,
            "dtype": answer.computed_in,
            "optimizer": answer.optimizer,
            "overlap": "all",
            "plan": first.plan,
        },
    )
    seconds = VERBS["simulate"].answer(simulated, Watcher()).body["seconds"]
    assert seconds == pytest.approx(first.seconds)
    written = {"model": "mlp-tiny", "system": "dgx-h100:1", "batch": 64, "plan": first.plan}
    for_framework = parse_question(VERBS["train"].question, {**written, "runtime": "deepspeed"})
    with pytest.raises(InputError, match="frameworks take recipes"):
        VERBS["train"].answer(for_framework, Watcher())
