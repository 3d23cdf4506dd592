"""The verbs, from a question to a JSON answer. Every front end is a layer over this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
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

    The last three are names below ``synth.ask``, whose modules are imported when they are used: no
    verb waits for what others import. ``reply`` may be a union of models; every answer fits exactly
    one of them. ``partial``: whether it can answer in part. ``repeatable``: whether the same
    question always has the same answer; not so for ``run``, ``train`` and ``profile``, which run
    something here.
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
        found: type[Question] = _find(self._question)
        return found

    @property
    def answer(self) -> Callable[[Any, Watcher], Reply]:
        """The function that answers a question."""
        found: Callable[[Any, Watcher], Reply] = _find(self._answer)
        return found

    @property
    def reply(self) -> Any:
        """The model, or the union of models, of the answer."""
        return _find(self._reply)

    def cut_short(self, reply: Reply) -> bool:
        """Whether a reply is partial: then it is nobody's answer, and is not kept.

        The outcome is asked, and what the answer itself says: it may come from another process.
        """
        said = self.partial and reply.body.get("complete") is False
        return said or reply.outcome is Outcome.PARTIAL


def _find(name: str) -> Any:
    module, _, attribute = f"{__package__}.{name}".rpartition(".")
    return getattr(import_module(module), attribute)


VERBS: Mapping[str, Verb] = {
    "systems": Verb(
        "Show a machine",
        "machines.SystemsQuestion",
        "machines.show_systems",
        "machines.SystemsReply",
    ),
    "import": Verb(
        "Import a topology",
        "importing.ImportQuestion",
        "importing.import_topology",
        "importing.ImportReply",
    ),
    "graph": Verb(
        "Draw a machine", "machines.GraphQuestion", "machines.graph_machine", "machines.GraphReply"
    ),
    "place": Verb(
        "List placements", "machines.PlaceQuestion", "machines.place", "machines.PlaceReply"
    ),
    "count": Verb(
        "Count programs",
        "machines.CountQuestion",
        "machines.count",
        "machines.CountReply",
        partial=True,
    ),
    "top": Verb(
        "Ask for a collective",
        "ranking.TopQuestion",
        "ranking.rank_programs",
        "answers.planning.TopReply",
        partial=True,
    ),
    "sweep": Verb(
        "Compare machines",
        "ranking.SweepQuestion",
        "ranking.sweep_systems",
        "answers.planning.SystemsRankedReply",
        partial=True,
    ),
    "cost": Verb(
        "What a fault costs",
        "ranking.CostQuestion",
        "ranking.price_faults",
        "answers.degraded.CostReply",
        partial=True,
    ),
    "plan": Verb(
        "Plan a step or place a job",
        "planning.PlanQuestion",
        "planning.plan",
        "planning.PlanAnswer",
        partial=True,
    ),
    "job": Verb("Derive a job", "jobs.JobQuestion", "jobs.derive_job", "jobs.JobReply"),
    "order": Verb(
        "Look at a pipeline",
        "training.orders.OrderQuestion",
        "training.orders.show_schedule",
        "training.orders.OrderReply",
    ),
    "diff": Verb(
        "Tell answers apart", "comparing.DiffQuestion", "comparing.diff", "comparing.DiffReply"
    ),
    "check": Verb(
        "Prove a program", "programs.CheckQuestion", "programs.check", "programs.CheckReply"
    ),
    "lower": Verb(
        "List the groups of a program",
        "programs.LowerQuestion",
        "programs.lower_program",
        "programs.LowerReply",
    ),
    "time": Verb("Price a program", "programs.TimeQuestion", "programs.time", "programs.TimeReply"),
    "emit": Verb(
        "Write code", "outputs.EmitQuestion", "outputs.emit_program", "answers.outputs.EmitReply"
    ),
    "run": Verb(
        "Run a program",
        "outputs.RunQuestion",
        "outputs.run_program",
        "answers.outputs.RunReply",
        repeatable=False,
    ),
    "calibrate": Verb(
        "Calibrate",
        "measured.CalibrateQuestion",
        "measured.calibrate",
        "answers.measured.CalibrateReply",
    ),
    "doctor": Verb(
        "Check measurements",
        "measured.DoctorQuestion",
        "measured.doctor",
        "answers.measured.DoctorReply",
    ),
    "trace": Verb(
        "Trace a step",
        "training.traces.TraceQuestion",
        "training.traces.trace",
        "training.traces.TraceReply",
    ),
    "shard": Verb(
        "Shard a step",
        "training.shards.ShardQuestion",
        "training.shards.shard",
        "training.shards.ShardReply",
    ),
    "simulate": Verb(
        "Simulate a step",
        "training.simulated.SimulateQuestion",
        "training.simulated.simulate_step",
        "answers.training.simulated.SimulateReply",
    ),
    "buckets": Verb(
        "Find buckets for DDP",
        "training.bucketed.BucketsQuestion",
        "training.bucketed.find_buckets",
        "training.bucketed.BucketsReply",
    ),
    "train": Verb(
        "Train by a plan",
        "training.trained.TrainQuestion",
        "training.trained.train_step",
        "training.trained.TrainAnswer",
        repeatable=False,
    ),
    "profile": Verb(
        "Measure local work",
        "training.profiles.ProfileQuestion",
        "training.profiles.profile",
        "training.profiles.ProfileReply",
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
