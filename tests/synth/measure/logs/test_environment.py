"""What a run was forced to use is what its own command line says, wherever it stands in a file."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from log_writer import Written, text
from synth.collective.algorithms.nccl_model import SPELLINGS
from synth.measure.logs.header import Environment, is_command
from synth.measure.logs.reading import parse_logs

COMMANDS = {
    "prefix": "{sets} ./all_reduce_perf -b 1M -e 1G -f 2 -g 8",
    "prompt": "user@node:~/nccl-tests$ {sets} ./build/all_reduce_perf -g 8",
    "mpirun": "mpirun -np 8 {x} /opt/nccl-tests/build/all_reduce_perf -g 1",
    "lines": "mpirun -np 8 \\\n  {x} \\\n  ./all_reduce_perf -b 8 \\\n  -e 1G",
    "srun": "srun --export=ALL,{commas} --mpi=pmix ./all_reduce_perf_mpi -g 1",
    "genv": "mpiexec {genv} -n 8 all_reduce_perf",
    "docker": "+ docker run --rm {e} nccl-tests all_reduce_perf -g 8",
    "comment": "# mpirun -np 8 {x} ./all_reduce_perf -b 8 -e 1G",
}
WAYS = [(None, None), ("tree", None), ("ring", "ll"), ("nvls_tree", "simple")]


def command(kind: str, algorithm: str | None, protocol: str | None) -> str:
    given = {"NCCL_ALGO": SPELLINGS.get(algorithm or ""), "NCCL_PROTO": protocol}
    sets = [f"{name}={value}" for name, value in given.items() if value]
    return COMMANDS[kind].format(
        sets=" ".join(sets),
        x=" ".join(f"-x {one}" for one in sets),
        e=" ".join(f"-e {one}" for one in sets),
        commas=",".join(sets),
        genv=" ".join(f"-genv {name} {value}" for name, value in given.items() if value),
    )


def table(rows: int = 3) -> list[str]:
    """What a test prints below its command line."""
    sizes = tuple((1 << (20 + at), 100.0, 100.0) for at in range(rows))
    lines = text(Written("all_reduce", 8, 1, sizes))
    return [line for line in lines if "starting" not in line and "_perf" not in line]


def ways(lines: list[str]) -> list[tuple[str | None, str | None]]:
    return [
        (one.table.forced.algorithm, one.table.forced.protocol)
        for one in parse_logs("\n".join(lines), "a")
    ]


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_command_line_of_a_file_counts_for_its_run_alone(kind: str) -> None:
    for first, second in product(WAYS, WAYS):
        lines = [command(kind, *first), *table(), command(kind, *second), *table()]
        assert ways(lines) == [first, second]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["run", "export", "unset"]),
            st.sampled_from(sorted(COMMANDS)),
            st.sampled_from(WAYS),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_exports_last_until_they_are_unset_and_commands_go_before(
    steps: list[tuple[str, str, tuple[str | None, str | None]]],
) -> None:
    """Against a plain model: two variables, those of a command before those exported."""
    lines: list[str] = []
    lasting: dict[str, str | None] = {}
    aims = []
    for what, kind, (algorithm, protocol) in steps:
        if what == "run":
            lines += [command(kind, algorithm, protocol), *table()]
            aims.append((algorithm or lasting.get("a"), protocol or lasting.get("p")))
        elif what == "export" and algorithm:
            lines.append(f"export NCCL_ALGO={SPELLINGS[algorithm]}")
            lasting["a"] = algorithm
            if protocol:
                lines.append(f"export NCCL_PROTO={protocol.upper()}")
                lasting["p"] = protocol
        elif what == "unset":
            lines.append("unset NCCL_ALGO NCCL_PROTO")
            lasting.clear()
    if aims:
        assert ways(lines) == aims


@pytest.mark.parametrize(
    ("line", "algorithm", "without"),
    [
        ("NCCL_ALGO=allreduce:Tree", "tree", ()),
        ("NCCL_ALGO='allgather:Ring;allreduce:NVLS'", "nvls", ()),
        ("NCCL_ALGO=allgather:Ring", None, ()),
        ("NCCL_ALGO='ring;allreduce:tree'", "tree", ()),
        ("NCCL_ALGO=Ring,Tree", None, tuple(n for n in SPELLINGS if n not in ("ring", "tree"))),
        ("NCCL_ALGO=^NVLS,NVLSTree", None, ("nvls", "nvls_tree")),
        ("NCCL_NVLS_ENABLE=0", None, ("nvls", "nvls_tree")),
        ("NCCL_NVLS_ENABLE=1", None, ()),
        ("NCCL_ALGO=Tree NCCL_NVLS_ENABLE=0", "tree", ()),
        ("NCCL_ALGO=", None, ()),
        ("NCCL_ALGO=Newest", None, ()),
    ],
)
def test_values_leave_what_the_runtime_may_choose(
    line: str, algorithm: str | None, without: tuple[str, ...]
) -> None:
    environment = Environment()
    environment.read(line)
    found = environment.forced("all_reduce")
    assert (found.algorithm, found.without) == (algorithm, without)
    assert found.unknown == (("NCCL_ALGO",) if "Newest" in line else ())


@pytest.mark.parametrize(
    ("setting", "variable", "known"),
    [
        ("NCCL_ALGO=Foo", "NCCL_ALGO", "Ring, Tree, NVLS, NVLSTree"),
        ("NCCL_ALGO=^Ring,Foo", "NCCL_ALGO", "Ring, Tree"),
        ("NCCL_ALGO='Ring;allreduce:Foo'", "NCCL_ALGO", "Ring, Tree"),
        ("NCCL_PROTO=LL256", "NCCL_PROTO", "Simple, LL, LL128"),
        ("NCCL_ALGO=Ring NCCL_NVLS_ENABLE=9", "NCCL_NVLS_ENABLE", "0, 1, 2"),
    ],
)
def test_a_word_that_nccl_does_not_know_is_one_error(
    setting: str, variable: str, known: str
) -> None:
    """It is not quoted: a file's words may be private."""
    lines = [f"$ {setting} ./build/all_reduce_perf -b 8 -e 1M", *table()]
    with pytest.raises(InputError) as raised:
        ways(lines)
    told = str(raised.value)
    assert f"{variable} was set to a value that NCCL does not know; known are: {known}" in told
    assert "Foo" not in told
    assert told.count("known are") == 1


