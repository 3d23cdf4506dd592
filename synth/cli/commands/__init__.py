"""The commands: one a verb, made from its question, and those that run the service."""

from collections.abc import Callable, Mapping

import typer

from synth.cli.commands.serving import keys, serve
from synth.cli.commands.verbs import commands

COMMANDS: Mapping[str, Callable[..., None]] = commands()
SERVICE: Mapping[str, Callable[..., None]] = {"serve": serve}
"""Commands that ask no verb."""
GROUPS: Mapping[str, typer.Typer] = {"keys": keys}
"""Commands of commands."""
