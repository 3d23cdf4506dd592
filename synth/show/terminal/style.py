"""Helpers of all tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from grammar import Goal
from hierarchies import LevelPart, MachineException
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.machine_parts import MachineInFull, NcclPart, SlowKind, TellingTest
from synth.ask.answers.parts import Protocol, StepPricePart
from synth.ask.answers.planning import PlacementsConsidered
from synth.ask.answers.ranked import CandidatesConsidered

if TYPE_CHECKING:
    from synth.ask.answers.training.simulated import SpeedOfCompute

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str]]
"""What makes the cell of a row, by the heading of a column."""
_PIPE_WIDTH = 120
_GAP = 2
MARKS = {"proved": "proved", "refuted": "REFUTED", "unknown": "unknown"}


def console() -> Console:
    """Standard output; of one width where it is not a terminal, so that answers are the same."""
    out = Console(highlight=False, markup=False)
    return out if out.is_terminal else Console(width=_PIPE_WIDTH, highlight=False, markup=False)


def paragraphs(*parts: RenderableType | None) -> Group:
    """Return tables and texts below each other. Texts are unchanged; None is omitted."""
    there = (part for part in parts if part is not None)
    return Group(*(Text(part) if isinstance(part, str) else part for part in there))


def precision_lines(precision: str) -> Iterator[str]:
    """Yield how far published steps with such products are from predictions."""
    if precision:
        # Imported here: other answers need no training steps.
        from synth.ask.answers.training.simulated import PUBLISHED_IN_FP8

        low, high = PUBLISHED_IN_FP8
        yield f"published steps in FP8 took {low} to {high} times the seconds predicted this way"


def speed_lines(speed: SpeedOfCompute | None) -> Iterator[str]:
    """Yield how fast a framework computes, if one was asked for."""
    if speed and speed.steps:
        yield (
            f"compute takes {speed.factor:g} times as long with {speed.framework} as with the"
            f" device's best kernels ({speed.low:g} to {speed.high:g} in four fifths of"
            f" {speed.steps} published steps)"
        )
    elif speed:
        yield (
            f"no published steps of {speed.framework} on this device are known: compute takes as"
            " long as with the device's best kernels"
        )


def precision_text(precision: str) -> str:
    """Return what products of weights are multiplied in, if it is another type."""
    return f", products of weights in {precision}" if precision else ""


def pluralize(count: int, what: str) -> str:
    """``1 placement``, ``3 placements``, ``2 switches``."""
    ending = "es" if what.endswith(("ch", "s")) else "s"
    return f"{count} {what}" if count == 1 else f"{count} {what}{ending}"


def times_text(times: float) -> str:
    """``once``, ``160 times``."""
    return "once" if times == 1 else f"{times:g} times"


class _FittingTable(Table):
    """A table that is never wider than the screen, and truncates nothing.

    rich truncates columns that must not wrap if they do not fit. In that case all columns wrap,
    between words if the screen is wide enough for them: a name that is folded cannot be copied.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [_width(column) for column in self.columns]
        room = options.max_width - _GAP * (len(self.columns) - 1)
        if sum(lines) > room:
            for column in self.columns:
                column.no_wrap = False
            words = [_width(column) for column in self.columns]
            if (spare := room - sum(words)) >= 0:
                wanted = max(sum(lines) - sum(words), 1)
                for column, line, word in zip(self.columns, lines, words, strict=True):
                    column.width = word + spare * (line - word) // wanted
        yield from super().__rich_console__(console, options)


def _width(column: Column) -> int:
    """Return the width of a column: its longest line, or its longest word if it wraps."""
    texts = [column.header, *column.cells]
    lines = [line for text in texts for line in str(text).split("\n")]
    if not column.no_wrap:
        lines = [word for line in lines for word in line.split()]
    return max(map(cell_len, lines), default=0)


def table(*columns: str, right: str = "", wraps: str = "") -> Table:
    """Return a table whose column ``wraps`` gives way on a narrow screen, before any other."""
    table = _FittingTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right.split(",") else "left",
            overflow="fold",
            no_wrap=column != wraps,
        )
    return table


def table_of(rows: Iterable[T], cells: Columns[T], right: str = "", wraps: str = "") -> Table:
    """Return a table with a row for each item; ``cells`` has the columns."""
    found = table(*cells, right=right, wraps=wraps)
    for row in rows:
        found.add_row(*(cell(row) for cell in cells.values()))
    return found


_MEDIUM_NAMES = {"roce": "RoCE", "efa": "EFA"}
_PRICE_BASES = {
    "stated": "prices: link speeds as stated by the description; calibrate for measured ones",
    "typical": "prices: typical speeds of such links on other machines; calibrate for your own",
    "calibrated": "prices: calibrated on measurements of this machine",
}


