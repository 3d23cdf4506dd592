"""The verbs, from a question to a JSON answer. Every front end is a layer over this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from synth.ask.answers.degraded import CostReply
from synth.ask.answers.measured import CalibrateReply, DoctorReply
from synth.ask.answers.outputs import EmitReply, RunReply
from synth.ask.answers.parts import Json
from synth.ask.answers.planning import PlanAnswer, SystemsRankedReply, TopReply
from synth.ask.answers.training.simulated import SimulateReply
from synth.ask.comparing import DiffQuestion, DiffReply, diff
from synth.ask.importing import ImportQuestion, ImportReply, import_topology
from synth.ask.jobs import JobQuestion, JobReply, derive_job
from synth.ask.machines import (
    CountQuestion,
    CountReply,
    GraphQuestion,
    GraphReply,
    PlaceQuestion,
    PlaceReply,
    SystemsQuestion,
    SystemsReply,
    count,
    graph_machine,
    place,
    show_systems,
)
from synth.ask.measured import CalibrateQuestion, DoctorQuestion, calibrate, doctor
from synth.ask.outputs import EmitQuestion, RunQuestion, emit_program, run_program
from synth.ask.planning import (
    CostQuestion,
    PlanQuestion,
    SweepQuestion,
    TopQuestion,
    plan,
    price_faults,
    rank_programs,
    sweep_systems,
)
from synth.ask.programs import (
    CheckQuestion,
    CheckReply,
    LowerQuestion,
    LowerReply,
    TimeQuestion,
    TimeReply,
    check,
    lower_program,
    time,
)
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply
from synth.ask.training.bucketed import BucketsQuestion, BucketsReply, find_buckets
from synth.ask.training.orders import OrderQuestion, OrderReply, show_schedule
from synth.ask.training.profiles import ProfileQuestion, ProfileReply, profile
from synth.ask.training.shards import ShardQuestion, ShardReply, shard
from synth.ask.training.simulated import SimulateQuestion, simulate_step
from synth.ask.training.traces import TraceQuestion, TraceReply, trace
from synth.ask.training.trained import TrainAnswer, TrainQuestion, train_step
from synth.collective.ranking.request import Watcher as Watcher


@dataclass(frozen=True)
class Verb:
    """One verb: what it does, the model of its question, what answers it, and the answer's model.

    ``reply`` may be a union of models; every answer fits exactly one of them. ``partial``: whether
    it can answer in part. ``repeatable``: whether the same question always has the same answer; not
    so for ``run``, ``train`` and ``profile``, which run something here.
    """

    phrase: str
    question: type[Question]
    answer: Callable[[Any, Watcher], Reply]
    reply: Any
    partial: bool = False
    repeatable: bool = True

    def cut_short(self, reply: Reply) -> bool:
        """Whether a reply is partial: then it is nobody's answer, and is not kept.

        The outcome is asked, and what the answer itself says: it may come from another process.
        """
        said = self.partial and reply.body.get("complete") is False
        return said or reply.outcome is Outcome.PARTIAL


VERBS: Mapping[str, Verb] = {
    "systems": Verb("Show a machine", SystemsQuestion, show_systems, SystemsReply),
    "import": Verb("Import a topology", ImportQuestion, import_topology, ImportReply),
    "graph": Verb("Draw a machine", GraphQuestion, graph_machine, GraphReply),
    "place": Verb("List placements", PlaceQuestion, place, PlaceReply),
    "count": Verb("Count programs", CountQuestion, count, CountReply, partial=True),
    "top": Verb("Ask for a collective", TopQuestion, rank_programs, TopReply, partial=True),
    "sweep": Verb(
        "Compare machines", SweepQuestion, sweep_systems, SystemsRankedReply, partial=True
    ),
    "cost": Verb("What a fault costs", CostQuestion, price_faults, CostReply, partial=True),
    "plan": Verb("Plan a step or place a job", PlanQuestion, plan, PlanAnswer, partial=True),
    "job": Verb("Derive a job", JobQuestion, derive_job, JobReply),
    "order": Verb("Look at a pipeline", OrderQuestion, show_schedule, OrderReply),
    "diff": Verb("Tell answers apart", DiffQuestion, diff, DiffReply),
    "check": Verb("Prove a program", CheckQuestion, check, CheckReply),
    "lower": Verb("List the groups of a program", LowerQuestion, lower_program, LowerReply),
    "time": Verb("Price a program", TimeQuestion, time, TimeReply),
    "emit": Verb("Write code", EmitQuestion, emit_program, EmitReply),
    "run": Verb("Run a program", RunQuestion, run_program, RunReply, repeatable=False),
    "calibrate": Verb("Calibrate", CalibrateQuestion, calibrate, CalibrateReply),
    "doctor": Verb("Check measurements", DoctorQuestion, doctor, DoctorReply),
    "trace": Verb("Trace a step", TraceQuestion, trace, TraceReply),
    "shard": Verb("Shard a step", ShardQuestion, shard, ShardReply),
    "simulate": Verb("Simulate a step", SimulateQuestion, simulate_step, SimulateReply),
    "buckets": Verb("Find buckets for DDP", BucketsQuestion, find_buckets, BucketsReply),
    "train": Verb("Train by a plan", TrainQuestion, train_step, TrainAnswer, repeatable=False),
    "profile": Verb("Measure local work", ProfileQuestion, profile, ProfileReply, repeatable=False),
}


class _UntitledSchema(GenerateJsonSchema):
    """Without titles of fields: they repeat the keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@cache
def judge(verb: str) -> TypeAdapter[Any]:
    """Checks JSON against the model of a verb's answer. Raises KeyError for an unknown verb."""
    return TypeAdapter(VERBS[verb].reply)


def schema() -> Json:
    """The JSON Schema (draft 2020-12) of all answers: verb ``x``'s is ``#/$defs/x``."""
    asked: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (verb, "validation", judge(verb)) for verb in VERBS
    ]
    found, rest = TypeAdapter.json_schemas(asked, schema_generator=_UntitledSchema)
    own = {verb: found[verb, "validation"] for verb in VERBS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "What the verbs of collsynth answer: the answer of verb x is #/$defs/x.",
        "$defs": {**own, **rest["$defs"]},
    }
