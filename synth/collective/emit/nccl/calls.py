"""The calls of a program in C, each with its own algorithm: NCCL's configuration of a call.

NCCL_ALGO is of every call of a process. From NCCL 2.31 on a call may state its own algorithm, in an
``ncclCollConfig_t``; so each call of the program runs as priced, and no other call of the job
changes. The file is a header: it has the groups of each call as colors and keys of
``ncclCommSplit``, and a function for each call. What moves inside a device between the calls is the
caller's.

Facts, from NVIDIA/nccl v2.31.2 and v2.32.6, src/nccl.h.in, src/config/algorithm_registry.cc and
src/enqueue/enqueue.cc:

* ``algSelection`` has names such as RING_LL128; a name selects all that begin with it. With
  ``forceAlgSelection`` 1, which is the default, a call that cannot run so is an error;
* NCCL_ALGO and NCCL_PROTO win where they name the collective;
* all ranks of a call must give the same; NCCL checks each rank alone;
* an all-to-all has no algorithms to choose from.

PyTorch 2.13 passes no such configuration (pytorch/pytorch pull request 194826 is open); nccl4py
takes it as ``config=NCCLCollConfig(alg_selection=...)``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grammar import Collective
from hierarchies import Devices, InputError
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.nccl_model import NVLS, NVLS_TREE, RING, SPELLINGS, TREE
from synth.collective.algorithms.nccl_versions import PER_CALL, stated_by, version_of
from synth.collective.emit.launchers import host_level
from synth.collective.emit.source import (
    CannotExpressError,
    EmitSource,
    Files,
    c_comment,
    kept_default,
)
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.schedule import Exchange

_CALLS = {
    Collective.BROADCAST: ("Broadcast", "count", "0, "),
    Collective.REDUCE: ("Reduce", "count", "{op}, 0, "),
    Collective.ALL_GATHER: ("AllGather", "sendcount", ""),
    Collective.REDUCE_SCATTER: ("ReduceScatter", "recvcount", "{op}, "),
    Collective.ALL_REDUCE: ("AllReduce", "count", "{op}, "),
    Collective.ALL_TO_ALL: ("AlltoAll", "count", ""),
}
"""NCCL's name of a collective, what its count is, and its arguments before the communicator; the
first member of a group is the root."""
_PYTHON = (
    "PyTorch passes no configuration of a call. nccl4py does: give a collective of a Communicator "
    "config=NCCLCollConfig(alg_selection=...), with the names below."
)
_NAMES = {Algorithm.RING: RING, Algorithm.TREE: TREE}


def write(source: EmitSource) -> Files:
    """Returns ``collsynth_nccl_STAMP.h``.

    Raises InputError where a version before ``PER_CALL`` is stated, and CannotExpressError for a
    call whose price is by an algorithm that NCCL does not have.
    """
    version = version_of(source.system)
    if stated_by(source.system) != "default" and version < PER_CALL:
        raise InputError(
            f"NCCL {version} takes no configuration of a call",
            where="--nccl",
            hint=f"{PER_CALL} or later does; nccl-tuner and nccl-plugin choose by size and group",
        )
    name = f"collsynth_nccl_{source.stamp}"
    return {f"{name}.h": "\n".join([*_header(source, name), *_body(source, name)]) + "\n"}


def _header(source: EmitSource, name: str) -> Iterator[str]:
    schedule, system, order = source.schedule, source.system, source.options.rank_order.value
    paragraphs = [
        f"The calls of a program for NCCL {PER_CALL} or later, each with its own algorithm.",
        *(f"  {step}" for step in schedule.program.steps),
        f"On {system.name}, for {schedule.payload_bytes} bytes. Order of ranks: {order}.",
        *kept_default(source),
        "Unset NCCL_ALGO and NCCL_PROTO: they win. Every rank must make the same calls.",
        _PYTHON,
        f"Written by {source.options.made_by}.",
    ]
    yield from c_comment(paragraphs)
    yield from (f"#ifndef {name.upper()}_H", f"#define {name.upper()}_H", "")
    yield "#include <nccl.h>"
    numbers = ", ".join(map(str, PER_CALL))
    yield f"#if NCCL_VERSION_CODE < NCCL_VERSION({numbers})"
    yield f'#error "NCCL {PER_CALL} or later is needed: a call has no configuration before"'
    yield "#endif"


def _body(source: EmitSource, name: str) -> Iterator[str]:
    exchanges = [phase for phase in source.schedule.phases if isinstance(phase, Exchange)]
    prices = [price for price in source.prices if price.algorithm is not None]
    split: dict[bytes, int] = {}
    calls: list[str] = []
    tables: list[str] = []
    for at, (exchange, price) in enumerate(zip(exchanges, prices, strict=True), 1):
        groups = source.mesh.ranks(exchange.groups)
        number = split.setdefault(groups.tobytes(), len(split))
        if number == len(tables):
            tables.append(_split_rows(groups, source.system.devices))
        calls += ["", *_call(source, name, at, number, exchange, price)]
    yield from ("", f"#define {name.upper()}_GROUPS {len(tables)}")
    if tables:
        yield f"/* The color and the key of each rank, for each of {len(tables)} splits. */"
        ranks = source.system.devices
        yield f"static const int {name}_split_of[{len(tables)}][{ranks}][2] = {{"
        yield from (f"  {{{rows}}}," for rows in tables)
        yield from ("};", "")
        yield "/* Every rank makes all splits, in order; a rank without a color gets no group. */"
        yield (
            f"static inline ncclResult_t {name}_split(ncclComm_t world, int rank, int number, "
            "ncclComm_t* group) {"
        )
        yield f"  const int* own = {name}_split_of[number][rank];"
        yield "  return ncclCommSplit(world, own[0], own[1], group, NULL);"
        yield "}"
    yield from calls
    yield from ("", "#endif")


def _split_rows(groups: Devices, ranks: int) -> str:
    """Returns color and key of every rank; -1 is NCCL_SPLIT_NOCOLOR."""
    rows = np.full((ranks, 2), (-1, 0))
    count, members = groups.shape
    rows[groups.reshape(-1), 0] = np.repeat(np.arange(count), members)
    rows[groups.reshape(-1), 1] = np.tile(np.arange(members), count)
    return ", ".join(f"{{{color}, {key}}}" for color, key in rows.tolist())


def _call(
    source: EmitSource,
    name: str,
    at: int,
    number: int,
    exchange: Exchange,
    price: InstructionPrice,
) -> Iterator[str]:
    function, count, more = _CALLS[exchange.collective]
    selection = _select(source, at, exchange, price)
    by = f" by {selection}" if selection else ""
    members = exchange.groups.shape[1]
    yield (
        f"/* Call {at}: {exchange.collective.value}{by}, in the {members} ranks of split {number}; "
        f"{exchange.size_bytes} bytes as priced. */"
    )
    yield f"static inline ncclResult_t {name}_call{at}(const void* sendbuff, void* recvbuff,"
    yield f"    size_t {count}, ncclDataType_t datatype, ncclComm_t group, cudaStream_t stream) {{"
    yield "  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;"
    if selection:
        yield f'  config.algSelection = "{selection}";'
    if channels := source.options.channels:
        yield f"  config.minCTAs = config.maxCTAs = {channels};"
    arguments = more.format(op=f"nccl{source.schedule.op.name.title()}")
    yield f"  return nccl{function}Config(sendbuff, recvbuff, {count}, datatype,"
    yield f"      {arguments}group, stream, &config);"
    yield "}"


def _select(source: EmitSource, at: int, exchange: Exchange, price: InstructionPrice) -> str:
    """Returns the selection of a call, as RING_LL128; empty for an all-to-all."""
    if exchange.collective.apart:
        return ""
    if price.algorithm is Algorithm.IN_NETWORK:
        devices = source.system.hierarchy.devices_in_child(host_level(source))
        hosts = exchange.groups // devices
        one_node = bool((hosts == hosts[:, :1]).all())
        named = NVLS if one_node or exchange.collective.rounds == 1 else NVLS_TREE
    elif price.algorithm in _NAMES:
        named = _NAMES[price.algorithm]
    else:
        how = price.algorithm.value if price.algorithm else "nothing"
        why = f"{exchange.collective.value}: NCCL has no algorithm {how}"
        raise CannotExpressError(why, where=f"step {at}")
    return f"{SPELLINGS[named].upper()}_{price.protocol.value.upper()}"