def price_basis(prices: str) -> str:
    """Return the basis of prices: data sheets, typical links, or measurements."""
    return _PRICE_BASES[prices]


def price_basis_lines(system: MachineInFull) -> Iterator[str]:
    """Yield the basis of a machine's prices, effects not modelled, and tests to calibrate them."""
    yield price_basis(system.prices)
    yield from nccl_lines(system)
    if system.runtime.unmodelled:
        yield system.runtime.unmodelled
    yield from map(slow_kind_text, system.slow_kinds)
    yield from map(test_advice, system.tells)


def slow_kind_text(kind: SlowKind) -> str:
    """Return how many machines with such links are slow, and which run says of this one."""
    low, high = (f"{share:.2f}" for share in kind.slow_share)
    name = _MEDIUM_NAMES.get(kind.medium, kind.medium)
    return (
        f"{kind.slow} of {kind.machines} measured {name} machines reached only {low} to {high} of "
        f"level {kind.level!r}'s data sheet, not {kind.share:.2f} as priced:\n"
        "'collsynth doctor' says of a log of nccl-tests which of these yours is"
    )


def nccl_name(system: MachineInFull) -> str:
    """Return the library of a machine and its version: ``NCCL 2.29.7``; "" for other libraries."""
    return f"{system.runtime.value} {system.nccl.version}" if system.nccl else ""


def nccl_lines(system: MachineInFull) -> Iterator[str]:
    """Yield who states the version of NCCL, and that the measurements are of another."""
    match system.nccl:
        case None:
            return
        case NcclPart(stated_by="default"):
            yield f"default: that of {nccl_name(system)}, as no version is stated; --nccl states it"
        case NcclPart(measured=measured) if measured:
            yield (
                f"default: that of {nccl_name(system)}, as asked; the measurements are of "
                f"{measured}, whose kernels may take other times"
            )
        case NcclPart(stated_by=stated_by):
            who = "as asked" if stated_by == "question" else "which was measured"
            yield f"default: that of {nccl_name(system)}, {who}"
    if system.nccl and system.nccl.tuner:
        yield system.nccl.tuner


def test_advice(test: TellingTest) -> str:
    """Return the test that distinguishes levels."""
    levels = " and ".join(map(repr, test.levels))
    return (
        f"to distinguish levels {levels}, run on {test.where} "
        f"({test.test} of 'calibrate --plan'), then calibrate with its log and yours:\n"
        f"  {test.line}"
    )


def interval_text(interval: Sequence[float]) -> str:
    """Return an interval: ``3 ms to 4 ms``."""
    return " to ".join(format_duration(end) for end in interval)


def request_text(request: Goal, over: Sequence[str], *sizes_bytes: int) -> str:
    """``all-reduce of 1 GiB over data``; the size may be a range."""
    sizes = " to ".join(format_bytes(size) for size in sizes_bytes)
    return f"{request.value} of {sizes} over {', '.join(over)}"


def algorithm_text(step: StepPricePart) -> str:
    """Return the algorithm of a step, with its protocol unless it is Simple."""
    return algorithm_name(step.algorithm.value if step.algorithm else "-", step.protocol)


def algorithm_name(name: str, protocol: Protocol | None) -> str:
    """``ring``, ``ring, LL128``"""
    if protocol in (None, Protocol.SIMPLE):
        return name
    return f"{name}, {protocol.value.upper()}"


def port_loads(step: StepPricePart) -> list[str]:
    """Return the bytes of the busiest port of each level: ``12 MiB on node``."""
    return [f"{format_bytes(size)} on {name}" for name, size in step.bytes_per_port.items()]


def considered_text(considered: CandidatesConsidered | PlacementsConsidered) -> str:
    """``3 placements``, ``3 of 5 placements``."""
    done, there_are = considered.placements, considered.of_placements
    return (
        pluralize(done, "placement") if done == there_are else f"{done} of {there_are} placements"
    )


def axes_text(axes: Mapping[str, int]) -> str:
    """``data=8, model=4``."""
    return ", ".join(f"{name}={size}" for name, size in axes.items())


def shape(levels: Sequence[LevelPart]) -> str:
    """``4 node x 8 gpu``."""
    return " x ".join(f"{level.count} {level.name}" for level in levels)


def faults_text(exceptions: Sequence[MachineException]) -> str:
    """``without node3/gpu5, node3/port2 at 50%``; nothing where all is as described."""
    found = (
        f"without {fault.unit}" if fault.missing else f"{fault.unit} at {fault.bandwidth_share:.0%}"
        for fault in exceptions
    )
    return ", ".join(found)


def stopped_warning(complete: bool) -> str | None:
    """Return a warning where the search was stopped."""
    warning = "PARTIAL: the search was stopped early; a better answer may be missing"
    return None if complete else warning
