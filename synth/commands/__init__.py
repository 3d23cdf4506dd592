"""The commands, family by family: the flags of each verb. ``shell`` knows what they mean."""

from collections.abc import Callable, Mapping

from synth.commands.importing import import_
from synth.commands.machines import count, place, systems
from synth.commands.measured import calibrate, doctor
from synth.commands.outputs import emit, run
from synth.commands.planning import job, plan, top
from synth.commands.programs import check, lower, time

COMMANDS: Mapping[str, Callable[..., None]] = {
    "systems": systems,
    "import": import_,
    "place": place,
    "count": count,
    "top": top,
    "plan": plan,
    "job": job,
    "check": check,
    "lower": lower,
    "time": time,
    "emit": emit,
    "run": run,
    "calibrate": calibrate,
    "doctor": doctor,
}
