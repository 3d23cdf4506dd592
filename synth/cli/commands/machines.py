"""The commands that look at machines and at what can be said on them."""

from __future__ import annotations

from typing import Annotated

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.cli.flags import (
    Across,
    Axes,
    Budget,
    Json,
    RequestName,
    Slow,
    Steps,
    SystemName,
    Without,
)


def systems(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    without: Without = None,
    slow: Slow = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the known machines, or show one with its links and their sources."""
    ask_and_exit("systems", as_json, system=name, without=without, slow=slow)


def place(system: SystemName, axes: Axes, as_json: Json = False, verbose: Verbose = False) -> None:
    """List every placement of parallelism axes on a system."""
    ask_and_exit("place", as_json, system=system, axes=axes)


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
    ask_and_exit(
        "count",
        as_json,
        budget,
        digits=digits,
        max_steps=max_steps,
        across=across,
        request=request,
    )
