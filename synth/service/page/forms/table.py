"""The table of all forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammar import Goal
from hierarchies.devices import devices
from synth.ask.measured import CalibrateQuestion, DoctorQuestion
from synth.ask.planning import PlanQuestion
from synth.ask.questions.notations import A_RANGE
from synth.ask.ranking import CostQuestion, SweepQuestion, TopQuestion
from synth.collective.workload.files import shipped_jobs
from synth.compute.runtimes import IDEAL
from synth.service.page.forms.collectives import CollectiveRow
from synth.service.page.forms.fields import AxisRow
from synth.service.page.forms.form import QuestionForm
from synth.step.frameworks import FRAMEWORKS
from synth.step.zoo.sizes import ZOO

_SEARCH = ("max_steps", "algorithm", "segments", "placement", "no_stripes")
_COLLECTIVE = ("axes", "reduce", "request", "bytes")
_AXES: Mapping[str, Any] = {"axes": {}, "reduce": []}
_ROWS = (
    QuestionForm(
        "top",
        "top",
        TopQuestion,
        "Which placement and which programs are fastest?",
        "Describe the machine, the parallelism axes and what a training step sends over them. "
        "Every placement and every program is priced on the links of the machine; the best are "
        "proved and ranked.",
        "Find the fastest",
        ("system", "axes"),
        ("request", "bytes", "k"),
        (
            *(
                "max_steps",
                "algorithm",
                "segments",
                "without",
                "slow",
                "prices",
                "nccl",
                "per_placement",
            ),
            *("across", "no_collapse", "no_stripes", "exact", "explain"),
        ),
        {"system": "dgx-h100", **_AXES},
        {"count": "4", "axes": (AxisRow("data", "32", True), AxisRow(), AxisRow())},
        address="/",
        template="form.html",
        menu="form",
        shown={"goals": Goal, "a_range": A_RANGE, "a_row": CollectiveRow()},
    ),
    QuestionForm(
        "step",
        "plan",
        PlanQuestion,
        "How should this model be trained on this machine?",
        "Choose a model, the samples of a step and a machine. All sizes of the axes, ZeRO stages, "
        "schedules, microbatches and placements are searched; the fastest plans that fit in "
        "memory are simulated.",
        "Plan the step",
        ("system", "model"),
        ("model", "batch", "sequence", "dtype", "framework", "pin", "explain"),
        ("k", "optimizer", "precision", "device", "sizes", "profile"),
        {"system": "dgx-h100", "model": "llama3-8b"},
        {"count": "2"},
        {"model": "llama3-8b", "batch": "64", "sequence": "8192"},
        address="/plan",
        template="plan_form.html",
        menu="plan",
        shown={"models": [*ZOO], "devices": devices(), "frameworks": [*FRAMEWORKS, IDEAL]},
    ),
    QuestionForm(
        "sweep",
        "sweep",
        SweepQuestion,
        "On which of several machines is a collective fastest?",
        "Answers the same question for each machine and compares the best answers.",
        "Compare the machines",
        ("systems",),
        (*_COLLECTIVE, "k"),
        (*_SEARCH, "without", "slow", "prices", "nccl"),
        {"systems": ["dgx-h100"], **_AXES},
        {"systems": "dgx-h100:4 dgx-a100:4"},
        {"axes": "data=32", "reduce": "data", "k": "1"},
    ),
    QuestionForm(
        "cost",
        "cost",
        CostQuestion,
        "What do missing or slow parts cost?",
        "Compares the best programs on the healthy machine and on the damaged one, and lists the "
        "alternatives.",
        "Compute the cost",
        ("system",),
        ("without", "slow", *_COLLECTIVE),
        (*_SEARCH, "prices", "nccl"),
        {"system": "dgx-h100", **_AXES},
        {"count": "4"},
        {"axes": "data=32", "reduce": "data", "slow": "node3/nic2=0.5"},
    ),
    QuestionForm(
        "plan",
        "plan",
        PlanQuestion,
        "Where should the axes of this job be placed?",
        "A job lists all collectives of a training step. The search finds the one placement, and "
        "the sizes of axes that are left open, with the least exposed communication.",
        "Find the placement",
        ("job", "system"),
        ("k",),
        (*_SEARCH, "without", "slow", "prices", "nccl"),
        {"system": "dgx-h100", "job": "gpt-18b-3d"},
        {"count": "4", "job": "gpt-18b-3d"},
        menu="place",
        shown={"jobs": shipped_jobs()},
    ),
    QuestionForm(
        "doctor",
        "doctor",
        DoctorQuestion,
        "What should this machine deliver, and why does it not?",
        "Logs of nccl-tests or rccl-tests are compared with what the machine should deliver and "
        "with what no schedule can beat. Where the numbers suffice, the level that falls short is "
        "named. With an earlier log of the same test they are compared row by row.",
        "Check the logs",
        ("system", "logs"),
        ("baseline",),
        ("collective", "hosts", "members", "prices", "nccl"),
        {"system": "dgx-h100", "files": []},
        {"system": "dgx-a100", "count": "2"},
    ),
    QuestionForm(
        "calibrate",
        "calibrate",
        CalibrateQuestion,
        "Which prices follow from measurements of this machine?",
        "Prices are fitted to logs of nccl-tests or rccl-tests. Use the resulting description in "
        "later questions.",
        "Calibrate",
        ("system", "logs"),
        (),
        ("collective", "hosts", "members"),
        {"system": "dgx-h100", "files": []},
        {"system": "dgx-a100", "count": "2"},
    ),
    QuestionForm(
        "tests",
        "calibrate",
        CalibrateQuestion,
        "Which tests should be run on this machine?",
        "Prints a script with the commands that start nccl-tests or rccl-tests, and what each "
        "measures. Run it on the machine; then check its logs or calibrate with them.",
        "Print the tests",
        ("system",),
        ("only", "launcher"),
        (),
        {"system": "dgx-h100"},
        {"count": "2"},
        fixed={"plan": True},
        menu="calibrate",
    ),
)
FORMS: Mapping[str, QuestionForm] = {row.name: row for row in _ROWS}
"""All forms by name."""
