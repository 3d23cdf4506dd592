"""HOW: synthesis, proof, prices and schedules of reduction programs.

The Python face has every verb of the command line as a function. ``synth.plan("dgx-h100:4",
model="llama3-8b")`` plans a whole step, ``synth.simulate`` puts one on the clock, and so on: the
keys of a question are keywords, and the answer is the pydantic model of ``docs/json.md``.
``synth.import_topology`` is the verb ``import``. Where an answer is only a station of the caller's
own program, ``synth.top`` and ``synth.plan_job`` return domain types: reductions, programs, proofs.

Everything is loaded when it is first used, so that ``collsynth --help`` need not wait.

>>> import synth
>>> report = synth.top(
...     "dgx-h100:1", axes={"data": 8}, reduce=["data"], k=1, max_steps=1, segments=1
... )
>>> [answer] = report.answers
>>> print(answer.candidate.program, answer.verdict)
all-reduce root inside Proved(sizes=None)
>>> synth.place("dgx-h100:2", axes={"data": 2, "model": 8}).count
2
"""

from collections.abc import Callable, Mapping
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
    return sorted({*globals(), *__all__, *_functions()})


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    if not name.startswith("_") and name in _functions():
        return _functions()[name]
    raise AttributeError(f"module 'synth' has no attribute {name!r}")


def _functions() -> Mapping[str, Callable[..., Any]]:
    """The verbs as functions. They load numpy and z3."""
    functions: Mapping[str, Callable[..., Any]] = import_module("synth.verbs").FUNCTIONS
    return functions
