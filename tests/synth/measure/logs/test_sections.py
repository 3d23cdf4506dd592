"""JSON and CSV of several runs in one file: each forced by its own command line."""

from __future__ import annotations

import json
from itertools import product

import pytest

from synth.collective.algorithms.nccl_model import SPELLINGS
from synth.measure.logs.reading import parse_logs

HEAD = (
    "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, algbw, busbw, "
    "#wrong"
)


def rows(scale: float) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for size in (1 << 20, 1 << 22, 1 << 24):
        took = round(scale * size / 1e5, 3)
        rate = size / took / 1e3
        found.append(
            {
                "name": "AllReduce",
                "nodes": 2,
                "ranks": 8,
                "ranksPerNode": 4,
                "gpusPerRank": 1,
                "size": size,
                "type": "float",
                "redop": "sum",
                "inPlace": 0,
                "time": took,
                "algBw": round(rate, 6),
                "busBw": round(rate * 1.75, 6),
                "wrong": 0,
            }
        )
    return found


def document(scale: float) -> str:
    """A file of nccl-tests' -J, over several lines."""
    results = [
        {
            "size": row["size"],
            "count": int(str(row["size"])) // 4,
            "type": "float",
            "redop": "sum",
            "root": "-1",
            "out_of_place": {
                "time": row["time"],
                "alg_bw": row["algBw"],
                "bus_bw": row["busBw"],
                "nwrong": 0,
            },
        }
        for row in rows(scale)
    ]
    whole = {"args": ["all_reduce_perf"], "env": [], "config": {}, "results": results}
    return json.dumps(whole, indent=1)


PARTS = {
    "csv": lambda scale: "\n".join(
        [HEAD, *(", ".join(map(str, row.values())) for row in rows(scale))]
    ),
    "lines": lambda scale: "\n".join(json.dumps(row) for row in rows(scale)),
    "document": document,
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_is_forced_by_the_command_before_it(kind: str) -> None:
    for ways in product((None, "ring", "tree"), (None, "ring", "tree")):
        lines = ["module load rccl"]
        for scale, way in enumerate(ways, 1):
            given = f"-x NCCL_ALGO={SPELLINGS[way]} " if way else ""
            lines += [f"$ mpirun -np 8 {given}./all_reduce_perf -Z {kind}", PARTS[kind](scale)]
        found = parse_logs("\n".join(lines), "a.txt")
        assert [one.table.forced.algorithm for one in found] == [*ways]
        assert [[row.size_bytes for row in one.rows] for one in found] == [
            [1 << 20, 1 << 22, 1 << 24]
        ] * 2


def test_what_was_exported_holds_for_all_parts() -> None:
    part = PARTS["csv"]
    command = "./all_reduce_perf -Z csv"
    lines = ["export NCCL_ALGO=Tree", command, part(1), command, part(2), "unset NCCL_ALGO"]
    found = parse_logs("\n".join([*lines, command, part(3)]), "a.txt")
    assert [one.table.forced.algorithm for one in found] == ["tree", "tree", None]
