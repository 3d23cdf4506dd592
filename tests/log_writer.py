"""Prints tables as nccl-tests do, by their printf formats; knows nothing of how we read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
}
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
IN_PIECES = ("reduce_scatter", "all_gather", "alltoall")
NO_IN_PLACE = ("alltoall", "sendrecv")


@dataclass(frozen=True)
class Written:
    """A test to print: the sizes are per rank's largest buffer, the times in microseconds."""

    test: str
    ranks: int
    hosts: int
    rows: tuple[tuple[int, float, float], ...]
    layout: str = "new"
    checked: bool = True


def number(value: float, width: int) -> str:
    """getFloatStr of nccl-tests."""
    power = 0
    while 10**power <= value:
        power += 1
    decimals = 2 if power < width - 2 else 1 if power < width - 1 else 0
    return f"{value:{width}.{decimals}f}"


def half(size: int, microseconds: float, factor: float, checked: bool) -> str:
    algbw = size / microseconds / 1e3
    wrong = f"{0:6d}" if checked else "   N/A"
    columns = (number(microseconds, 7), number(algbw, 6), number(algbw * factor, 6), wrong)
    return "  " + "  ".join(columns)


def row(told: Written, size: int, out: float, inside: float) -> str:
    pieces = told.ranks if told.test in IN_PIECES else 1
    operation = "sum" if told.test in REDUCING or told.test == "sendrecv" else "none"
    root = 0 if told.test in ("broadcast", "reduce") else -1
    head = f"{size:12d}  {size // (4 * pieces):12d}  {'float':>8}"
    if told.layout != "old" or told.test in REDUCING:
        head += f"  {operation:>6}"
    if told.layout != "old" or root == 0:
        head += f"  {root:6d}"
    factor = FACTORS[told.test](told.ranks)
    first = half(size, out, factor, told.checked)
    if told.layout == "nine":
        return head + first
    if told.layout == "inside":
        return head + " " * 32 + half(size, inside, factor, told.checked)
    inside_checked = told.checked and told.test not in NO_IN_PLACE
    return head + first + half(size, inside, factor, inside_checked)


def devices(
    told: Written, model: str = "NVIDIA H100", groups: Sequence[int] | None = None
) -> list[str]:
    """The list of devices; ``groups`` are the colors of the ranks where they were split."""
    each = told.ranks // told.hosts
    lines = []
    for rank in range(told.ranks):
        where = f"on {'host-' + str(rank // each):>10} device {rank % each:2d} [0x{rank % 8:02x}]"
        group = groups[rank] if groups else 0
        lines.append(f"#  Rank {rank:2d} Group {group:2d} Pid {4000 + rank:6d} {where} {model}")
    return lines


def text(told: Written, *, head: bool = True) -> list[str]:
    lines = []
    if head:
        sizes = "minBytes 8 maxBytes 128 step: 2(factor)"
        counts = f"warmup iters: 5 iters: 20 agg iters: 1 validation: {int(told.checked)} graph: 0"
        if told.layout != "old":
            lines.append(f"# Collective test starting: {told.test}_perf")
        lines += [f"# nThread 1 nGpus 1 {sizes} {counts}", "#", "# Using devices"]
        lines += [*devices(told), "NCCL version 2.22.3+cuda12.6", "#"]
    names = "size         count      type"
    if told.layout != "old" or told.test in REDUCING:
        names += "   redop"
    if told.layout != "old" or told.test in ("broadcast", "reduce"):
        names += "    root"
    halves = "     time   algbw   busbw #wrong"
    lines += [f"#       {names}{halves}{halves}", "#        (B)    (elements)   (us)  (GB/s)"]
    lines += [row(told, *one) for one in told.rows]
    return [*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 8.1021", "#"]
