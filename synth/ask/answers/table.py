"""The model of every verb's answer by the verb's name, and all of them as one JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from synth.ask.answers.comparing import DiffReply
from synth.ask.answers.degraded import CostReply
from synth.ask.answers.graphs import GraphReply
from synth.ask.answers.importing import ImportReply
from synth.ask.answers.machines import CountReply, PlaceReply, SystemsReply
from synth.ask.answers.measured import CalibrateReply, DoctorReply
from synth.ask.answers.outputs import EmitReply, RunReply
from synth.ask.answers.parts import Json
from synth.ask.answers.planning import JobReply, PlanAnswer, SystemsRankedReply, TopReply
from synth.ask.answers.programs import CheckReply, LowerReply, TimeReply
from synth.ask.answers.training.bucketed import BucketsReply
from synth.ask.answers.training.orders import OrderReply
from synth.ask.answers.training.profiles import ProfileReply
from synth.ask.answers.training.shards import ShardReply
from synth.ask.answers.training.simulated import SimulateReply
from synth.ask.answers.training.traces import TraceReply
from synth.ask.answers.training.trained import TrainAnswer

REPLIES: Mapping[str, Any] = {
    "systems": SystemsReply,
    "import": ImportReply,
    "graph": GraphReply,
    "place": PlaceReply,
    "count": CountReply,
    "top": TopReply,
    "sweep": SystemsRankedReply,
    "cost": CostReply,
    "plan": PlanAnswer,
    "job": JobReply,
    "order": OrderReply,
    "diff": DiffReply,
    "check": CheckReply,
    "lower": LowerReply,
    "time": TimeReply,
    "emit": EmitReply,
    "run": RunReply,
    "calibrate": CalibrateReply,
    "doctor": DoctorReply,
    "trace": TraceReply,
    "shard": ShardReply,
    "simulate": SimulateReply,
    "buckets": BucketsReply,
    "train": TrainAnswer,
    "profile": ProfileReply,
}
"""By verb its answer's model, or a union of models; every answer fits exactly one of a union."""


class _UntitledSchema(GenerateJsonSchema):
    """Without titles of fields: they repeat the keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@cache
def judge(verb: str) -> TypeAdapter[Any]:
    """Checks JSON against the model of a verb's answer. Raises KeyError for an unknown verb."""
    return TypeAdapter(REPLIES[verb])


def schema() -> Json:
    """The JSON Schema (draft 2020-12) of all answers: verb ``x``'s is ``#/$defs/x``."""
    asked: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (verb, "validation", judge(verb)) for verb in REPLIES
    ]
    found, rest = TypeAdapter.json_schemas(asked, schema_generator=_UntitledSchema)
    own = {verb: found[verb, "validation"] for verb in REPLIES}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "What the verbs of collsynth answer: the answer of verb x is #/$defs/x.",
        "$defs": {**own, **rest["$defs"]},
    }
