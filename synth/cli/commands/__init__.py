"""The commands, family by family: the flags of each verb. ``ask`` knows what they mean.

A command only collects flags; ``cli.ask`` is loaded when a verb is asked, so that ``--help`` does
not wait for numpy and z3. Every verb has a command of its name; serving and keys ask no verb.

>>> from synth.cli.commands import COMMANDS, GROUPS, SERVICE
>>> print(*COMMANDS)
systems import place count top sweep cost plan job check lower time emit run calibrate doctor
>>> print(*SERVICE, *GROUPS)
serve keys
"""

from collections.abc import Callable, Mapping

import typer

from synth.cli.commands.importing import import_
from synth.cli.commands.machines import count, place, systems
from synth.cli.commands.measured import calibrate, doctor
from synth.cli.commands.outputs import emit, run
from synth.cli.commands.planning import cost, job, plan, sweep, top
from synth.cli.commands.programs import check, lower, time
from synth.cli.commands.serving import keys, serve

COMMANDS: Mapping[str, Callable[..., None]] = {
    "systems": systems,
    "import": import_,
    "place": place,
    "count": count,
    "top": top,
    "sweep": sweep,
    "cost": cost,
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

SERVICE: Mapping[str, Callable[..., None]] = {"serve": serve}
"""Commands that ask no verb."""
GROUPS: Mapping[str, typer.Typer] = {"keys": keys}
"""Commands of commands."""
