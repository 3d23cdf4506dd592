"""The commands about one program: is it right, whom does it join, what does it cost."""

from __future__ import annotations

from typing import Annotated

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.cli.flags import (
    Algorithm,
    Axes,
    Json,
    Matrix,
    NoCollapse,
    ProgramText,
    Reduce,
    RequestName,
    Segments,
    Size,
    Slow,
    SystemName,
    Without,
)


def check(
    program: ProgramText,
    system: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM]", help="Where it runs, unless --tree.")
    ] = None,
    tree: Annotated[str | None, typer.Option(help="Sizes of the tree's digits, as in 2,8.")] = None,
    axes: Annotated[str | None, typer.Option(help="Names and sizes, as in data=8.")] = None,
    reduce: Annotated[str | None, typer.Option(help="Axes the request is over.")] = None,
    placement: Matrix = None,
    no_collapse: NoCollapse = False,
    request: RequestName = "all-reduce",
    replay: Annotated[bool, typer.Option("--replay", help="Execute it on arrays too.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Derive and prove a program, or say which step fails, with a counterexample."""
    ask_and_exit(
        "check",
        as_json,
        program=program,
        tree=tree,
        system=system,
        axes=axes,
        reduce=reduce,
        placement=placement,
        collapse=not no_collapse,
        request=request,
        replay=replay,
    )


def lower(
    program: ProgramText,
    system: SystemName,
    axes: Axes,
    reduce: Reduce,
    placement: Matrix = None,
    size: Size = "1GiB",
    no_collapse: NoCollapse = False,
    request: RequestName = "all-reduce",
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print the schedule: for each step the groups of real devices, and the bytes."""
    ask_and_exit(
        "lower",
        as_json,
        program=program,
        system=system,
        axes=axes,
        reduce=reduce,
        placement=placement,
        bytes=size,
        collapse=not no_collapse,
        request=request,
    )


def time(
    program: ProgramText,
    system: SystemName,
    axes: Axes,
    reduce: Reduce,
    placement: Matrix = None,
    size: Size = "1GiB",
    algorithm: Algorithm = "auto",
    no_collapse: NoCollapse = False,
    request: RequestName = "all-reduce",
    segments: Segments = "auto",
    without: Without = None,
    slow: Slow = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Price a program step by step, with the reason of each price."""
    ask_and_exit(
        "time",
        as_json,
        program=program,
        system=system,
        axes=axes,
        reduce=reduce,
        placement=placement,
        bytes=size,
        algorithm=algorithm,
        collapse=not no_collapse,
        request=request,
        segments=segments,
        without=without,
        slow=slow,
    )
