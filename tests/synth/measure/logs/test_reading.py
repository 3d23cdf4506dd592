"""Logs are read as they were printed, or refused with a true reason; nothing secret is kept."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from log_writer import NO_IN_PLACE, Written, devices, row, text
from shared import shared
from synth.measure.logs.reading import parse_logs
from synth.measure.logs.tables import COLLECTIVES
from synth.measure.logs.text import read_log_text

SIZES = tuple(2**power for power in range(12, 31, 2))


def a_row(size: int, scale: float = 1.0) -> tuple[int, float, float]:
    return size, round(20 + scale * size / 1e5, 1), round(19 + scale * size / 1e5, 1)


@st.composite
def written(draw: st.DrawFn) -> Written:
    test = draw(st.sampled_from(sorted(COLLECTIVES)))
    hosts = draw(st.integers(1, 3))
    ranks = hosts * draw(st.integers(2, 5))
    sizes = draw(st.lists(st.integers(1, 2**20), min_size=1, max_size=8, unique=True))
    scale = draw(st.floats(0.1, 100))
    rows = tuple(a_row(size * 4 * ranks, scale) for size in sizes)
    layouts = ["new", "nine"] if test in NO_IN_PLACE else ["new", "nine", "old", "inside"]
    return Written(test, ranks, hosts, rows, draw(st.sampled_from(layouts)), draw(st.booleans()))


def expected(told: Written) -> list[tuple[int, float | None, float | None]]:
    return [
        (
            size,
            None if told.layout == "inside" else pytest.approx(out * 1e-6, rel=1e-4),
            None if told.layout == "nine" else pytest.approx(inside * 1e-6, rel=1e-4),
        )
        for size, out, inside in told.rows
    ]


def times(log: Any) -> list[tuple[int, float | None, float | None]]:
    return [
        (
            one.size_bytes,
            one.out_of_place and one.out_of_place.seconds,
            one.in_place and one.in_place.seconds,
        )
        for one in log.rows
    ]


def outcome(lines: str) -> tuple[Any, InputError | None]:
    """The first log of a text, or why it was refused."""
    try:
        return parse_logs(lines, "a.txt")[0], None
    except InputError as error:
        return None, error


@given(written(), st.sampled_from(["", "[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "[STAT]:", " "]))
def test_what_is_printed_is_what_is_read(told: Written, tag: str) -> None:
    lines = [tag + line for line in text(told)]
    [log] = parse_logs("\n".join(lines), "a.txt", COLLECTIVES[told.test])
    assert log.collective == COLLECTIVES[told.test]
    assert (log.ranks, log.hosts) == (told.ranks, told.hosts)
    assert times(log) == expected(told)


@given(written())
def test_the_collective_is_read_from_the_program_or_the_rows(told: Written) -> None:
    lines = "\n".join(text(told))
    if told.layout != "old":
        [log] = parse_logs(lines, "a.txt")
        assert log.collective == COLLECTIVES[told.test]
    bare = re.sub(r"# Collective.*\n", "", lines)
    log, refused = outcome(bare)
    if refused:
        assert COLLECTIVES[told.test] in refused.problem
        assert "--collective" in refused.hint
    else:
        assert log.collective == COLLECTIVES[told.test]


@given(written(), st.data())
def test_rows_torn_by_other_output_are_mended_or_counted(
    told: Written, data: st.DataObject
) -> None:
    told = replace(told, layout="new")
    lines = text(told)
    at = data.draw(st.integers(0, len(told.rows) - 1))
    whole = row(told, *told.rows[at])
    place = lines.index(whole)
    cut = re.match(r"\s*\d+\s+\d+\s+float\s+\w+\s+-?\d+", whole)
    assert cut
    junk = "host:4000:4011 [0] NCCL INFO Channel 03/0 : 1[1] -> 0[0] via P2P/CUMEM"
    end = data.draw(st.sampled_from(["", "  " + junk]))
    mended = data.draw(st.booleans())
    torn = [cut[0] + end, junk, whole[cut.end() :]] if mended else [cut[0] + end, junk]
    log_lines = "\n".join([*lines[:place], *torn, *lines[place + 1 :]])
    if not mended and len(told.rows) == 1:
        with pytest.raises(InputError, match="no table"):
            parse_logs(log_lines, "a.txt")
        return
    [log] = parse_logs(log_lines, "a.txt")
    if mended:
        assert times(log) == expected(told)
    else:
        assert len(log.rows) == len(told.rows) - 1
        assert any("torn" in warning for warning in log.warnings)


def test_several_tables_of_a_file_are_several_logs() -> None:
    one = Written("all_reduce", 8, 1, tuple(a_row(size) for size in SIZES))
    other = Written("all_gather", 16, 2, tuple(a_row(size) for size in SIZES))
    command = "$ mpirun -x NCCL_ALGO=Ring ./all_reduce_perf -b 8"
    first, second = parse_logs("\n".join([command, *text(one), *text(other)]), "a.txt")
    assert (first.collective, first.ranks) == ("all-reduce", 8)
    assert (second.collective, second.ranks) == ("all-gather", 16)
    assert first.table.forced.algorithm == "ring"
    assert second.table.forced.algorithm is None


def test_tests_of_one_size_each_become_one_table() -> None:
    lines = []
    for size in SIZES:
        told = Written("all_gather", 8, 1, (a_row(size),), "nine")
        lines += [re.sub("minBytes 8 ", "minBytes 128 ", line) for line in text(told)]
    [log] = parse_logs("\n".join(lines), "a.txt")
    assert log.table.sizes == SIZES


@pytest.mark.parametrize(
    ("line", "algorithm", "protocol", "split"),
    [
        ("export NCCL_ALGO=Ring NCCL_PROTO=LL128", "ring", "ll128", None),
        ("h:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Tree", "tree", None, None),
        ("# algo: NCCL_PROTO=Simple", None, "simple", None),
        ('mpirun -x NCCL_TESTS_SPLIT="MOD 8" all_reduce_perf', None, None, "MOD 8"),
        ("NCCL_TESTS_SPLIT_MASK=0x7", None, None, "AND 7"),
        ("NCCL_ALGO=^Tree", None, None, None),
    ],
)
def test_what_was_forced_is_told(
    line: str, algorithm: str | None, protocol: str | None, split: str | None
) -> None:
    told = Written("all_reduce", 8, 1, tuple(a_row(size) for size in SIZES))
    [log] = parse_logs("\n".join([line, *text(told)]), "a.txt")
    assert (log.table.forced.algorithm, log.table.forced.protocol, log.table.forced.split) == (
        algorithm,
        protocol,
        split,
    )
    assert log.table.forced.without == (("tree",) if "^" in line else ())
    assert not log.warnings


def all_reduce(rows: int = 5) -> list[str]:
    return text(Written("all_reduce", 8, 1, tuple(a_row(size) for size in SIZES[:rows])))


def changed(old: str, new: str, count: int = 1) -> str:
    lines = "\n".join(all_reduce())
    assert old in lines
    return lines.replace(old, new, count)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("nothing of the kind", "no table"),
        ("\n".join(all_reduce() + devices(Written("all_reduce", 8, 1, ()))[:1]), ""),
        (changed("# Rank".replace("# ", "#  ") + "  7", "#  Rank  0"), "more than once"),
        (changed("all_reduce_perf", "all_gather_perf"), "no rows of all-gather"),
        (changed("all_reduce_perf", "hypercube_perf"), "no collective we price"),
        (changed("     sum      -1", "    none       0", 99), "no rows of all-reduce"),
        (changed("   20.00", "   90.00"), "are not"),
        ("# ranks: 16\n" + "\n".join(all_reduce()), "contradicted"),
        ("# nodes: 2\n" + "\n".join(all_reduce()), "on 1 hosts"),
        ("# nodes: 2\n# gpus_per_node: 8\n# ranks: 8\n" + "\n".join(all_reduce()), "2 nodes of 8"),
        (re.sub(r"#  Rank +[4-7].*\n", "", "\n".join(all_reduce())), "contradicted"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(log: str, said: str) -> None:
    if not said:
        parse_logs(log, "a.txt")
        return
    with pytest.raises(InputError, match=said):
        parse_logs(log, "a.txt")


@pytest.mark.parametrize(
    ("half", "said"),
    [
        ("  20.00    0.20    0.36      3", "wrong results"),
        ("   0.00    0.20    0.36      0", "a time of zero"),
        ("    nan     nan     nan      0", "no number"),
        ("  20.00    0.20    0.36   0.25", "wrong results"),
    ],
)
def test_unusable_rows_are_left_out_and_reported(half: str, said: str) -> None:
    rows = [
        f"    4096  1024  float  sum  -1 {half}  20.00  0.20  0.36  0",
        "    8192  2048  float  sum  -1  20.00  0.41  0.72  0  20.00  0.41  0.72  0",
    ]
    [log] = parse_logs("\n".join(["all_reduce_perf", *rows]), "a.txt")
    assert any(said in w for w in log.warnings), log.warnings
    assert log.rows[0].out_of_place is None
    assert log.rows[0].in_place is not None


def test_a_size_measured_twice_is_reported_and_both_rows_are_kept() -> None:
    lines = all_reduce()
    at = next(i for i, line in enumerate(lines) if line.startswith("        4096"))
    [log] = parse_logs("\n".join([*lines[: at + 1], lines[at], *lines[at + 1 :]]), "a.txt")
    assert any("more than once" in warning for warning in log.warnings)
    assert [one.size_bytes for one in log.rows][:2] == [4096, 4096]


# What the tests write to files.

SECRET = "hunter2-and-a-token"


def nccl_json(told: Written, env: list[str]) -> dict[str, Any]:
    def timing(size: int, microseconds: float, checked: bool) -> dict[str, Any]:
        rate = size / microseconds / 1e3
        factor = 2 * (told.ranks - 1) / told.ranks
        return {
            "time": round(microseconds, 6),
            "alg_bw": round(rate, 6),
            "bus_bw": round(rate * factor, 6),
            "nwrong": 0.0 if checked else None,
        }

    results = [
        {
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": timing(size, out, True),
            "in_place": timing(size, inside, True),
            "actual_iterations": 20,
            "experiment_name": SECRET,
        }
        for size, out, inside in told.rows
    ]
    listed = [
        {
            "rank": rank,
            "group": 0,
            "pid": 7,
            "hostname": f"{SECRET}-{rank * told.hosts // told.ranks}",
            "device": rank,
            "device_hex": "0x1b",
            "device_info": "NVIDIA H100",
        }
        for rank in range(told.ranks)
    ]
    config = {
        "nthreads": 1,
        "ngpus": 1,
        "validation": 1,
        "iterations": 20,
        "parallel_init": "false",
    }
    return {
        "version": 3,
        "start_time": "2026-11-21",
        "args": ["/opt/" + SECRET + "/all_reduce_perf", "-J", SECRET],
        "env": env,
        "nccl_version": 22203,
        "config": {**config, "devices": listed},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
    }


TOLD = Written("all_reduce", 8, 2, tuple(a_row(size) for size in SIZES))
ENV = [
    f"AWS_SECRET_ACCESS_KEY={SECRET}",
    "NCCL_ALGO=Ring",
    "NCCL_PROTO=LL,Simple",
    f"NCCL_TESTS_SPLIT={SECRET}",
    f"PATH=/{SECRET}",
]


def test_json_is_read_and_no_string_of_its_environment_is_kept() -> None:
    [log] = parse_logs(json.dumps(nccl_json(TOLD, ENV)), "a.json")
    assert (log.collective, log.ranks, log.hosts) == ("all-reduce", 8, 2)
    assert times(log) == expected(TOLD)
    assert (log.table.version, log.table.forced.algorithm, log.table.forced.protocol) == (
        "2.22.3",
        "ring",
        None,
    )
    assert SECRET not in repr(log)


def test_a_protocol_that_nccl_does_not_know_is_refused_and_not_quoted() -> None:
    with pytest.raises(InputError) as raised:
        parse_logs(json.dumps(nccl_json(TOLD, [f"NCCL_PROTO={SECRET}"])), "a.json")
    assert "known are: Simple, LL, LL128" in str(raised.value)
    assert SECRET not in str(raised.value)


@given(st.text(min_size=6, max_size=40), st.sampled_from(["args", "env", "results", "config", "x"]))
def test_no_error_quotes_a_file(secret: str, key: str) -> None:
    told = nccl_json(TOLD, ENV) | {key: [secret, {"env": secret, "size": secret}]}
    assert SECRET not in repr(outcome(json.dumps(told)))


def test_json_with_nan_and_without_out_of_place() -> None:
    told = nccl_json(TOLD, [])
    told["results"][0]["in_place"]["time"] = "nan"
    told["results"][1]["out_of_place"] = None
    [log] = parse_logs(json.dumps(told), "a.json")
    assert any("no number" in warning for warning in log.warnings)
    assert log.rows[0].in_place is None
    assert log.rows[1].out_of_place is None


def test_of_several_devices_a_process_json_lists_the_first() -> None:
    told = nccl_json(replace(TOLD, hosts=2), [])
    told["config"]["ngpus"] = 4
    told["config"]["devices"] = [told["config"]["devices"][i] for i in (0, 4)]
    [log] = parse_logs(json.dumps(told), "a.json")
    assert (log.ranks, log.hosts) == (8, 2)


def rccl_rows() -> list[dict[str, Any]]:
    rows = []
    for size, out, inside in TOLD.rows:
        for place, took in ((0, out), (1, inside)):
            rate = size / took / 1e3
            rows.append(
                {
                    "name": "AllReduce",
                    "nodes": 2,
                    "ranks": 8,
                    "ranksPerNode": 4,
                    "gpusPerRank": 1,
                    "size": size,
                    "type": "float",
                    "redop": "sum",
                    "inPlace": place,
                    "time": f"{took:.6g}",
                    "algBw": f"{rate:.6g}",
                    "busBw": f"{rate * 1.75:.6g}",
                    "wrong": "N/A",
                }
            )
    return rows


def test_the_lines_of_rccl_tests_are_read() -> None:
    lines = []
    for told in rccl_rows():
        parts = [f'"{key}":{value}' for key, value in told.items()]
        lines.append("{" + ", ".join(parts) + "}")
    [log] = parse_logs("\n".join(lines), "a.json")
    assert (log.collective, log.ranks, log.hosts) == ("all-reduce", 8, 2)
    assert times(log) == expected(TOLD)


def test_the_csv_of_rccl_tests_is_read_though_its_head_lacks_a_column() -> None:
    head = "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, algbw, "
    lines = [head + "busbw, #wrong"]
    lines += [", ".join(str(value) for value in told.values()) for told in rccl_rows()]
    [log] = parse_logs("\n".join(lines), "a.csv")
    assert (log.collective, log.ranks, log.hosts) == ("all-reduce", 8, 2)
    assert times(log) == expected(TOLD)


# Noise.


@given(st.binary(max_size=2000))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(InputError):
        parse_logs(noise.decode("utf-8", errors="replace"), "noise")


@given(written(), st.data())
def test_a_log_cut_off_or_mixed_with_noise_is_read_or_refused(
    told: Written, data: st.DataObject
) -> None:
    raw = "\n".join(text(told)).encode()
    cut = data.draw(st.integers(0, len(raw)))
    noise = data.draw(st.binary(max_size=60))
    try:
        logs = parse_logs(
            (raw[:cut] + noise + raw[cut:][: data.draw(st.integers(0, 4000))]).decode(
                "utf-8", errors="replace"
            ),
            "cut",
        )
    except InputError:
        return
    for log in logs:
        assert all(one.size_bytes > 0 for one in log.rows)


@pytest.mark.parametrize(
    "noise",
    [
        b"7" * 10_000_000,
        b"1 2 float " * 1_000_000,
        b"\x00" * 10_000_000,
        b"[" * 1_000_000,
        b'{"results":' * 100_000,
        b"8 2 float sum -1 " + b"9" * 5000 + b" 1 1 0",
        b"8 2 float sum -1 1e999999999 1 1 0 1e-999999999 1 1 0",
        b"\xff\xfe\x00\xd8" * 1000,
        b"# Rank 0 Group 0 Pid " + b"9" * 100_000,
    ],
    ids=lambda noise: repr(noise[:12]),
)
def test_large_noise_is_refused(noise: bytes, tmp_path: Path) -> None:
    place = tmp_path / "noise"
    place.write_bytes(noise)
    with pytest.raises(InputError):
        parse_logs(read_log_text(place), "noise")


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(InputError):
            read_log_text(place)


# Real logs: every one as the table of its numbers, or refused with a true reason.

CONTRADICTED = {
    # Its only line of a device says rank 143; busbw / algbw is that of 128 ranks.
    "coreweave-gb200-nvl72-32x4-allreduce-1": "contradicted",
}


def numbers(place: Path) -> list[tuple[int, float, float | None]]:
    with place.open() as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [
            (
                int(one["bytes"]),
                pytest.approx(float(one["seconds"]), abs=1e-12),
                pytest.approx(float(one["inplace_seconds"]), abs=1e-12)
                if one["inplace_seconds"]
                else None,
            )
            for one in rows
        ]


def test_every_real_log_is_read_as_its_numbers() -> None:
    folder = shared("nccl-tests-logs")
    found = sorted(folder.glob("*.txt"))
    assert found
    for place in found:
        beside = shared("measured", f"{place.stem}.csv")
        facts = dict(re.findall(r"^# (\w+): (.*)$", beside.read_text(), re.MULTILINE))
        if place.stem in CONTRADICTED:
            with pytest.raises(InputError, match=CONTRADICTED[place.stem]):
                parse_logs(read_log_text(place), place.name)
            continue
        [log] = parse_logs(read_log_text(place), place.name)
        rows = [
            (
                one.size_bytes,
                one.out_of_place and one.out_of_place.seconds,
                one.in_place and one.in_place.seconds,
            )
            for one in log.table.rows
        ]
        assert rows == numbers(beside), place.stem
        assert log.collective == COLLECTIVES[facts["collective"]], place.stem
        assert (log.ranks, log.hosts) == (int(facts["ranks"]), int(facts["nodes"])), place.stem


def test_real_logs_are_identified_without_notes_or_require_one() -> None:
    """The comment lines that a collector put above them are cut off here."""
    for place in sorted(shared("nccl-tests-logs").glob("*.txt")):
        beside = shared("measured", f"{place.stem}.csv").read_text()
        facts = dict(re.findall(r"^# (\w+): (.*)$", beside, re.MULTILINE))
        _, _, body = place.read_text(errors="replace").partition("# ---- verbatim below ----\n")
        log, refused = outcome(body)
        if refused:
            assert place.stem in CONTRADICTED or "--collective" in refused.hint, refused
            continue
        assert log.collective == COLLECTIVES[facts["collective"]], place.stem
        assert log.ranks in (None, int(facts["ranks"])), place.stem
        assert log.hosts in (None, int(facts["nodes"])), place.stem


def test_a_user_s_own_table_is_read() -> None:
    lines = ["# collective: all_gather", "# nodes: 2", "# ranks: 16", "# algo: NCCL_ALGO=Ring"]
    rows = ["bytes,seconds,inplace_seconds", "1024,0.00001,0.00002", "2048,0.00003,"]
    [log] = parse_logs("\n".join(lines + rows), "own.csv")
    assert (log.collective, log.ranks, log.hosts) == ("all-gather", 16, 2)
    assert log.table.forced.algorithm == "ring"
    assert times(log) == [(1024, 1e-5, 2e-5), (2048, 3e-5, None)]


def test_a_quotation_mark_ends_with_its_line() -> None:
    rows = ["bytes,seconds", '"1024,0.00001', "2048,0.00003", "1" * 2**18 + ",1"]
    [log] = parse_logs("\n".join(["# collective: all_gather", "# ranks: 16", *rows]), "own.csv")
    assert times(log) == [(2048, 3e-5, None)]
    assert log.table.broken == 1


BARE = """[1,0]<stdout>:# Setting up the connection in MSCCL++
[1,0]<stdout>:#                                    in-place                       out-of-place
[1,0]<stdout>:#  size  count  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong
[1,0]<stdout>:#        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
[1,0]<stdout>:  1073741824      16777216  {half}
[1,0]<stdout>:
[1,0]<stdout>:# Out of bounds values : 0 OK
"""
HALF = "  23275   46.13   43.25"


@pytest.mark.parametrize("wrong", ["", "      0"])
def test_a_table_of_mscclpp_test_names_no_type_and_has_one_half(wrong: str) -> None:
    """All of its elements are of 4 bytes, and which collective it is only its user knows."""
    for blank, inside in ((" " * 33, False), ("", True)):
        text = BARE.format(half=f"{blank}{HALF}{wrong}")
        [log] = parse_logs(text, "a2a.txt", "alltoall")
        [row] = log.rows
        assert (log.collective, log.ranks, row.size_bytes) == ("all-to-all", 16, 2**30)
        assert (row.in_place is not None, row.out_of_place is None) == (inside, inside)
        [timing] = row.timings
        assert timing.seconds == pytest.approx(0.023275)
        assert "MSCCL++" in log.warnings[0]
        with pytest.raises(InputError, match="the rows fit reduce-scatter and all-gather and"):
            parse_logs(text, "a2a.txt")


def test_rows_without_a_type_are_none_of_other_tables() -> None:
    text = BARE.format(half=HALF).replace("size  count  time", "bytes  count  time")
    with pytest.raises(InputError, match="no table"):
        parse_logs(text, "a2a.txt", "alltoall")
