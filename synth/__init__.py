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
    from synth.collective.ranking.advice import top
    from synth.collective.ranking.planner import answers
    from synth.collective.ranking.request import Answer, Report, Request
    from synth.collective.workload.asked import Sent, job_of
    from synth.collective.workload.planner import plan_job

_ROOMS = {
    "Sent": "synth.collective.workload.asked",
    "job_of": "synth.collective.workload.asked",
    "plan_job": "synth.collective.workload.planner",
    "Answer": "synth.collective.ranking.request",
    "Report": "synth.collective.ranking.request",
    "Request": "synth.collective.ranking.request",
    "answers": "synth.collective.ranking.planner",
    "top": "synth.collective.ranking.advice",
}
__all__ = ["Answer", "Report", "Request", "Sent", "answers", "job_of", "plan_job", "top"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """The face is loaded when it is first used, so that ``collsynth --help`` need not wait."""
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'synth' has no attribute {name!r}")
