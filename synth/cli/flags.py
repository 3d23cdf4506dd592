"""The flags of the command line that several verbs share, and what they say of themselves."""

from __future__ import annotations

from typing import Annotated

import typer

# Spelled out here so that --help need not load the tables; a test holds them together.
TARGETS = (
    "torch, jax, jax-flat, mpi, mscclpp, chakra, nccl-tuner, json, trace, svg, "
    "rankfile, slurm, torchrun, jax-devices, kubernetes"
)
GOALS = "all-reduce, reduce-scatter, all-gather, reduce, broadcast, all-to-all"
KINDS = "nvidia-smi, nccl-xml, rocm-smi, hwloc, slurm, topograph, kubernetes, jax, ibnetdiscover"
MODELS = "v100, a100, a100-40gb, h100, h200, gb200, mi300x, l40s"
BACKENDS = "numpy, jax, gloo, mpi"
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SystemName = Annotated[
    str, typer.Argument(metavar="SYSTEM", help="A catalogue name, name:N, or a TOML file.")
]
ProgramText = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="A program, a file with one, or - for stdin.")
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="What is missing: node3, node3/gpu5, node3/nic2. Repeatable."),
]
Slow = Annotated[
    list[str] | None,
    typer.Option("--slow", help="What has less bandwidth, as in node3/nic2=0.5. Repeatable."),
]
Axes = Annotated[str, typer.Option(help="Names and sizes, as in data=8,model=4.")]
Reduce = Annotated[str, typer.Option(help="Axes the request is over, separated by commas.")]
Size = Annotated[str, typer.Option("--bytes", help="The whole tensor on each device, e.g. 64MiB.")]
Sizes = Annotated[
    str,
    typer.Option(
        "--bytes", help="The whole tensor on each device, e.g. 64MiB; or a range: 1KiB..4GiB."
    ),
]
Steps = Annotated[int, typer.Option(help="The longest programs to look at.")]
Matrix = Annotated[str | None, typer.Option(help="One placement, as in '[[1, 8], [4, 1]]'.")]
Algorithm = Annotated[
    str,
    typer.Option(help="ring, tree, or auto: the fastest that the links have, for each step."),
]
Segments = Annotated[
    str,
    typer.Option(
        help="N: in one or in N segments, whose steps overlap; auto: the best of several."
    ),
]
RequestName = Annotated[str, typer.Option("--request", help=f"What is asked for: {GOALS}.")]
OptionalRequest = Annotated[
    str | None, typer.Option("--request", help="What the program does, if no all-reduce.")
]
NoStripes = Annotated[
    bool, typer.Option("--no-stripes", help="One program for the whole payload, none side by side.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Say of every answer why, in words.")]
NoCollapse = Annotated[
    bool, typer.Option("--no-collapse", help="One tree digit for each axis on a level.")
]
Across = Annotated[bool, typer.Option("--across", help="Also groups over any set of digits.")]
Budget = Annotated[
    float | None, typer.Option(help="Seconds after which to stop with what there is.")
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="ANSWER", help="What 'top --json' printed: a file, or -."),
]
Rank = Annotated[int, typer.Option(help="Which answer of --from.")]
OptionalProgram = Annotated[
    str | None, typer.Argument(metavar="[PROGRAM]", help="A program, a file, or -, unless --from.")
]
OptionalSystem = Annotated[
    str | None, typer.Argument(metavar="[SYSTEM]", help="Where it runs, unless --from.")
]
OptionalAxes = Annotated[str | None, typer.Option("--axes", help="Names and sizes: data=8.")]
OptionalReduce = Annotated[str | None, typer.Option("--reduce", help="Axes it is over.")]
OptionalAlgorithm = Annotated[
    str | None, typer.Option("--algorithm", help="What is predicted: auto, ring or tree.")
]


OptionalSegments = Annotated[
    int | None, typer.Option("--segments", help="Into how many the payload is cut, to overlap.")
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", help="A file or folder instead of the screen; with --json, for the JSON."
    ),
]
