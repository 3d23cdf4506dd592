"""The command that reads other people's descriptions of machines."""

from __future__ import annotations

from typing import Annotated

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.cli.flags import KINDS, MODELS, Json


def import_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"What the files are: {KINDS}.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="The files.")],
    nodes: Annotated[int | None, typer.Option(help="How many such nodes there are.")] = None,
    gpu: Annotated[str | None, typer.Option(help=f"Which GPU it is: {MODELS}.")] = None,
    keys: Annotated[
        str | None, typer.Option(help="Labels that name the levels, outermost first: a,b,c.")
    ] = None,
    inside: Annotated[
        str | None, typer.Option(help="The system whose nodes an imported network joins.")
    ] = None,
    suggested: Annotated[
        bool, typer.Option("--suggested", help="Take suggestions as values, marked unconfirmed.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="A file for the description; with --json, the JSON."),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Read a topology that another tool wrote, and say what it leaves open."""
    ask_and_exit(
        "import",
        as_json,
        output=output,
        kind=kind,
        files=files,
        nodes=nodes,
        gpu=gpu,
        keys=keys or "",
        inside=inside,
        suggested=suggested,
    )
