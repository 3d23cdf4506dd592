"""An example question for every verb, shown in /openapi.json and asked by the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NESTED = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
_COLLECTIVE = {"system": "p2-a100:2", "axes": {"data": 32}, "reduce": ["data"]}
_MATRIX = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tNV12\tNV12\t0-31\t0
GPU1\tNV12\t X \tNV12\tNV12\t0-31\t0
GPU2\tNV12\tNV12\t X \tNV12\t32-63\t1
GPU3\tNV12\tNV12\tNV12\t X \t32-63\t1
"""
_LOG = """\
# source: alcf-nccl-tests, results_sophia/n2.g8/2024-10-15-11-21-15/all_reduce_output.dat.2
# nodes: 2
# ranks: 16
# collective: all_reduce
bytes,seconds,inplace_seconds
1048576,8.53e-05,8.321e-05
16777216,0.0002959,0.0002955
268435456,0.002759,0.0027578
1073741824,0.011298,0.011277
"""
_STEP = """\
step mlp
in weight: f32[16,4] parameter
in features: f32[8,16] batch
v0: f32[8,4] = dot_general(features, weight) dimension_numbers=(((1),(0)),((),())) @mlp.py:3
v1: f32[8,4] = max(v0, 0.0:f32) @mlp.py:3
out v1
"""
_TRAINED_STEP = """\
step mlp
in weight: f32[16,4] parameter
in features: f32[8,16] batch
v0: f32[8,4] = dot_general(features, weight) dimension_numbers=(((1),(0)),((),())) @mlp.py:3
v1: f32[16,4] = dot_general(features, v0) dimension_numbers=(((0),(0)),((),())) @mlp.py:3
v2: f32[16,4] = mul(v1, 0.1:f32) @mlp.py:4
v3: f32[16,4] = sub(weight, v2) @mlp.py:4
out v3 -> weight
"""

_KEPT_ANSWER = {
    "system": {"name": "pair", "levels": [{"name": "gpu", "count": 2}]},
    "reduce": ["data"],
    "bytes": 1024,
    "answers": [{"rank": 1, "program": "", "seconds": 1e-5}],
}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "systems": {"system": "dgx-h100:4"},
    "import": {
        "kind": "nvidia-smi",
        "files": [{"name": "topo.txt", "text": _MATRIX}],
        "gpu": "a100",
        "nodes": 4,
    },
    "graph": {"system": "dgx-h100:2", "format": "dot"},
    "place": {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}},
    "count": {"digits": 2},
    "top": {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}, "reduce": ["data"], "k": 3},
    "sweep": {
        "systems": ["dgx-h100:4", "dgx-a100:4"],
        "axes": {"data": 32},
        "reduce": ["data"],
        "max_steps": 3,
        "stripes": False,
        "k": 1,
    },
    "cost": {**_COLLECTIVE, "slow": {"node1": 0.5}, "max_steps": 3, "stripes": False},
    "plan": {"system": "dgx-h100:4", "job": "gpt-18b-3d", "k": 1},
    "job": {
        "axes": {"data": "any", "tensor": "1|2|4|8"},
        "layers": 40,
        "hidden": 5120,
        "heads": 40,
        "vocabulary": 32000,
        "sequence": 2048,
        "micro_batches": 8,
    },
    "order": {"order": "1f1b", "stages": 4, "microbatches": 8, "transfer": 0.4},
    "diff": {"first": _KEPT_ANSWER, "second": {**_KEPT_ANSWER, "bytes": 2048}},
    "check": {"program": _NESTED.replace("node", "d0"), "tree": [2, 16]},
    "lower": {"program": _NESTED, **_COLLECTIVE},
    "time": {"program": _NESTED, **_COLLECTIVE, "bytes": "64MiB"},
    "emit": {"program": _NESTED, **_COLLECTIVE, "target": "torch"},
    "run": {
        "program": "reduce-scatter root inside; all-gather root inside",
        "system": "dgx-h100:1",
        "axes": {"data": 8},
        "reduce": ["data"],
        "bytes": "64KiB",
        "backend": "numpy",
    },
    "calibrate": {"system": "dgx-h100:2", "plan": True},
    "trace": {"model": {"name": "mlp.step", "text": _STEP}},
    "shard": {
        "model": {"name": "mlp.step", "text": _STEP},
        "axes": {"data": 8},
        "plan": "batch over data",
        "system": "dgx-h100:1",
    },
    "simulate": {
        "model": {"name": "mlp.step", "text": _STEP},
        "plan": "data=8; batch over data; zero=1",
        "system": "dgx-h100:1",
    },
    "buckets": {
        "model": {"name": "mlp.step", "text": _TRAINED_STEP},
        "system": "dgx-h100:1",
    },
    "train": {
        "model": {"name": "mlp.step", "text": _STEP},
        "plan": "data=4; batch over data",
        "runtime": "torch",
    },
    "profile": {
        "model": {"name": "mlp.step", "text": _STEP},
        "plan": "data=4; batch over data",
        "runtime": "torch",
        "measure": False,
    },
    "doctor": {"system": "dgx-a100:2", "files": [{"name": "all_reduce.csv", "text": _LOG}]},
}
