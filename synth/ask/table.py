"""The verbs, from a question to a JSON answer. Every front end is a layer over this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from synth.ask.answers.parts import Json
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply
from synth.collective.ranking.request import Watcher as Watcher


@dataclass(frozen=True)
class Verb:
    """One verb: what it does, the model of its question, what answers it, and the answer's model.

    The last three are dotted names, whose modules are imported when they are used: no verb waits
    for what others import. ``reply`` may be a union of models; every answer fits exactly one of
    them. ``partial``: whether it can answer in part. ``repeatable``: whether the same question
    always has the same answer; not so for ``run``, ``train`` and ``profile``, which run something
    here.
    """

    phrase: str
    _question: str
    _answer: str
    _reply: str
    partial: bool = False
    repeatable: bool = True

    @property
    def question(self) -> type[Question]:
        """The model of a question."""
        found: type[Question] = resolve_name(self._question)
        return found

    @property
    def answer(self) -> Callable[[Any, Watcher], Reply]:
        """The function that answers a question."""
        found: Callable[[Any, Watcher], Reply] = resolve_name(self._answer)
        return found

    @property
    def reply(self) -> Any:
        """The model, or the union of models, of the answer."""
        return resolve_name(self._reply)

    def cut_short(self, reply: Reply) -> bool:
        """Whether a reply is partial: then it is nobody's answer, and is not kept.

        The outcome is asked, and what the answer itself says: it may come from another process.
        """
        said = self.partial and reply.body.get("complete") is False
        return said or reply.outcome is Outcome.PARTIAL


VERBS: Mapping[str, Verb] = {
    "systems": Verb(
        "Show a machine",
        "synth.ask.machines.SystemsQuestion",
        "synth.ask.machines.show_systems",
        "synth.ask.machines.SystemsReply",
    ),
    "import": Verb(
        "Import a topology",
        "synth.ask.importing.ImportQuestion",
        "synth.ask.importing.import_topology",
        "synth.ask.importing.ImportReply",
    ),
    "graph": Verb(
        "Draw a machine",
        "synth.ask.machines.GraphQuestion",
        "synth.ask.machines.graph_machine",
        "synth.ask.machines.GraphReply",
    ),
    "place": Verb(
        "List placements",
        "synth.ask.machines.PlaceQuestion",
        "synth.ask.machines.place",
        "synth.ask.machines.PlaceReply",
    ),
    "count": Verb(
        "Count programs",
        "synth.ask.machines.CountQuestion",
        "synth.ask.machines.count",
        "synth.ask.machines.CountReply",
        partial=True,
    ),
    "top": Verb(
        "Ask for a collective",
        "synth.ask.ranking.TopQuestion",
        "synth.ask.ranking.rank_programs",
        "synth.ask.answers.planning.TopReply",
        partial=True,
    ),
    "sweep": Verb(
        "Compare machines",
        "synth.ask.ranking.SweepQuestion",
        "synth.ask.ranking.sweep_systems",
        "synth.ask.answers.planning.SystemsRankedReply",
        partial=True,
    ),
    "cost": Verb(
        "What a fault costs",
        "synth.ask.ranking.CostQuestion",
        "synth.ask.ranking.price_faults",
        "synth.ask.answers.degraded.CostReply",
        partial=True,
    ),
    "plan": Verb(
        "Plan a step or place a job",
        "synth.ask.planning.PlanQuestion",
        "synth.ask.planning.plan",
        "synth.ask.planning.PlanAnswer",
        partial=True,
    ),
    "job": Verb(
        "Derive a job",
        "synth.ask.jobs.JobQuestion",
        "synth.ask.jobs.derive_job",
        "synth.ask.jobs.JobReply",
    ),
    "order": Verb(
        "Look at a pipeline",
        "synth.ask.training.orders.OrderQuestion",
        "synth.ask.training.orders.show_schedule",
        "synth.ask.training.orders.OrderReply",
    ),
    "diff": Verb(
        "Tell answers apart",
        "synth.ask.comparing.DiffQuestion",
        "synth.ask.comparing.diff",
        "synth.ask.comparing.DiffReply",
    ),
    "check": Verb(
        "Prove a program",
        "synth.ask.programs.CheckQuestion",
        "synth.ask.programs.check",
        "synth.ask.programs.CheckReply",
    ),
    "lower": Verb(
        "List the groups of a program",
        "synth.ask.programs.LowerQuestion",
        "synth.ask.programs.lower_program",
        "synth.ask.programs.LowerReply",
    ),
    "time": Verb(
        "Price a program",
        "synth.ask.programs.TimeQuestion",
        "synth.ask.programs.time",
        "synth.ask.programs.TimeReply",
    ),
    "emit": Verb(
        "Write code",
        "synth.ask.outputs.EmitQuestion",
        "synth.ask.outputs.emit_program",
        "synth.ask.answers.outputs.EmitReply",
    ),
    "run": Verb(
        "Run a program",
        "synth.ask.outputs.RunQuestion",
        "synth.ask.outputs.run_program",
        "synth.ask.answers.outputs.RunReply",
        repeatable=False,
    ),
    "calibrate": Verb(
        "Calibrate",
        "synth.ask.measured.CalibrateQuestion",
        "synth.ask.measured.calibrate",
        "synth.ask.answers.measured.CalibrateReply",
    ),
    "doctor": Verb(
        "Check measurements",
        "synth.ask.measured.DoctorQuestion",
        "synth.ask.measured.doctor",
        "synth.ask.answers.measured.DoctorReply",
    ),
    "trace": Verb(
        "Trace a step",
        "synth.ask.training.traces.TraceQuestion",
        "synth.ask.training.traces.trace",
        "synth.ask.training.traces.TraceReply",
    ),
    "shard": Verb(
        "Shard a step",
        "synth.ask.training.shards.ShardQuestion",
        "synth.ask.training.shards.shard",
        "synth.ask.training.shards.ShardReply",
    ),
    "simulate": Verb(
        "Simulate a step",
        "synth.ask.training.simulated.SimulateQuestion",
        "synth.ask.training.simulated.simulate_step",
        "synth.ask.answers.training.simulated.SimulateReply",
    ),
    "buckets": Verb(
        "Find buckets for DDP",
        "synth.ask.training.bucketed.BucketsQuestion",
        "synth.ask.training.bucketed.find_buckets",
        "synth.ask.training.bucketed.BucketsReply",
    ),
    "train": Verb(
        "Train by a plan",
        "synth.ask.training.trained.TrainQuestion",
        "synth.ask.training.trained.train_step",
        "synth.ask.training.trained.TrainAnswer",
        repeatable=False,
    ),
    "profile": Verb(
        "Measure local work",
        "synth.ask.training.profiles.ProfileQuestion",
        "synth.ask.training.profiles.profile",
        "synth.ask.training.profiles.ProfileReply",
        repeatable=False,
    ),
}


def import_verbs() -> None:
    """Imports the modules of all verbs, in a process from which others are forked."""
    for verb in VERBS.values():
        _ = verb.question, verb.answer, verb.reply


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
