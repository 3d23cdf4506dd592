"""Files in C for NCCL: compiled with stand-ins for its headers, and driven as NCCL drives them.

The stand-ins have the names, types and order of fields that ``calls`` and ``plugin`` use,
as they were read in NVIDIA/nccl; nothing else of NCCL.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis, Hierarchy, InputError, Level, Placement, Reduction
from strategies import source
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.emit import nccl_tuner
from synth.collective.emit.nccl import calls
from synth.collective.emit.nccl import plugin as tuner_plugin
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource
from synth.collective.semantics.schedule import Exchange

CC = shutil.which("cc")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")
HOUSE = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
NCCL_H = """
#include <stddef.h>
#include <stdio.h>
#define NCCL_VERSION(X, Y, Z) ((X) * 10000 + (Y) * 100 + (Z))
#ifndef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE NCCL_VERSION(2, 31, 2)
#endif
typedef enum { ncclSuccess = 0 } ncclResult_t;
typedef enum { ncclFloat = 7 } ncclDataType_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin } ncclRedOp_t;
typedef struct comm* ncclComm_t;
typedef void* cudaStream_t;
typedef struct { size_t size; int minCTAs, maxCTAs; const char* algSelection; } ncclCollConfig_t;
#define NCCL_COLLCONFIG_INITIALIZER {sizeof(ncclCollConfig_t), -1, -1, NULL}
static ncclResult_t told(const char* name, size_t count, int op, const ncclCollConfig_t* config) {
  printf("%s %zu %d %s %d\\n", name, count, op,
         config->algSelection ? config->algSelection : "-", config->maxCTAs);
  return ncclSuccess;
}
#define COMMON const void* s, void* r, size_t n, ncclDataType_t t
#define LAST ncclComm_t c, cudaStream_t q, const ncclCollConfig_t* f
#define UNUSED (void)s, (void)r, (void)t, (void)c, (void)q
static ncclResult_t ncclAllReduceConfig(COMMON, ncclRedOp_t o, LAST) {
  UNUSED; return told("all-reduce", n, o, f); }
static ncclResult_t ncclReduceScatterConfig(COMMON, ncclRedOp_t o, LAST) {
  UNUSED; return told("reduce-scatter", n, o, f); }
static ncclResult_t ncclReduceConfig(COMMON, ncclRedOp_t o, int root, LAST) {
  UNUSED; return told("reduce", n, o + root, f); }
static ncclResult_t ncclBroadcastConfig(COMMON, int root, LAST) {
  UNUSED; return told("broadcast", n, root - 1, f); }
static ncclResult_t ncclAllGatherConfig(COMMON, LAST) {
  UNUSED; return told("all-gather", n, -1, f); }
static ncclResult_t ncclAlltoAllConfig(COMMON, LAST) {
  UNUSED; return told("all-to-all", n, -1, f); }
static ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t* g, void* config) {
  (void)c, (void)g, (void)config; printf("split %d %d\\n", color, key); return ncclSuccess; }
"""
TUNER_H = """
#include <stdint.h>
#include <stdlib.h>
typedef enum { ncclSuccess = 0, ncclSystemError = 2 } ncclResult_t;
typedef enum { ncclFuncBroadcast, ncclFuncReduce, ncclFuncAllGather, ncclFuncReduceScatter,
               ncclFuncAllReduce } ncclFunc_t;
