"""The verbs: a question in, a JSON answer out. Every front end is a skin over this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from synth.ask.comparing import DiffQuestion, diff
from synth.ask.importing import ImportQuestion, import_topology
from synth.ask.machines import (
    CountQuestion,
    GraphQuestion,
    PlaceQuestion,
    SystemsQuestion,
    count,
    graph_machine,
    place,
    show_systems,
)
from synth.ask.measured import CalibrateQuestion, DoctorQuestion, calibrate, doctor
from synth.ask.outputs import EmitQuestion, RunQuestion, emit_program, run_program
from synth.ask.planning import (
    CostQuestion,
    JobQuestion,
    PlanQuestion,
    SweepQuestion,
    TopQuestion,
    derive_job,
    plan,
    price_faults,
    rank_programs,
    sweep_systems,
)
from synth.ask.programs import (
    CheckQuestion,
    LowerQuestion,
    TimeQuestion,
    check,
    lower_program,
    time,
)
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply
from synth.ask.training.bucketed import BucketsQuestion, find_buckets
from synth.ask.training.orders import OrderQuestion, show_schedule
from synth.ask.training.profiles import ProfileQuestion, profile
from synth.ask.training.shards import ShardQuestion, shard
from synth.ask.training.simulated import SimulateQuestion, simulate_step
from synth.ask.training.traces import TraceQuestion, trace
from synth.ask.training.trained import TrainQuestion, train_step
from synth.collective.ranking.request import Watcher


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
    "systems": Verb(SystemsQuestion, show_systems),
    "import": Verb(ImportQuestion, import_topology),
    "graph": Verb(GraphQuestion, graph_machine),
    "place": Verb(PlaceQuestion, place),
    "count": Verb(CountQuestion, count, partial=True),
    "top": Verb(TopQuestion, rank_programs, partial=True),
    "sweep": Verb(SweepQuestion, sweep_systems, partial=True),
    "cost": Verb(CostQuestion, price_faults, partial=True),
    "plan": Verb(PlanQuestion, plan, partial=True),
    "job": Verb(JobQuestion, derive_job),
    "order": Verb(OrderQuestion, show_schedule),
    "diff": Verb(DiffQuestion, diff),
    "check": Verb(CheckQuestion, check),
    "lower": Verb(LowerQuestion, lower_program),
    "time": Verb(TimeQuestion, time),
    "emit": Verb(EmitQuestion, emit_program),
    "run": Verb(RunQuestion, run_program, repeatable=False),
    "calibrate": Verb(CalibrateQuestion, calibrate),
    "doctor": Verb(DoctorQuestion, doctor),
    "trace": Verb(TraceQuestion, trace),
    "shard": Verb(ShardQuestion, shard),
    "simulate": Verb(SimulateQuestion, simulate_step),
    "buckets": Verb(BucketsQuestion, find_buckets),
    "train": Verb(TrainQuestion, train_step, repeatable=False),
    "profile": Verb(ProfileQuestion, profile, repeatable=False),
}
