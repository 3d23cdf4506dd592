"""A table for NCCL's example tuner plugin: which algorithm each communicator of a program uses.

A tuner cannot say a program, only how NCCL carries out one collective: so there are rows for the
leaves, the communicators of the schedule (at the size of the program, by what its price takes each
call by; then at all sizes), for the plain collective over the reduction group, and for everything
else. NCCL makes an all-to-all of sends, which no tuner is asked about. At all sizes ring or tree
is what our simulator finds faster for that communicator with all its replicas at work; its prices
are lines in the size, so the border is exact to the byte.

Facts, from NVIDIA/nccl plugins/tuner/example/plugin.c @ 35512d6f:

* names are lower case, unknown ones are taken for allreduce, ring and simple without a word;
  -1 is any number of nodes or ranks; lines of 256 characters or more are cut in two, comments too;
* the first row that fits wins, unless NCCL has marked its algorithm and protocol as impossible:
  then the search goes on. So the last rows offer other ways, or one channel would be all there is;
* channels: without a row that fits it is 1, and so it is with -1 (*nChannels is 1 before the
  search, and NCCL takes any number but 0 for an order: src/enqueue.cc getAlgoInfo). So every row
  names them, and only the caller knows how many;
* bytes: the larger of a member's buffers before and after, as our sizes are (an all-gather's and a
  reduce-scatter's is the whole: ncclFuncMaxSendRecvCount in src/include/enqueue.h). Calls of one
  ncclGroupStart/End that are within a factor 4 of each other are asked for with their sum.

The border between ring and tree is that of protocol Simple. The protocol is what NCCL's own model
finds fastest for the algorithm (src/graph/tuning.cc @ b6475625: base and hop latencies, shares of
the bandwidth, and of the caps the lowest, all below), at the bandwidth of our simulator; hops
inside a node count as NVLink. NCCL has trees for all-reduces only. Its NVLS, CollNet and PAT are
not offered, though our simulator prices the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil, floor, log2

import numpy as np

from grammar import Collective, Groups, Instruction, instructions
from hierarchies import Devices, InputError
from hierarchies.fabric import cast
from synth.collectives.algorithms import Algorithm, Choice
from synth.emit.launchers import host_level
from synth.emit.source import CannotExpressError, Files, Source
from synth.price.step_prices import Simulator
from synth.price.ways import Line
from synth.semantics.schedule import Exchange

MOST_BYTES = 2**64 - 1
MOST_CHANNELS = 64
_ANY = -1
NAMES = {
    Collective.BROADCAST: "broadcast",
    Collective.REDUCE: "reduce",
    Collective.ALL_GATHER: "allgather",
    Collective.REDUCE_SCATTER: "reducescatter",
    Collective.ALL_REDUCE: "allreduce",
}


@dataclass(frozen=True)
class Communicator:
    """One collective on communicators of so many ranks on so many nodes, by each algorithm."""

    collective: Collective
    nodes: int
    ranks: int
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Protocol:
    """What NCCL's model says of a protocol of one algorithm, in microseconds and shares.

    ``cap``: GB/s that all channels together (``per_channel``: each) can carry, for 1, 2 and more
    nodes, the lowest of what is published for several machines; none for Simple.
    """

    name: str
    base: float
    inside: float
    between: float
    cap: tuple[float, float, float] = (float("inf"),) * 3
    per_channel: bool = False


_LL_CAP, _LL128_CAP = (39.0, 22.5, 19.0), (20.0, 20.0, 20.0)
PROTOCOLS = {
    Algorithm.RING: (
        Protocol("ll", 6.6, 0.6, 2.7, _LL_CAP),
        Protocol("ll128", 14.0, 1.9, 4.0, _LL128_CAP, per_channel=True),
        Protocol("simple", 8.4, 3.4, 14.0),
    ),
    Algorithm.TREE: (
        Protocol("ll", 6.8, 0.6, 5.0, _LL_CAP),
        Protocol("ll128", 14.0, 1.25, 8.5, _LL128_CAP, per_channel=True),
        Protocol("simple", 0.0, 28.0, 28.0),
    ),
}


def write(source: Source) -> Files:
    """The table.

    Raises CannotExpressError for an all-to-all, InputError if the number of channels is not given.
    """
    if source.schedule.goal.apart:
        raise CannotExpressError("all-to-all: NCCL sends it, and asks no tuner how", where="step 1")
    channels = source.options.channels
    if channels is None:
        raise InputError(
            "the number of NCCL's channels is not known",
            where="nccl-tuner",
            hint='pass --channels N, the least of the "N coll channels" NCCL_DEBUG=INFO prints',
        )
    if not 1 <= channels <= MOST_CHANNELS:
        raise InputError(f"{channels} channels", where="--channels", hint=f"1 to {MOST_CHANNELS}")
    lines = [*_header(source, channels), *_priced(source, channels)]
    known = set()
    for communicator in (*leaves(source), *_flat(source)):
        who = (communicator.collective, communicator.nodes, communicator.ranks)
        if who not in known:
            lines += ["", f"# {_title(communicator)}", *_rows(communicator, channels)]
        known.add(who)
    lines += ["", "# everything else", *_rest(channels)]
    return {_file(source): "\n".join(lines) + "\n"}


def _priced(source: Source, channels: int) -> Iterator[str]:
    """Rows for the calls of the program at their sizes, by what its price takes them by."""
    yield from ("", "# the calls of the program at its size, as its price takes them")
    sent = (price for price in source.prices if price.algorithm is not None)
    for (step, groups), price in zip(_steps(source), sent, strict=True):
        name, size = NAMES[step.collective], price.size_bytes
        way = price.algorithm.value if price.algorithm in PROTOCOLS else ""
        for one in _communicators(source, step, groups):
            ends = floor(size), ceil(size)
            last = (way, price.protocol.value, channels, one.nodes, one.ranks)
            here = f"# {name} of {ends[1]} bytes: priced by what no row offers"
            yield _row(name, *ends, *last) if way else here


def leaves(source: Source) -> Iterator[Communicator]:
    """The communicators of the schedule's exchanges, in their order."""
    for step, groups in _steps(source):
        yield from _communicators(source, step, groups)


