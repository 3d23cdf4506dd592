"""Command lines for nccl-tests, or rccl-tests, whose programs and flags are the same.

One rank is one device (``-g 1``): without a launcher the tests would time one device alone. The
names are those of both suites' READMEs (github.com/NVIDIA/nccl-tests, github.com/ROCm/rccl-tests).

>>> mpirun_command(16, {"NCCL_TESTS_SPLIT": "DIV 8"}, "alltoall_perf -b 1K -e 1G", hosts=2)
'mpirun -np 16 --map-by ppr:8:node -x NCCL_TESTS_SPLIT="DIV 8" alltoall_perf -b 1K -e 1G'
>>> suite_command("all-to-all", 1024, 1 << 30)
'alltoall_perf -b 1K -e 1G -f 2 -g 1 -w 5 -n 20'
"""

from __future__ import annotations

from collections.abc import Mapping

from grammar import Goal

WARM_UP, REPEATS = 5, 20


def suite_program(collective: str) -> str:
    """The suites' name of a collective's test: ``reduce_scatter_perf``."""
    name = "alltoall" if collective == Goal.ALL_TO_ALL.value else collective.replace("-", "_")
    return f"{name}_perf"


def suite_arguments(smallest_bytes: int, largest_bytes: int) -> str:
    """Arguments for sizes that double from smallest to largest, on one device per rank."""
    doubles = " -f 2" * (smallest_bytes != largest_bytes)
    sizes = f"-b {_size(smallest_bytes)} -e {_size(largest_bytes)}{doubles}"
    return f"{sizes} -g 1 -w {WARM_UP} -n {REPEATS}"


def suite_command(collective: str, smallest_bytes: int, largest_bytes: int) -> str:
    """The command of a collective's test with its arguments."""
    return f"{suite_program(collective)} {suite_arguments(smallest_bytes, largest_bytes)}"


def mpirun_command(ranks: int, environment: Mapping[str, str], command: str, hosts: int = 0) -> str:
    """A command started by Open MPI on ``hosts`` equal hosts, with the environment; 0: unknown."""
    spread = f" --map-by ppr:{ranks // hosts}:node" if hosts else ""
    passed = "".join(f" -x {key}={_quote(value)}" for key, value in environment.items())
    return f"mpirun -np {ranks}{spread}{passed} {command}"


def srun_command(ranks: int, environment: Mapping[str, str], command: str, hosts: int = 0) -> str:
    """A command started by Slurm on ``hosts`` equal hosts, with the environment; 0: unknown."""
    spread = f" -N {hosts} --ntasks-per-node={ranks // hosts}" if hosts else ""
    before = "".join(f"{key}={_quote(value)} " for key, value in environment.items())
    return f"{before}srun -n {ranks}{spread} {command}"


def _quote(value: str) -> str:
    """The value in quotes if it contains a space."""
    return f'"{value}"' if " " in value else value


def _size(size_bytes: int) -> str:
    for shift, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size_bytes >> shift << shift == size_bytes and size_bytes >> shift:
            return f"{size_bytes >> shift}{suffix}"
    return str(size_bytes)
