"""The commands that hand programs out: as files for runtimes, or run here."""

from __future__ import annotations

from typing import Annotated

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.cli.flags import (
    BACKENDS,
    TARGETS,
    From,
    Json,
    Matrix,
    NoCollapse,
    OptionalAlgorithm,
    OptionalAxes,
    OptionalProgram,
    OptionalReduce,
    OptionalRequest,
    OptionalSegments,
    OptionalSystem,
    Output,
    Rank,
)


def emit(
    target: Annotated[str, typer.Option(help=f"One of: {TARGETS}.")],
    program: OptionalProgram = None,
    system: OptionalSystem = None,
    answer: From = None,
    rank: Rank = 1,
    axes: OptionalAxes = None,
    reduce: OptionalReduce = None,
    placement: Matrix = None,
    size: Annotated[
        str | None, typer.Option("--bytes", help="The whole tensor on each device, e.g. 64MiB.")
    ] = None,
    no_collapse: NoCollapse = False,
    request: OptionalRequest = None,
    algorithm: OptionalAlgorithm = None,
    segments: OptionalSegments = None,
    rank_order: Annotated[
        str, typer.Option(help="How the job's ranks are numbered: machine or axes.")
    ] = "machine",
    hosts: Annotated[str | None, typer.Option(help="Names of the hosts, in order: a,b,c.")] = None,
    host_level: Annotated[
        str | None, typer.Option(help="The level whose units are hosts, if not node or host.")
    ] = None,
    channels: Annotated[int | None, typer.Option(help="NCCL's channels, for its tuner.")] = None,
    output: Output = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write a program, or an answer of top, for a runtime or tool."""
    ask_and_exit(
        "emit",
        as_json,
        output=output,
        program=program,
        system=system,
        answer=answer,
        rank=rank,
        axes=axes,
        reduce=reduce,
        placement=placement,
        bytes=size,
        collapse=not no_collapse,
        request=request,
        algorithm=algorithm,
        segments=segments,
        target=target,
        rank_order=rank_order,
        hosts=hosts,
        host_level=host_level,
        channels=channels,
    )


def run(
    program: OptionalProgram = None,
    system: OptionalSystem = None,
    backend: Annotated[str, typer.Option(help=f"One of: {BACKENDS}.")] = "numpy",
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the plain all-reduce.")
    ] = False,
    answer: From = None,
    rank: Rank = 1,
    axes: OptionalAxes = None,
    reduce: OptionalReduce = None,
    placement: Matrix = None,
    size: Annotated[
        str, typer.Option("--bytes", help="The whole tensor on each device, e.g. 1MiB.")
    ] = "1MiB",
    dtype: Annotated[str, typer.Option(help="What the tensor is made of.")] = "float32",
    repeat: Annotated[int, typer.Option(help="How often it is timed.")] = 5,
    timeout: Annotated[float, typer.Option(help="Seconds after which all are ended.")] = 120.0,
    no_collapse: NoCollapse = False,
    request: OptionalRequest = None,
    algorithm: OptionalAlgorithm = None,
    segments: OptionalSegments = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Execute a program here, check it, and print measured beside predicted time."""
    ask_and_exit(
        "run",
        as_json,
        program=program,
        system=system,
        answer=answer,
        rank=rank,
        axes=axes,
        reduce=reduce,
        placement=placement,
        bytes=size,
        collapse=not no_collapse,
        request=request,
        algorithm=algorithm,
        segments=segments,
        backend=backend,
        check=check,
        dtype=dtype,
        repeat=repeat,
        timeout_seconds=timeout,
    )
