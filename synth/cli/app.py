"""The command line: its commands, and what they share."""

from __future__ import annotations

import atexit
import gc
from importlib.metadata import version
from typing import Annotated

import typer

from synth.cli.commands import COMMANDS, GROUPS, SERVICE, OrderedCommand
from synth.cli.commands.asking import Store, Verbose

app = typer.Typer(
    help="Synthesize, prove and rank hierarchical collectives for a cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 ok, 1 the answer is no, 2 bad input, 4 stopped with a partial answer.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"collsynth {version('collsynth')}")
        raise typer.Exit


@app.callback()
def _main(
    show: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
    store: Store = None,
    verbose: Verbose = False,
) -> None:
    """Results go to standard output, progress and log to standard error."""


for _name, _command in COMMANDS.items():
    app.command(_name, cls=OrderedCommand)(_command)
for _name, _command in SERVICE.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


GARBAGE = 100_000, 50, 100
"""After how many new objects, and rounds of that, cycles among them are looked for.

A plan makes millions of objects and next to no cycles: by default an eighth of its time went there.
"""


def main() -> None:
    """The ``collsynth`` command."""
    gc.set_threshold(*GARBAGE)
    # At exit Python looks for cycles in all that is in memory: a second after a plan, for nothing.
    atexit.register(gc.freeze)
    app(prog_name="collsynth")
