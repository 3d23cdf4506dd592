"""The verbs: a question in, a JSON answer out. Every front end is a skin over this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from synth.plan.request import Watcher
from synth.verbs.comparing import DiffQuestion, diff
from synth.verbs.importing import ImportQuestion, imported
from synth.verbs.machines import (
    CountQuestion,
    GraphQuestion,
    PlaceQuestion,
    SystemsQuestion,
    count,
    graph,
    place,
    systems,
)
from synth.verbs.measured import CalibrateQuestion, DoctorQuestion, calibrate, doctor
from synth.verbs.outputs import EmitQuestion, RunQuestion, emitted, executed
from synth.verbs.planning import (
    CostQuestion,
    JobQuestion,
    PlanQuestion,
    SweepQuestion,
    TopQuestion,
    costs,
    job,
    plan,
    sweep_systems,
    top,
)
from synth.verbs.programs import CheckQuestion, LowerQuestion, TimeQuestion, check, lowered, time
from synth.verbs.questions.question import Question
from synth.verbs.reply import Outcome, Reply
from synth.verbs.training.bucketed import BucketsQuestion, bucketed
from synth.verbs.training.orders import OrderQuestion, ordered
from synth.verbs.training.profiles import ProfileQuestion, profile
from synth.verbs.training.shards import ShardQuestion, shard
from synth.verbs.training.simulated import SimulateQuestion, simulated
from synth.verbs.training.traces import TraceQuestion, trace
from synth.verbs.training.trained import TrainQuestion, trained


@dataclass(frozen=True)
class Verb:
    """One verb: the model of its question, and what answers it.

    ``partial``: whether it can answer in part. ``repeatable``: whether the same question always
    has the same answer; not so for ``run``, ``train`` and ``profile``, which run something here.
    """

    question: type[Question]
    answer: Callable[[Any, Watcher], Reply]
    partial: bool = False
    repeatable: bool = True

    def cut_short(self, reply: Reply) -> bool:
        """Whether a reply is partial: then it is nobody's answer, and is not kept.

        The outcome is asked, and what the answer itself says: it may come from another process.
        """
        said = self.partial and reply.body.get("complete") is False
        return said or reply.outcome is Outcome.PARTIAL


VERBS: Mapping[str, Verb] = {
    "systems": Verb(SystemsQuestion, systems),
    "import": Verb(ImportQuestion, imported),
    "graph": Verb(GraphQuestion, graph),
    "place": Verb(PlaceQuestion, place),
    "count": Verb(CountQuestion, count, partial=True),
    "top": Verb(TopQuestion, top, partial=True),
    "sweep": Verb(SweepQuestion, sweep_systems, partial=True),
    "cost": Verb(CostQuestion, costs, partial=True),
    "plan": Verb(PlanQuestion, plan, partial=True),
    "job": Verb(JobQuestion, job),
    "order": Verb(OrderQuestion, ordered),
    "diff": Verb(DiffQuestion, diff),
    "check": Verb(CheckQuestion, check),
    "lower": Verb(LowerQuestion, lowered),
    "time": Verb(TimeQuestion, time),
    "emit": Verb(EmitQuestion, emitted),
    "run": Verb(RunQuestion, executed, repeatable=False),
    "calibrate": Verb(CalibrateQuestion, calibrate),
    "doctor": Verb(DoctorQuestion, doctor),
    "trace": Verb(TraceQuestion, trace),
    "shard": Verb(ShardQuestion, shard),
    "simulate": Verb(SimulateQuestion, simulated),
    "buckets": Verb(BucketsQuestion, bucketed),
    "train": Verb(TrainQuestion, trained, repeatable=False),
    "profile": Verb(ProfileQuestion, profile, repeatable=False),
}
