"""HOW: synthesis, proof, prices and schedules of reduction programs.

The Python face is as small as the command line's main verbs: a machine, axes, and which of them to
reduce over, or all that a training step sends over them; the answers come ranked, each with its
program, price and proof. It is loaded when it is first used, so that ``collsynth --help`` need not
wait.

>>> import synth
>>> report = synth.top(
...     "dgx-h100:1", axes={"data": 8}, reduce=["data"], k=1, max_steps=1, segments=1
... )
>>> [answer] = report.answers
>>> print(answer.candidate.program, answer.verdict)
all-reduce root inside Proved(sizes=None)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synth.plan.advice import top
    from synth.plan.planner import answers
    from synth.plan.request import Answer, Report, Request
    from synth.workload.asked import Sent, job_of
    from synth.workload.planner import plan_job

_ROOMS = {
    "Sent": "synth.workload.asked",
    "job_of": "synth.workload.asked",
    "plan_job": "synth.workload.planner",
    "Answer": "synth.plan.request",
    "Report": "synth.plan.request",
    "Request": "synth.plan.request",
    "answers": "synth.plan.planner",
    "top": "synth.plan.advice",
}
__all__ = ["Answer", "Report", "Request", "Sent", "answers", "job_of", "plan_job", "top"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """The face is loaded when it is first used, so that ``collsynth --help`` need not wait."""
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'synth' has no attribute {name!r}")