typedef void (*ncclDebugLogger_t)(void);
typedef struct { int domains; } ncclNvlDomainInfo_v5_t;
typedef struct { double numbers; } ncclTunerConstants_v%(number)d_t;
enum { NCCL_ALGO_TREE = 0, NCCL_ALGO_RING = 1 };
enum { NCCL_PROTO_LL = 0, NCCL_PROTO_LL128 = 1, NCCL_PROTO_SIMPLE = 2 };
#define NCCL_ALGO_PROTO_IGNORE -1.0
typedef struct {
  const char* name;
  ncclResult_t (*init)(void**, uint64_t, size_t, size_t, ncclDebugLogger_t,
                       ncclNvlDomainInfo_v5_t*, ncclTunerConstants_v%(number)d_t*);
  ncclResult_t (*getCollInfo)(void*, ncclFunc_t, size_t, int, float**, int, int, int, int*);
  ncclResult_t (*finalize)(void*);
%(chunks)s} ncclTuner_v%(number)d_t;
"""
CHUNKS = "  ncclResult_t (*getChunkSize)(void*, ncclFunc_t, size_t, int, int, int, size_t*);\n"
FUNCTIONS = {"broadcast": 0, "reduce": 1, "allgather": 2, "reducescatter": 3, "allreduce": 4}


def made(
    text: str,
    goal: Goal = Goal.ALL_REDUCE,
    ways: Sequence[tuple[Algorithm, Protocol]] = (),
    version: str = "",
) -> EmitSource:
    """A program over two nodes of four GPUs, of 64 MiB, its calls priced by these ways."""
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    reduction = Reduction(Placement(hierarchy, (Axis("data", 8),), ((2, 4),)), ("data",))
    given = source(text, reduction, 2**26, goal=goal)
    chosen = iter(ways)
    prices = tuple(
        replace(price, algorithm=way[0], protocol=way[1])
        if price.algorithm and (way := next(chosen, None))
        else price
        for price in given.prices
    )
    return replace(given, prices=prices, system=replace(given.system, nccl=version))


def run(folder: Path, text: str, body: str, *more: str) -> list[str]:
    """The lines that a main function prints which includes a header."""
    (folder / "nccl.h").write_text(NCCL_H)
    (folder / "program.h").write_text(text)
    (folder / "main.c").write_text(f'#include "program.h"\nint main(void) {{\n{body}\n}}\n')
    build = [str(CC), *FLAGS, *more, "-I", str(folder), "-o", str(folder / "main"), "main.c"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True, text=True)
    out = subprocess.run([str(folder / "main")], check=True, capture_output=True, text=True)
    return out.stdout.splitlines()


RING, TREE, NVLS = Algorithm.RING, Algorithm.TREE, Algorithm.IN_NETWORK
LL, LL128, SIMPLE = Protocol.LL, Protocol.LL128, Protocol.SIMPLE


def test_each_call_is_made_by_its_own_algorithm(tmp_path: Path) -> None:
    given = made(HOUSE, ways=[(RING, LL128), (TREE, LL), (RING, SIMPLE)])
    [(name, text)] = calls.write(given).items()
    stem = name.removesuffix(".h")
    assert isinstance(text, str)
    body = "".join(f"{stem}_call{at}(0, 0, {at}00, ncclFloat, 0, 0);" for at in (1, 2, 3))
    assert run(tmp_path, text, body) == [
        "reduce-scatter 100 0 RING_LL128 -1",
        "all-reduce 200 0 TREE_LL -1",
        "all-gather 300 -1 RING_SIMPLE -1",
    ]


def test_the_splits_are_the_groups_of_the_program(tmp_path: Path) -> None:
    """Colors and keys of all ranks, put together again; the first and last call share a split."""
    given = made(HOUSE)
    [(name, text)] = calls.write(given).items()
    stem = name.removesuffix(".h")
    assert isinstance(text, str)
    body = f"for (int n = 0; n < 2; n++) for (int r = 0; r < 8; r++) {stem}_split(0, r, n, 0);"
    lines = run(tmp_path, text, body)
    first, second = (
        [tuple(map(int, line.split()[1:])) for line in part] for part in (lines[:8], lines[8:])
    )
    groups = [p.groups for p in given.schedule.phases if isinstance(p, Exchange)]
    assert f"{stem.upper()}_GROUPS 2" in text
    for rows, expected in ((first, groups[0]), (second, groups[1]), (first, groups[2])):
        found: dict[int, dict[int, int]] = {}
        for rank, (color, key) in enumerate(rows):
            found.setdefault(color, {})[key] = rank
        ordered = [[members[key] for key in sorted(members)] for members in found.values()]
        assert sorted(ordered) == sorted(expected.tolist())


def test_roots_operations_and_ranks_without_a_call(tmp_path: Path) -> None:
    text = "reduce node inside; all-reduce node master(root); broadcast node inside"
    given = made(text, ways=[(RING, LL)] * 3)
    given = replace(given, schedule=replace(given.schedule, op=ReductionKind.MAX))
    given = replace(given, options=EmitOptions(channels=8))
    [(name, header)] = calls.write(given).items()
    stem = name.removesuffix(".h")
    assert isinstance(header, str)
    body = "".join(f"{stem}_call{at}(0, 0, 1, ncclFloat, 0, 0);" for at in (1, 2, 3))
    body += f"for (int r = 0; r < 8; r++) {stem}_split(0, r, 1, 0);"
    lines = run(tmp_path, header, body)
    assert lines[:3] == [
        "reduce 1 2 RING_LL 8",
        "all-reduce 1 2 RING_LL 8",
        "broadcast 1 -1 RING_LL 8",
    ]
    colors = [int(line.split()[1]) for line in lines[3:]]
    assert [rank for rank, color in enumerate(colors) if color >= 0] == [0, 4]


@pytest.mark.parametrize(
    ("program", "goal", "selection"),
    [
        ("all-reduce root inside", Goal.ALL_REDUCE, "NVLSTREE_SIMPLE"),
        ("all-gather root inside", Goal.ALL_GATHER, "NVLS_SIMPLE"),
    ],
)
def test_switches_that_reduce_are_nvls_in_a_node_and_nvls_tree_over_several(
    program: str, goal: Goal, selection: str
) -> None:
    [text] = calls.write(made(program, goal, [(NVLS, SIMPLE)])).values()
    assert f'algSelection = "{selection}"' in str(text)


def test_an_all_to_all_selects_nothing(tmp_path: Path) -> None:
    [(name, text)] = calls.write(made("all-to-all root inside", Goal.ALL_TO_ALL)).items()
    assert isinstance(text, str)
    body = f"{name.removesuffix('.h')}_call1(0, 0, 4, ncclFloat, 0, 0);"
    assert run(tmp_path, text, body) == ["all-to-all 4 -1 - -1"]


def test_an_older_header_and_a_stated_older_version_are_refused(tmp_path: Path) -> None:
    [text] = calls.write(made(HOUSE)).values()
    assert isinstance(text, str)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(tmp_path, text, "", "-DNCCL_VERSION_CODE=23007")
    assert "NCCL 2.31.2 or later is needed" in failed.value.stderr
    assert calls.write(made(HOUSE, version="2.31.2"))
    with pytest.raises(InputError, match=r"NCCL 2.30.7 takes no configuration of a call"):
        calls.write(made(HOUSE, version="2.30.7"))


def test_an_algorithm_that_nccl_lacks_is_refused() -> None:
    given = made("all-reduce root inside", ways=[(Algorithm.HALVING_DOUBLING, SIMPLE)])
    with pytest.raises(CannotExpressError, match="NCCL has no algorithm"):
        calls.write(given)


class Interface(ctypes.Structure):
    """The exported symbol: a name and functions."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("init", ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint64, ctypes.c_size_t,
            ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
        ("choose", ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int,
            ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
            ctypes.POINTER(ctypes.c_int))),
        ("finalize", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
    )  # fmt: skip


