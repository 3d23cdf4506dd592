"""A table of nccl-tests or rccl-tests as printed, before any mapping or averaging."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan

from synth.measure.calibration.measurements import SEND_RECEIVE

COLLECTIVES = {
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "all_gather": "all-gather",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "all-to-all",
    "sendrecv": SEND_RECEIVE,
}
"""The supported tests, by the names of their programs, and our names of their collectives."""
UNREAD = ("gather", "scatter", "hypercube", "alltoallv", "all_reduce_bias", "bisection")
"""Unsupported tests. Longer names precede names that they contain."""
PIECES = ("reduce-scatter", "all-gather", "all-to-all")
"""Collectives whose count is that of one piece: their size is count x type x ranks."""
BARE = ("size", "count")
"""The columns before the times in mscclpp-test, which names no type. Its elements are ``int``, and
in-place times come first (microsoft/mscclpp, test/mscclpp-test/common.cc, at 071859f).
"""
MOST_ROWS = 20_000
"""Most rows in all tables of a log. A run of a test has a few dozen."""
WORD_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("float", "int32", "uint32", "int"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
}
"""The bytes of each element type of the tests."""


@dataclass(frozen=True)
class Timing:
    """One half of a row, in SI units (printed as microseconds and GB/s).

    ``slack`` is half a unit of the last printed digit, for each of the three numbers. ``wrong`` is
    None if nothing was checked. A number that could not be parsed is NaN.
    """

    seconds: float
    algbw_bytes_per_second: float
    busbw_bytes_per_second: float
    wrong: float | None = None
    slack: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def unusable(self) -> str:
        """The reason why this time must not be used; "" if there is none."""
        if isnan(self.seconds) or not isfinite(self.seconds):
            return "a time that is no number"
        if self.seconds <= 0:
            return "a time of zero"
        if self.wrong is not None and self.wrong != 0:
            return "wrong results"
        return ""

    def ratio(self) -> tuple[float, float]:
        """Returns the least and the greatest busbw/algbw with the printed digits."""
        _, of_algbw, of_busbw = self.slack
        algbw, busbw = self.algbw_bytes_per_second, self.busbw_bytes_per_second
        if not (algbw > of_algbw and busbw > of_busbw):
            return 0.0, inf
        return (busbw - of_busbw) / (algbw + of_algbw), (busbw + of_busbw) / (algbw - of_algbw)

    def agrees(self, size_bytes: int, factor: float = 1.0) -> bool:
        """Whether algbw is size x factor / time, within the printed digits."""
        of_time, of_algbw, _ = self.slack
        if self.unusable or isnan(self.algbw_bytes_per_second):
            return True
        least = size_bytes * factor / (self.seconds + of_time) * (1 - 1e-5) - of_algbw
        fastest = self.seconds - of_time
        most = size_bytes * factor / fastest * (1 + 1e-5) + of_algbw if fastest > 0 else inf
        return least <= self.algbw_bytes_per_second <= most


@dataclass(frozen=True)
class LogRow:
    """The row of a size, which is that of a rank's largest buffer in bytes, with its times.

    ``count`` is the printed number of elements, or -1; ``kind`` their type; ``operation`` and
    ``root`` are None if the layout has no such column.
    """

    size_bytes: int
    count: int
    kind: str
    operation: str | None
    root: int | None
    out_of_place: Timing | None
    in_place: Timing | None

    @property
    def timings(self) -> tuple[Timing, ...]:
        return tuple(t for t in (self.out_of_place, self.in_place) if t is not None)


@dataclass(frozen=True)
class RankRecord:
    """One line of the list of devices; hosts are numbered by occurrence, their names dropped."""

    rank: int
    group: int
    host: int | None
    device: int
    name: str


@dataclass(frozen=True)
class ForcedChoice:
    """The forced choices of a run: an algorithm and protocol, or all algorithms but ``without``.

    Algorithms and protocols (NCCL_ALGO, NCCL_PROTO) have our names. ``split`` is the value of
    NCCL_TESTS_SPLIT. ``unknown`` has variables with words that NCCL does not know. The words are
    not kept, as they may be private. ``several`` has variables that allow several protocols.
    """

    algorithm: str | None = None
    protocol: str | None = None
    without: tuple[str, ...] = ()
    split: str | None = None
    unknown: tuple[str, ...] = ()
    several: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(f"{name} allows several protocols: prices are of all" for name in self.several)


@dataclass(frozen=True)
class Table:
    """One table, and its file's facts about the run.

    ``stated_ranks`` and ``stated_hosts`` are those of a whole run, with all groups, and
    ``stated_per_host`` the ranks of each of its hosts, if a file states them. ``members`` and
    ``busy`` are from comment lines (``# members: 2,8``), ``places`` is the device list.
    ``broken`` counts rows torn apart by other output. ``columns`` are those in the table's header,
    up to the first time.
    """

    source: str
    collective: str | None = None
    rows: tuple[LogRow, ...] = ()
    places: tuple[RankRecord, ...] = ()
    stated_ranks: int | None = None
    stated_hosts: int | None = None
    stated_per_host: int | None = None
    members: tuple[int, ...] | None = None
    busy: tuple[int, ...] | None = None
    version: str = ""
    forced: ForcedChoice = ForcedChoice()
    broken: int = 0
    single_size: bool = False
    columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The measured sizes above 0, ascending, without repeats."""
        return tuple(sorted({row.size_bytes for row in self.rows if row.size_bytes}))


@dataclass(frozen=True)
class CheckedLog:
    """A consistent table: its collective, its number of ranks, and its warnings.

    ``collective`` is a name of ``grammar.Goal``, or ``send-receive``. ``ranks`` is the number of
    ranks of one group, or None; ``groups`` is the number of concurrent groups. ``hosts`` is None if
    unknown. ``rows`` has the rows of sizes above 0 with at least one usable time.
    """

    table: Table
    collective: str
    ranks: int | None
    groups: int
    hosts: int | None
    rows: tuple[LogRow, ...]
    warnings: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return self.table.source

    @property
    def devices(self) -> tuple[str, ...]:
        """The distinct models of the devices that took part."""
        return tuple(sorted({place.name for place in self.table.places if place.name}))
