"""A table for NCCL's example tuner plugin: the algorithm of each call of a program, at its size.

A tuner cannot express a program, only how NCCL carries out one collective on one communicator. So
the table has a row for each call of the program, for communicators with its numbers of nodes and
ranks, with the algorithm of its price: for the sizes of the question's range, or, for one size, for
those around it that have the same algorithms and the same verdict. It has no other rows, because
the answer does not cover other sizes or communicators. Rows are of rings and trees; a call priced
by anything else, such as a switch that reduces (NVLS), makes the whole program inexpressible. NCCL
composes an all-to-all of sends, for which it asks no tuner.

Facts, from NVIDIA/nccl plugins/tuner/example/plugin.c @ 35512d6f:

* names are lower case, unknown names silently become allreduce, ring and simple; lines of 256
  characters or more are cut in two, comments too;
* the first matching row wins, unless NCCL has marked its algorithm and protocol as impossible: then
  the search continues;
* channels: without a matching row, or with -1, it is 1 (*nChannels is 1 before the search, and NCCL
  takes any number but 0 for an order: src/enqueue.cc getAlgoInfo). So every row names them, and
  only the caller knows how many; and the plugin must be built with 0 there, or every call without a
  row would have one channel. The head of the table says so;
* bytes: the larger of a member's buffers before and after, as our sizes are (an all-gather's and a
  reduce-scatter's is the whole: ncclFuncMaxSendRecvCount in src/include/enqueue.h). Calls of one
  ncclGroupStart/End within a factor 4 of each other are looked up with their sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil, floor
from textwrap import wrap

import numpy as np

from grammar import Collective, instructions
from hierarchies import Devices, InputError
from hierarchies.units import format_bytes
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.emit.launchers import host_level
from synth.collective.emit.source import CannotExpressError, EmitSource, Files, PricedRange
from synth.collective.semantics.schedule import Exchange

TUNABLE_ALGORITHMS = (Algorithm.RING, Algorithm.TREE)
"""The algorithms that the table can have rows for."""
BUILD = (
    "Build the plugin with *nChannels = 0 in pluginGetCollInfo, where it has 1: else all other "
    "calls go over one channel."
)
"""The steps for users before the table can be used."""
NAMES = {
    Collective.BROADCAST: "broadcast",
    Collective.REDUCE: "reduce",
    Collective.ALL_GATHER: "allgather",
    Collective.REDUCE_SCATTER: "reducescatter",
    Collective.ALL_REDUCE: "allreduce",
}


def write(source: EmitSource) -> Files:
    """Returns the table.

    Raises CannotExpressError for an all-to-all, for a call priced by neither ring nor tree, and for
    equal calls with different ways; InputError if the number of channels is not given.
    """
    channels = source.options.channels
    if channels is None:
        raise InputError(
            "the number of NCCL's channels is not known",
            where="nccl-tuner",
            hint='pass --channels N, the least of the "N coll channels" NCCL_DEBUG=INFO prints',
        )
    lines = [*_header(source, channels), *_rows(source, channels)]
    return {_file(source): "\n".join(lines) + "\n"}


def find_rows(source: EmitSource) -> dict[str, str]:
    """Returns the way of each call and shape of its communicators, as ``tree,ll128``.

    The keys are ``allreduce,FROM,TO,NODES,RANKS``. Rows are of all ranges that ``find_covered``
    returns. Raises CannotExpressError as ``write``.
    """
    return {
        ",".join(map(str, (name, first, last, *shape))): way
        for (name, *shape), sizes in _find_sizes(source, find_covered(source)).items()
        for (first, last), way in sizes.items()
    }


def find_covered(source: EmitSource) -> tuple[PricedRange, ...]:
    """Returns the ranges of the payload that rows are of: those whose calls are rings and trees.

    The size of the schedule alone where calls of one collective among as many nodes and ranks would
    have different ways at one size.
    """
    own = source.schedule.payload_bytes
    alone = (PricedRange(own, own, own, source.prices),)
    covered = tuple(
        part
        for part in source.ranges
        if part.from_bytes <= own <= part.until_bytes
        or all(price.algorithm in (None, *TUNABLE_ALGORITHMS) for price in part.prices)
    )
    for sizes in _find_sizes(source, covered).values() if covered else ():
        rows = combinations(sorted(sizes.items()), 2)
        # Rounded ends of neighbours may share a byte: the first row has it.
        if any(way != later and end > begin + 1 for ((_, end), way), ((begin, _), later) in rows):
            return alone
    return covered or alone


def _find_sizes(
    source: EmitSource, ranges: Sequence[PricedRange]
) -> dict[tuple[str, int, int], dict[tuple[int, int], str]]:
    """Returns, by collective and numbers of nodes and ranks, the way of each range of sizes."""
    if source.schedule.goal.apart:
        raise CannotExpressError("all-to-all: NCCL sends it, and asks no tuner how", where="step 1")
    schedule = source.schedule
    exchanges = [phase for phase in schedule.phases if isinstance(phase, Exchange)]
    steps = instructions(schedule.program, schedule.reduction.tree, schedule.goal)
    known = defaultdict[tuple[str, int, int], dict[tuple[int, int], str]](dict)
    for part in ranges:
        prices = [price for price in part.prices if price.algorithm is not None]
        for at, (step, exchange, price) in enumerate(zip(steps, exchanges, prices, strict=True), 1):
            if why := explain_missing_row(step.collective.value, price.algorithm):
                raise CannotExpressError(why, where=f"step {at}")
            assert price.algorithm
            way = f"{price.algorithm.value},{price.protocol.value}"
            share = price.size_bytes / part.size_bytes
            ends = floor(share * part.from_bytes), ceil(share * part.until_bytes)
            for nodes in _nodes(source, exchange.groups):
                rows = known[NAMES[step.collective], nodes, exchange.groups.shape[1]]
                if rows.setdefault(ends, way) != way:
                    why = f"{step.collective.value}: a call that looks alike goes by {rows[ends]}"
                    raise CannotExpressError(why, where=f"step {at}")
    return known


def describe_covered(source: EmitSource) -> str:
    """Returns a sentence on the sizes of the payload that the rows cover."""
    ends: list[tuple[int, int]] = []
    for part in find_covered(source):
        begins = ends.pop()[0] if ends and ends[-1][1] + 1 == part.from_bytes else part.from_bytes
        ends.append((begins, part.until_bytes))
    texts = (" to ".join(dict.fromkeys(map(format_bytes, pair))) for pair in ends)
    return f"Rows cover payloads of {' and '.join(texts)}; at other sizes NCCL chooses as ever."


def _rows(source: EmitSource, channels: int) -> Iterator[str]:
    """Yields a row for each call and each shape of its communicators."""
    for who, way in find_rows(source).items():
        name, first, last, nodes_and_ranks = who.split(",", 3)
        yield f"{name},{first},{last},{way},{channels},{nodes_and_ranks}"


def explain_missing_row(collective: str, algorithm: Algorithm | None) -> str:
    """Returns why the table cannot have a row for an algorithm, or ""."""
    if algorithm is None or algorithm in TUNABLE_ALGORITHMS:
        return ""
    return f"{collective}: it goes by {algorithm.value}, and the table says rings and trees only"


def _nodes(source: EmitSource, groups: Devices) -> list[int]:
    """Returns how many nodes the groups of a call span, each number once."""
    devices = source.system.hierarchy.devices_in_child(host_level(source))
    hosts = np.sort(groups // devices, axis=1)
    counts = 1 + (hosts[:, 1:] != hosts[:, :-1]).sum(axis=1)
    return sorted(set(counts.tolist()))


def _header(source: EmitSource, channels: int) -> Iterator[str]:
    schedule = source.schedule
    for paragraph in source.reached:
        yield from map(_comment, wrap(paragraph, 98))
    yield _comment(f"{source.options.made_by}: NCCL's algorithms for the steps of this program")
    for step in schedule.program.steps:
        yield _comment(f"  {step}")
    yield _comment(f"on {source.system.name}. NCCL's example tuner plugin reads it:")
    yield f"#   NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={_file(source)}"
    yield f"# Every row uses {channels} channels; it is for its sizes and for communicators of so"
    yield "# many nodes and ranks alone."
    yield from (_comment(line) for line in wrap(describe_covered(source), 98))
    yield _comment(BUILD)
    yield "# A size is the larger of a rank's buffers; calls in one ncclGroup count together."
    yield "#"
    yield "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"


def _file(source: EmitSource) -> str:
    return f"nccl_tuner_{source.stamp}.csv"


def _comment(text: str) -> str:
    """Returns one line, short and plain enough for a reader that cuts lines at 256 bytes."""
    plain = text.encode("ascii", "replace").decode()
    return "# " + plain.replace("\n", " ").replace("\r", " ")[:200]