def load_plugin(folder: Path, text: str, number: int) -> Interface:
    chunks = CHUNKS if number > 5 else ""
    (folder / "tuner.h").write_text(TUNER_H % {"number": number, "chunks": chunks})
    (folder / "plugin.c").write_text(text)
    library = folder / f"plugin{number}.so"
    build = [str(CC), *FLAGS, "-Wno-missing-field-initializers", "-shared", "-fPIC"]
    subprocess.run([*build, "-I", str(folder), "-o", str(library), "plugin.c"], cwd=folder,
                   check=True)  # fmt: skip
    return Interface.in_dll(ctypes.CDLL(str(library)), f"ncclTunerPlugin_v{number}")


def ask(
    plugin: Interface, nodes: int, ranks: int, function: str, size: int, *lacking: tuple[int, int]
) -> tuple[list[tuple[int, int]], int]:
    """The entries of NCCL's table of costs that the plugin sets, and its number of channels."""
    context, channels = ctypes.c_void_p(), ctypes.c_int(0)
    assert plugin.init(ctypes.byref(context), 1, ranks, nodes, None, None, None) == 0
    costs = np.full((7, 3), 10.0, dtype=np.float32)
    for entry in lacking:
        costs[entry] = -1.0
    given = (context, FUNCTIONS[function], size, 1, costs.ctypes.data, 7, 3, 0)
    assert plugin.choose(*given, ctypes.byref(channels)) == 0
    assert plugin.finalize(context) == 0
    return [(int(a), int(p)) for a, p in np.argwhere(costs == 0.0)], channels.value


