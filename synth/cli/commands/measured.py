"""The commands that look at what was measured: which tests to run, and what they say."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.cli.flags import Json, Output, SystemName

Logs = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE...", help="Logs of nccl-tests or rccl-tests: text, JSON or CSV."),
]
Collective = Annotated[
    str | None, typer.Option(help="What was run, where a log does not say: all_gather, ...")
]
Hosts = Annotated[
    int | None, typer.Option("--hosts", help="On how many hosts, where a log does not say.")
]
Members = Annotated[
    str | None,
    typer.Option(help="How many children of each level a group had ranks in, as in 2,8."),
]


def calibrate(
    system: SystemName,
    files: Logs = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the tests to run, and what each tells.")
    ] = False,
    launcher: Annotated[
        str, typer.Option(help="What starts the tests of a plan: mpirun or srun.")
    ] = "mpirun",
    collective: Collective = None,
    hosts: Hosts = None,
    members: Members = None,
    output: Output = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Fit a description to measurements, or say which to take."""
    given: dict[str, Any] = {"unread" if plan else "logs": files or []}
    ask_and_exit(
        "calibrate",
        as_json,
        output=output,
        system=system,
        **given,
        plan=plan,
        launcher=launcher,
        collective=collective,
        open_hosts=hosts,
        members=members,
    )


def doctor(
    system: SystemName,
    files: Logs = None,
    collective: Collective = None,
    hosts: Hosts = None,
    members: Members = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """What should I get, and why don't I? Measured beside predicted, and the level at fault."""
    ask_and_exit(
        "doctor",
        as_json,
        system=system,
        logs=files or [],
        collective=collective,
        open_hosts=hosts,
        members=members,
    )
