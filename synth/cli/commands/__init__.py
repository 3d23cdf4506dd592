"""The commands: one a verb, made from its question, and those that run the service.

A command only collects flags; ``cli.ask`` is loaded when a verb is asked, so that ``--help`` does
not wait for numpy and z3. Every verb has a command of its name; serving and keys ask no verb.

>>> from synth.cli.commands import COMMANDS, GROUPS, SERVICE
>>> print(*list(COMMANDS)[:8])
systems import graph place count top sweep cost
>>> print(*SERVICE, *GROUPS)
serve keys
"""

from collections.abc import Callable, Mapping

import typer

from synth.cli.commands.keys import keys
from synth.cli.commands.serving import serve
from synth.cli.commands.verbs import OrderedCommand as OrderedCommand
from synth.cli.commands.verbs import commands

COMMANDS: Mapping[str, Callable[..., None]] = commands()
SERVICE: Mapping[str, Callable[..., None]] = {"serve": serve}
"""Commands that ask no verb."""
GROUPS: Mapping[str, typer.Typer] = {"keys": keys}
"""Commands of commands."""
