"""The commands that plan: one collective, a range of sizes, a whole job."""

from __future__ import annotations

from typing import Annotated

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.cli.flags import (
    Across,
    Algorithm,
    Axes,
    Budget,
    Explain,
    Json,
    Matrix,
    NoCollapse,
    NoStripes,
    Output,
    Reduce,
    RequestName,
    Segments,
    Size,
    Sizes,
    Slow,
    Steps,
    SystemName,
    Without,
)


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
    without: Without = None,
    slow: Slow = None,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Rank placements and programs for a collective, proved, fastest first."""
    ask_and_exit(
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
        without=without,
        slow=slow,
    )


def sweep(
    systems: Annotated[
        list[str], typer.Argument(metavar="SYSTEM...", help="Catalogue names, name:N, or files.")
    ],
    axes: Axes,
    reduce: Reduce,
    size: Sizes = "1GiB",
    k: Annotated[int, typer.Option("-k", help="How many answers of each.")] = 10,
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
    without: Without = None,
    slow: Slow = None,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Put the question of top to several systems, and compare their best answers."""
    ask_and_exit(
        "sweep",
        as_json,
        budget,
        systems=systems,
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
        without=without,
        slow=slow,
    )


def cost(
    system: SystemName,
    axes: Annotated[str, typer.Option(help="Those of the whole machine, as in data=32.")],
    reduce: Reduce,
    without: Without = None,
    slow: Slow = None,
    size: Size = "1GiB",
    max_steps: Steps = 5,
    algorithm: Algorithm = "auto",
    request: RequestName = "all-reduce",
    segments: Segments = "auto",
    no_stripes: NoStripes = False,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Tell what it costs that something is missing or slower, and what to do about it."""
    ask_and_exit(
        "cost",
        as_json,
        budget,
        system=system,
        axes=axes,
        reduce=reduce,
        without=without,
        slow=slow,
        bytes=size,
        max_steps=max_steps,
        algorithm=algorithm,
        request=request,
        segments=segments,
        stripes=not no_stripes,
    )


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
    without: Without = None,
    slow: Slow = None,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Find the one placement for all collectives of a job, and each one's best program on it."""
    ask_and_exit(
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
        without=without,
        slow=slow,
    )


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
    ask_and_exit(
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
