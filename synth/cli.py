"""The command line: which flags each verb has. What they mean is ``shell``'s business."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer

from synth.flags import (
    BACKENDS,
    TARGETS,
    Across,
    Algorithm,
    Axes,
    Budget,
    Explain,
    From,
    Json,
    Matrix,
    NoCollapse,
    NoStripes,
    OptionalAlgorithm,
    OptionalAxes,
    OptionalProgram,
    OptionalReduce,
    OptionalRequest,
    OptionalSegments,
    OptionalSystem,
    Output,
    ProgramText,
    Rank,
    Reduce,
    RequestName,
    Segments,
    Size,
    Sizes,
    Steps,
    SystemName,
)

app = typer.Typer(
    help="Synthesize, prove and rank hierarchical collectives for a cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 ok, 1 the answer is no, 2 bad input, 4 stopped with a partial answer.",
)


def _ask(
    verb: str, as_json: bool, budget: float | None = None, output: str | None = None, **flags: Any
) -> None:
    """Put a question, print the answer, and exit as it ended."""
    # Not at the top of the file: it loads numpy, z3 and pydantic, and --help must not wait for it.
    from synth.shell import ask

    code = ask(verb, flags, as_json=as_json, budget_seconds=budget, output=output)
    if code:
        raise typer.Exit(code)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"collsynth {version('collsynth')}")
        raise typer.Exit


def _log(wanted: bool) -> None:
    if wanted:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")


Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_log, help="Log to standard error.")
]


@app.callback()
def _main(
    show: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Results go to standard output, progress and log to standard error."""


@app.command()
def systems(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the known machines, or show one with its links and their sources."""
    _ask("systems", as_json, system=name)


@app.command()
def place(system: SystemName, axes: Axes, as_json: Json = False, verbose: Verbose = False) -> None:
    """List every placement of parallelism axes on a system."""
    _ask("place", as_json, system=system, axes=axes)


@app.command()
def count(
    digits: Annotated[int, typer.Option(help="Digits of the synthesis tree.")],
    max_steps: Steps = 5,
    across: Across = False,
    request: RequestName = "all-reduce",
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Count the valid programs of a synthesis tree by their length."""
    _ask(
        "count",
        as_json,
        budget,
        digits=digits,
        max_steps=max_steps,
        across=across,
        request=request,
    )


@app.command()
def top(
    system: SystemName,
    axes: Axes,
    reduce: Reduce,
    size: Sizes = "1GiB",
    k: Annotated[int, typer.Option("-k", help="How many answers.")] = 10,
    max_steps: Steps = 5,
    algorithm: Algorithm = "auto",
    placement: Matrix = None,
    per_placement: Annotated[
        bool, typer.Option("--per-placement", help="Rank inside each placement.")
    ] = False,
    across: Across = False,
    no_collapse: NoCollapse = False,
    request: RequestName = "all-reduce",
    segments: Segments = "auto",
    no_stripes: NoStripes = False,
    explain: Explain = False,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Rank placements and programs for a collective, proved, fastest first."""
    _ask(
        "top",
        as_json,
        budget,
        system=system,
        axes=axes,
        reduce=reduce,
        bytes=size,
        k=k,
        max_steps=max_steps,
        algorithm=algorithm,
        placement=placement,
        per_placement=per_placement,
        across=across,
        collapse=not no_collapse,
        request=request,
        segments=segments,
        stripes=not no_stripes,
        explain=explain,
    )


@app.command()
def plan(
    system: SystemName,
    job: Annotated[str, typer.Option(help="A job file, or the name of a shipped job.")],
    k: Annotated[int, typer.Option("-k", help="How many placements to list.")] = 5,
    max_steps: Steps = 5,
    algorithm: Algorithm = "auto",
    across: Across = False,
    no_collapse: NoCollapse = False,
    segments: Segments = "auto",
    no_stripes: NoStripes = False,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Find the one placement for all collectives of a job, and each one's best program on it."""
    _ask(
        "plan",
        as_json,
        budget,
        system=system,
        job=job,
        k=k,
        max_steps=max_steps,
        algorithm=algorithm,
        across=across,
        collapse=not no_collapse,
        segments=segments,
        stripes=not no_stripes,
    )


@app.command()
def job(
    axes: Annotated[str, typer.Option(help="Sizes, as in data=any,tensor=1|2|4|8,pipeline=4.")],
    layers: Annotated[int, typer.Option(help="Layers of the transformer.")],
    hidden: Annotated[int, typer.Option(help="Width of the model.")],
    heads: Annotated[int, typer.Option(help="Attention heads.")],
    vocabulary: Annotated[int, typer.Option(help="Tokens of the vocabulary.")],
    sequence: Annotated[int, typer.Option(help="Tokens in a sequence.")],
    name: Annotated[str, typer.Option(help="How the job is called.")] = "transformer",
    micro_batch: Annotated[int, typer.Option(help="Sequences in a micro-batch.")] = 1,
    batch: Annotated[int | None, typer.Option(help="Sequences in a step, of all devices.")] = None,
    micro_batches: Annotated[
        int | None, typer.Option(help="Micro-batches in a step, of each device.")
    ] = None,
    kv_heads: Annotated[int, typer.Option(help="Heads of keys and values, if fewer.")] = 0,
    feed_forward: Annotated[int, typer.Option(help="Inner columns, if not 4 x hidden.")] = 0,
    gated: Annotated[bool, typer.Option("--gated", help="A gated network, as in Llama.")] = False,
    experts: Annotated[int, typer.Option(help="Experts in each layer.")] = 0,
    experts_per_token: Annotated[int, typer.Option(help="Experts that see a token.")] = 2,
    sharding: Annotated[str, typer.Option(help="none, optimizer, fsdp or hsdp.")] = "none",
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Activations are computed twice.")
    ] = False,
    memory: Annotated[
        float | None, typer.Option(help="GB of a device for the training state.")
    ] = None,
    output: Output = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Derive a job file for plan: what a transformer's training step communicates."""
    _ask(
        "job",
        as_json,
        output=output,
        open_axes=axes,
        layers=layers,
        hidden=hidden,
        heads=heads,
        vocabulary=vocabulary,
        sequence=sequence,
        name=name,
        micro_batch=micro_batch,
        batch=batch,
        micro_batches=micro_batches,
        kv_heads=kv_heads,
        feed_forward=feed_forward,
        gated=gated,
        classic=not gated,
        experts=experts,
        experts_per_token=experts_per_token,
        sharding=sharding,
        recompute=recompute,
        memory_GB=memory,
    )


@app.command()
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
    _ask(
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


@app.command()
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
    _ask(
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


@app.command()
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
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Price a program step by step, with the reason of each price."""
    _ask(
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
    )


@app.command()
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
    _ask(
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


@app.command()
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
    _ask(
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


def main() -> None:
    """The ``collsynth`` command."""
    app(prog_name="collsynth")