@pytest.mark.parametrize(
    ("version", "number"),
    [("", 5), ("2.28.3", 5), ("2.30.7", 6), ("2.31.2", 6), ("2.32.6", 7)],
)
def test_the_plugin_chooses_the_way_of_each_call_and_of_no_other(
    version: str, number: int, tmp_path: Path
) -> None:
    given = made(HOUSE, ways=[(RING, LL128), (TREE, LL), (RING, SIMPLE)], version=version)
    [text] = tuner_plugin.write(given).values()
    plugin = load_plugin(tmp_path, str(text), number)
    assert ask(plugin, 1, 4, "reducescatter", 2**26) == ([(1, 1)], 0)
    assert ask(plugin, 2, 2, "allreduce", 2**24) == ([(0, 0)], 0)
    assert ask(plugin, 1, 4, "allgather", 2**26) == ([(1, 2)], 0)
    for nodes, ranks, function, size in (
        (1, 4, "reducescatter", 2**25),
        (1, 4, "allreduce", 2**24),
        (2, 8, "reducescatter", 2**26),
        (2, 4, "reducescatter", 2**26),
        (1, 4, "broadcast", 2**26),
    ):
        assert ask(plugin, nodes, ranks, function, size) == ([], 0)
    assert ask(plugin, 2, 2, "allreduce", 2**24, (0, 0)) == ([], 0), "impossible, so untouched"


def test_the_plugin_and_the_table_have_the_same_rows() -> None:
    given = replace(made(HOUSE), options=EmitOptions(channels=4))
    [table] = nccl_tuner.write(given).values()
    [plugin] = tuner_plugin.write(given).values()
    rows = [line.split(",") for line in str(table).splitlines() if not line.startswith("#")]
    lines = re.findall(r"^  \{nccl.*\},$", str(plugin), re.MULTILINE)
    assert len(rows) == len(lines) == 3
    for (_, first, last, algorithm, protocol, _, nodes, ranks), line in zip(
        rows, lines, strict=True
    ):
        numbers = f"{first}, {last}, {nodes}, {ranks}"
        assert f"{numbers}, NCCL_ALGO_{algorithm.upper()}, NCCL_PROTO_{protocol.upper()}" in line
    assert "*channels = 4;" in str(plugin)


@pytest.mark.parametrize(("version", "asks"), [("2.27.7", "version 4"), ("2.18.6", "no tuner")])
def test_a_version_with_an_older_interface_gets_the_table(version: str, asks: str) -> None:
    with pytest.raises(InputError, match=f"NCCL {version} asks .*{asks}") as error:
        tuner_plugin.write(made(HOUSE, version=version))
    assert "nccl-tuner" in error.value.hint
