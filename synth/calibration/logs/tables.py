"""One table of nccl-tests or rccl-tests as it was printed: nothing is mapped or averaged yet."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan

from synth.calibration.measurements import SEND_RECEIVE

COLLECTIVES = {
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "all_gather": "all-gather",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "all-to-all",
    "sendrecv": SEND_RECEIVE,
}
"""The tests that are read, by the names of their programs, and what they measure in our words."""
UNREAD = ("gather", "scatter", "hypercube", "alltoallv", "all_reduce_bias", "bisection")
"""The tests that measure what is no request of ours; longer names before those they contain."""
PIECES = ("reduce-scatter", "all-gather", "all-to-all")
"""Those whose count is of one piece: their size is count x type x ranks."""
BARE = ("size", "count")
"""The columns before times of mscclpp-test, which names no type: its elements are ``int``, and
in-place times come first (microsoft/mscclpp, test/mscclpp-test/common.cc, at 071859f)."""
MOST_ROWS = 20_000
"""Of all tables of a log: a run of a test has some dozens."""
WORD_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("float", "int32", "uint32", "int"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
}
"""The element types the tests know, by name, and the bytes of one."""


def busbw_factor(collective: str, ranks: int) -> float:
    """What nccl-tests multiply size/time by to get busbw (their doc/PERFORMANCE.md)."""
    if collective == "all-reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in PIECES else 1.0


@dataclass(frozen=True)
class Timing:
    """The columns of one half of a row: microseconds and GB/s are SI here, as printed otherwise.

    ``slack`` are half a unit of the last digit printed, of each of the three. ``wrong`` is None
    where nothing was checked. A number that was no number is NaN.
    """

    seconds: float
    algbw_bytes_per_second: float
    busbw_bytes_per_second: float
    wrong: float | None = None
    slack: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def unusable(self) -> str:
        """Why this time must not be used; "" if it may."""
        if isnan(self.seconds) or not isfinite(self.seconds):
            return "a time that is no number"
        if self.seconds <= 0:
            return "a time of zero"
        if self.wrong is not None and self.wrong != 0:
            return "wrong results"
        return ""

    def ratio(self) -> tuple[float, float]:
        """The least and the greatest busbw/algbw that would be printed so."""
        _, of_algbw, of_busbw = self.slack
        algbw, busbw = self.algbw_bytes_per_second, self.busbw_bytes_per_second
        if not (algbw > of_algbw and busbw > of_busbw):
            return 0.0, inf
        return (busbw - of_busbw) / (algbw + of_algbw), (busbw + of_busbw) / (algbw - of_algbw)

    def agrees(self, size_bytes: int, factor: float = 1.0) -> bool:
        """Whether algbw is size x factor / time, as far as the digits printed can say."""
        of_time, of_algbw, _ = self.slack
        if self.unusable or isnan(self.algbw_bytes_per_second):
            return True
        least = size_bytes * factor / (self.seconds + of_time) * (1 - 1e-5) - of_algbw
        fastest = self.seconds - of_time
        most = size_bytes * factor / fastest * (1 + 1e-5) + of_algbw if fastest > 0 else inf
        return least <= self.algbw_bytes_per_second <= most


@dataclass(frozen=True)
class Row:
    """One size: the largest buffer of a rank in bytes, as all tests print it, and its times.

    ``count`` is the number of elements the test prints, -1 where it prints none; ``kind`` their
    type; ``operation`` and ``root`` are None where the layout has no such column.
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
class Rank:
    """One line of the list of devices; hosts are numbered as they come up, their names dropped."""

    rank: int
    group: int
    host: int | None
    device: int
    name: str


@dataclass(frozen=True)
class Table:
    """One table, and what its file tells of the run.

    ``stated_ranks`` and ``stated_hosts`` are of a whole run, all groups together, and
    ``stated_per_host`` ranks of each of its hosts, where a file says so; ``notes`` what its own
    comment lines state (``# members: 2,8``), ``places`` its device list. ``algorithm`` and
    ``protocol`` are what NCCL_ALGO and NCCL_PROTO forced, by our names, and ``split`` the value of
    NCCL_TESTS_SPLIT; ``without`` the algorithms that the runtime was kept from, where it had a
    choice of several. ``broken`` counts rows that other output tore apart; ``columns`` are those
    that the head of the table names, up to the first time.
    """

    source: str
    collective: str | None = None
    rows: tuple[Row, ...] = ()
    places: tuple[Rank, ...] = ()
    stated_ranks: int | None = None
    stated_hosts: int | None = None
    stated_per_host: int | None = None
    members: tuple[int, ...] | None = None
    busy: tuple[int, ...] | None = None
    version: str = ""
    algorithm: str | None = None
    protocol: str | None = None
    split: str | None = None
    without: tuple[str, ...] = ()
    broken: int = 0
    single_size: bool = False
    columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes above 0 that were timed, ascending, each once."""
        return tuple(sorted({row.size_bytes for row in self.rows if row.size_bytes}))


@dataclass(frozen=True)
class Log:
    """A table that was checked: what it measured, among how many ranks, and what is doubtful.

    ``collective`` is a name of ``grammar.Goal``, or ``send-receive``. ``ranks`` are those of one
    group, None where nothing tells; ``groups`` ran at once. ``hosts`` is None where unknown.
    ``rows`` are those of sizes above 0 with at least one time that may be used.
    """

    table: Table
    collective: str
    ranks: int | None
    groups: int
    hosts: int | None
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return self.table.source

    @property
    def devices(self) -> tuple[str, ...]:
        """The models of the devices that took part, each once."""
        return tuple(sorted({place.name for place in self.table.places if place.name}))