def _steps(source: Source) -> Iterator[tuple[Instruction, Devices]]:
    """The steps of the program, each with its groups of devices."""
    schedule = source.schedule
    exchanges = [phase for phase in schedule.phases if isinstance(phase, Exchange)]
    steps = instructions(schedule.program, schedule.reduction.tree, schedule.goal)
    for exchange, step in zip(exchanges, steps, strict=True):
        yield step, exchange.groups


def _flat(source: Source) -> Iterator[Communicator]:
    """The plain collective over the reduction group, if there is anything to do."""
    reduction = source.schedule.reduction
    if reduction.tree.digits:
        everything = Groups(tuple(range(len(reduction.tree.digits))))
        step = Instruction(Collective(source.schedule.goal.value), everything)
        yield from _communicators(source, step, reduction.grid())


def _communicators(source: Source, step: Instruction, groups: Devices) -> Iterator[Communicator]:
    """What a step runs on: one shape, or one for each number of nodes its groups are on."""
    roles = cast(source.schedule.reduction, step.groups.free, step.groups.zero)
    choices = [Choice.RING] + [Choice.TREE] * (step.collective.rounds > 1)
    lines = [Simulator(source.system, way).lines(step.collective, roles)[0] for way in choices]
    devices = source.system.hierarchy.devices_in_child(host_level(source))
    hosts = np.sort(groups // devices, axis=1)
    counts = 1 + (hosts[:, 1:] != hosts[:, :-1]).sum(axis=1)
    for nodes in sorted(set(counts.tolist())):
        yield Communicator(step.collective, nodes, groups.shape[1], tuple(lines))


def _rows(communicator: Communicator, channels: int) -> Iterator[str]:
    """Rows for all sizes: by algorithm, and for each by protocol."""
    name, nodes, ranks = NAMES[communicator.collective], communicator.nodes, communicator.ranks
    ways = [(line.latency_seconds, line.seconds_per_byte) for line in communicator.lines]
    for first, last, best in _envelope(ways, 0, MOST_BYTES):
        line = communicator.lines[best]
        protocols = PROTOCOLS[line.algorithm]
        costs = [_cost(communicator, line, protocol, channels) for protocol in protocols]
        for start, end, which in _envelope(costs, first, last):
            way = line.algorithm.value, protocols[which].name
            yield _row(name, start, end, *way, channels, nodes, ranks)


def _rest(channels: int) -> Iterator[str]:
    """Rows that fit anything: rings that are safe for large sizes, and what to do without them."""
    for collective, name in NAMES.items():
        for protocol in ("simple", "ll"):
            for algorithm in ["ring"] + ["tree"] * (collective.rounds > 1):
                yield _row(name, 0, MOST_BYTES, algorithm, protocol, channels, _ANY, _ANY)


def _row(*words: str | int) -> str:
    return ",".join(map(str, words))


def _envelope(
    lines: Sequence[tuple[float, float]], first: int, last: int
) -> Iterator[tuple[int, int, int]]:
    """The sizes from first to last cut where another line (start, slope) becomes the lowest.

    The first of the lowest is taken. Near a border every size is looked at, not computed.
    """

    def best(size: int) -> int:
        return min(range(len(lines)), key=lambda which: lines[which][0] + size * lines[which][1])

    looked = {first}
    for start, slope in lines:
        for other, steeper in lines:
            if steeper > slope and start > other:
                border = (start - other) / (steeper - slope)
                if border <= last:
                    looked.update(range(floor(border) - 1, floor(border) + 3))
    sizes = sorted(size for size in looked if first <= size <= last)
    cuts = [(next(alike), which) for which, alike in groupby(sizes, best)]
    for (begin, which), (after, _) in pairwise([*cuts, (last + 1, -1)]):
        yield begin, after - 1, which


def _cost(
    communicator: Communicator, line: Line, protocol: Protocol, channels: int
) -> tuple[float, float]:
    """Seconds at once and for each byte, by NCCL's model at our simulator's bandwidth."""
    nodes, ranks = communicator.nodes, communicator.ranks
    inside, between, volume = _hops(communicator, line.algorithm)
    latency = protocol.base + inside * protocol.inside + between * protocol.between
    whole = volume / line.seconds_per_byte
    cap = protocol.cap[min(nodes, 3) - 1] * 1e9 * (channels if protocol.per_channel else 1)
    share = _share(protocol.name, line.algorithm, communicator.collective, ranks / nodes, nodes)
    return latency * 1e-6, volume / min(whole * share, cap)


def _hops(communicator: Communicator, algorithm: Algorithm) -> tuple[float, float, float]:
    """Messages inside and between nodes that wait for each other; bytes a link carries per byte."""
    nodes, ranks = communicator.nodes, communicator.ranks
    if algorithm is Algorithm.TREE:
        return 2 * (ranks / nodes - 1), 2 * floor(log2(nodes)), 2.0
    if communicator.collective.rooted:  # a chain, never waited for longer than for one message
        return float(nodes == 1), float(nodes > 1), 1.0
    rounds = communicator.collective.rounds
    return rounds * (ranks - nodes), rounds * (nodes - 1), rounds * (ranks - 1) / ranks


def _share(
    protocol: str, algorithm: Algorithm, collective: Collective, per_node: float, nodes: int
) -> float:
    """The part of the bandwidth that a protocol's payload gets."""
    if protocol == "simple":
        return 1.0
    if algorithm is Algorithm.TREE:
        return 1 / 3.8 if protocol == "ll" else (7 / 9 if nodes == 1 else 120 / 128)
    if protocol == "ll":
        adds = collective.reduces and not collective.in_pieces
        return 1 / 4 if nodes > 1 or adds else 1 / 3
    return 0.7 if per_node < 2 else 0.92


def _header(source: Source, channels: int) -> Iterator[str]:
    schedule = source.schedule
    yield _comment(f"{source.options.made_by}: NCCL's algorithms for the steps of this program")
    for step in schedule.program.steps:
        yield _comment(f"  {step}")
    yield _comment(f"on {source.system.name}. NCCL's example tuner plugin reads it:")
    yield f"#   NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={_file(source)}"
    yield f"# Every row uses {channels} channels, and the first row that fits wins."
    yield "# At other sizes ring or tree is our simulator's choice, protocols that of the model in"
    yield "# NCCL's src/graph/tuning.cc, with NVLink inside nodes. NVLS, CollNet and PAT are not"
    yield "# offered here, so with this table not used: measure with and without it."
    yield "# A size is the larger of a rank's buffers; calls in one ncclGroup count together."
    yield "#"
    yield "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"


def _file(source: Source) -> str:
    return f"nccl_tuner_{source.stamp}.csv"


def _comment(text: str) -> str:
    """One line, short and plain enough for a reader that cuts lines at 256 bytes."""
    plain = text.encode("ascii", "replace").decode()
    return "# " + plain.replace("\n", " ").replace("\r", " ")[:200]


def _title(communicator: Communicator) -> str:
    ways = " or ".join(line.algorithm.value for line in communicator.lines)
    nodes = "1 node" if communicator.nodes == 1 else f"{communicator.nodes} nodes"
    return f"{communicator.collective.value}, {communicator.ranks} ranks on {nodes}: {ways}"
