"""A tuner plugin for NCCL in C, with the algorithm of each call of a program in it.

The rows are those of ``nccl_tuner``, whose table NCCL's example plugin reads. This plugin needs no
table, leaves all other calls alone, and has no number of channels unless one is given: NCCL starts
with 0 and takes any other number for an order. It exports the newest interface that the version
asks for. From 5 on they differ in the types of their constants, and from 6 on they may set sizes of
chunks, which this one does not (NVIDIA/nccl, src/include/plugin/tuner/tuner_v5.h to tuner_v7.h).
NCCL later than the version still loads it: it asks for older interfaces in turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from hierarchies import InputError
from synth.collective.algorithms.nccl_versions import TUNERS, tuner_interface, version_of
from synth.collective.emit.nccl_tuner import describe_covered, find_rows
from synth.collective.emit.source import (
    CannotExpressError,
    EmitSource,
    Files,
    c_comment,
    kept_default,
)

_OLDEST = 5
_FUNCTIONS = {
    "broadcast": "ncclFuncBroadcast",
    "reduce": "ncclFuncReduce",
    "allgather": "ncclFuncAllGather",
    "reducescatter": "ncclFuncReduceScatter",
    "allreduce": "ncclFuncAllReduce",
}
_PLUGIN = """\
#include "tuner.h"

struct row {{
  ncclFunc_t function;
  size_t from, to, nodes, ranks; /* bytes, both ends included */
  int algorithm, protocol;
}};
static const struct row rows[] = {{
{rows}
}};
struct shape {{
  size_t ranks, nodes;
}};

static ncclResult_t start(void** context, uint64_t id, size_t ranks, size_t nodes,
                          ncclDebugLogger_t log, ncclNvlDomainInfo_v5_t* domains,
                          ncclTunerConstants_v{number}_t* constants) {{
  struct shape* own = malloc(sizeof(*own));
  (void)id, (void)log, (void)domains, (void)constants;
  if (!own) return ncclSystemError;
  own->ranks = ranks;
  own->nodes = nodes;
  *context = own;
  return ncclSuccess;
}}

static ncclResult_t choose(void* context, ncclFunc_t function, size_t bytes, int operations,
                           float** costs, int algorithms, int protocols, int registered,
                           int* channels) {{
  const struct shape* own = context;
  float* table = (float*)costs;
  (void)operations, (void)registered, (void)channels;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {{
    const struct row* row = &rows[i];
    if (row->function != function || bytes < row->from || bytes > row->to) continue;
    if (row->nodes != own->nodes || row->ranks != own->ranks) continue;
    if (row->algorithm >= algorithms || row->protocol >= protocols) continue;
    float* cost = &table[row->algorithm * protocols + row->protocol];
    if (*cost == NCCL_ALGO_PROTO_IGNORE) continue; /* impossible on this communicator */
    *cost = 0.0;
{channels}    return ncclSuccess;
  }}
  return ncclSuccess;
}}

static ncclResult_t end(void* context) {{
  free(context);
  return ncclSuccess;
}}

const ncclTuner_v{number}_t ncclTunerPlugin_v{number} = {{
  .name = "collsynth",
  .init = start,
  .getCollInfo = choose,
  .finalize = end,
}};
"""


def write(source: EmitSource) -> Files:
    """Returns ``nccl_tuner_STAMP.c``.

    Raises CannotExpressError as ``nccl_tuner.write``, and InputError for a version whose interface
    is older than 5.
    """
    version = version_of(source.system)
    number = tuner_interface(version)
    if number < _OLDEST:
        asks = f"for version {number} of the interface" if number else "no tuner"
        raise InputError(
            f"NCCL {version} asks {asks}",
            where="--nccl",
            hint=f"{TUNERS[_OLDEST]} or later; nccl-tuner writes a table for NCCL's own plugin",
        )
    channels = source.options.channels
    ordered = "" if channels is None else f"    *channels = {channels};\n"
    rows = "\n".join(_rows(source))
    if not rows:
        raise CannotExpressError("nothing: the program has no calls", where="the program")
    body = _PLUGIN.format(rows=rows, number=number, channels=ordered)
    name = f"nccl_tuner_{source.stamp}"
    return {f"{name}.c": "\n".join([*_header(source, name, number), body])}


def _rows(source: EmitSource) -> Iterator[str]:
    for who, way in find_rows(source).items():
        name, first, last, nodes, ranks = who.split(",")
        algorithm, protocol = way.upper().split(",")
        yield (
            f"  {{{_FUNCTIONS[name]}, {first}, {last}, {nodes}, {ranks}, "
            f"NCCL_ALGO_{algorithm}, NCCL_PROTO_{protocol}}},"
        )


def _header(source: EmitSource, name: str, number: int) -> Iterator[str]:
    schedule = source.schedule
    build = f"gcc -shared -fPIC -I NCCL/plugins/tuner/example/nccl -o lib{name}.so {name}.c"
    paragraphs = [
        f"A tuner plugin for NCCL, version {number} of its interface: the algorithms of",
        *(f"  {step}" for step in schedule.program.steps),
        f"on {source.system.name}, for calls of their sizes among as many nodes and ranks alone.",
        *kept_default(source),
        describe_covered(source),
        "A size is the larger of a rank's buffers; calls in one ncclGroup count together.",
        "Build it with the headers of NCCL's example plugin, and name it to every process:",
        f"  {build}",
        f"  NCCL_TUNER_PLUGIN=$PWD/lib{name}.so",
        f"Written by {source.options.made_by}.",
    ]
    return c_comment(paragraphs)