def test_a_word_for_another_collective_or_of_a_run_before_is_no_error() -> None:
    fine = ["$ NCCL_ALGO='allgather:Foo' ./build/all_reduce_perf", *table()]
    assert ways(fine) == [(None, None)]
    later = ["export NCCL_ALGO=Foo", "export NCCL_ALGO=CollNet", "./build/all_reduce_perf"]
    assert ways([*later, *table()]) == [("collnet_direct", None)]


def test_a_command_holds_for_all_tables_below_its_head() -> None:
    """And not for those below the head of another run, whose command line is not shown."""
    lines = [command("prefix", "ring", "ll"), *table()]
    rows = [line for line in table() if "Rank" not in line and "nThread" not in line]
    end = ["# Out of bounds values : 0 OK", "#"]
    assert ways([*lines, *end, *rows]) == [("ring", "ll")] * 2
    assert ways([*lines, *end, *table()]) == [("ring", "ll"), (None, None)]


def test_a_run_that_printed_no_table_forces_no_other() -> None:
    lines = [command("prefix", "ring", "ll"), "no such device", command("prefix", None, None)]
    assert ways([*lines, *table()]) == [(None, None)]


def test_a_value_that_names_nothing_known_does_not_leave_an_earlier_one() -> None:
    lines = ["export NCCL_ALGO=Ring", "NCCL_ALGO=Newest ./all_reduce_perf -g 8", *table()]
    with pytest.raises(InputError, match="NCCL_ALGO was set to"):
        parse_logs("\n".join(lines), "a")


def test_several_protocols_are_told() -> None:
    [log] = parse_logs("\n".join(["NCCL_PROTO=LL,Simple ./all_reduce_perf", *table()]), "a")
    assert any("NCCL_PROTO allows several" in warning for warning in log.warnings)


@pytest.mark.parametrize(
    "line",
    [
        "# Collective test starting: all_reduce_perf",
        "# nccl-tests version 2.17.4 nccl-headers=22809 nccl-library=22809",
        "./all_reduce_perf: symbol lookup error: undefined symbol",
        "[h:12] [ 3] ./all_reduce_perf(+0x1c4)[0x55]",
        "running all_reduce_perf, please wait",
        "#  Rank  0 Group  0 Pid   3000 on  host0 device  0 [0x10] NVIDIA H100 80GB HBM3",
    ],
)
def test_what_a_test_prints_is_no_command(line: str) -> None:
    assert not is_command(line)
