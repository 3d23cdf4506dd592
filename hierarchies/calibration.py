"""A machine's fitted numbers, in addition to the numbers that its makers state.

By one algorithm and protocol, a collective of s bytes takes

    launch + sum of hops + sum of peers + s x the busiest level's seconds per byte

seconds. Each message that waits for another costs a *hop*. The *launch* is paid once per call. A
member that exchanges with all others at once, as in an all-to-all, pays for each *peer*, and
transfers do not hide that cost. The costs of hops and peers depend on the bytes of the message, by
a factor that is common to all collectives and numbers of members (``MessageCurve``): transports
send short messages inline, longer ones through buffers, and the longest after a handshake, so the
cost has steps, and it can fall. On Polaris a peer cost 22.8 us up to 256 bytes and 10 us above,
among 8 ranks and among 1024. A level's bandwidth is that of the description times

    share x (1 - loss) ^ log2(children / 2)

Each number is fitted per collective, algorithm and protocol; the name "" matches all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, hypot, isfinite, log, log2
from typing import TypeVar

from hierarchies.errors import InputError

ANY = ""
_APART = "all-to-all"
_AT_ONCE = "direct"
"""The algorithm that sends to all members at once: the only one with curves of its own."""
FASTEST, MODEL = RUNTIMES = ("fastest", "model")
COVERED = 0.9
"""The share of the rows of a class whose ratio is between ``low`` and ``high``."""
NORMAL_MARGIN = 1.645
"""``COVERED`` of a normal distribution is within this many standard deviations."""
MORE_CHILDREN, MORE_BYTES, FEWER_BYTES, DOUBLINGS_OF_BYTES, APART = 0.1, 0.1, 0.2, 6, 0.5
"""Additional error of prices beyond the measured rows, as standard deviations of a logarithm: for
each doubling of children; for each doubling or halving of sizes, up to ``DOUBLINGS_OF_BYTES``; and
for an all-to-all where none was measured. Of 126 tables priced by fits to a part of their sizes and
of 27 by fits to fewer nodes (results/fidelity) 90 % were within e^0.5 one doubling of sizes away,
e^0.9 three, e^1.4 six; farther within e^1.1 above all rows, where only bytes limit, and e^1.9
below, where latencies do; and within e^0.6 one doubling of nodes away, e^0.9 to e^1.6 five."""


@dataclass(frozen=True)
class Crossing:
    """The fitted numbers of one level's links: seconds per message, share of their bandwidth.

    ``share`` applies between two children of a parent; each doubling of the children loses the
    fraction ``loss``.
    """

    hop_seconds: float
    share: float
    peer_seconds: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        for seconds in (self.hop_seconds, self.peer_seconds):
            _check(
                seconds >= 0, f"{seconds} s for a message", "a finite number, 0 or more", seconds
            )
        _check(self.share > 0, f"a share of {self.share}", "a finite number above 0", self.share)
        _check(0 <= self.loss < 1, f"a loss of {self.loss}", "0 or more, below 1", self.loss)

    def share_among(self, children: int) -> float:
        """Return the share of the bandwidth that this many children of one parent reach.

        >>> [Crossing(0.0, 1.0, loss=0.25).share_among(n) for n in (2, 4, 8)]
        [1.0, 0.75, 0.5625]
        """
        if children <= 2:
            return self.share
        return self.share * float((1 - self.loss) ** log2(children / 2))


@dataclass(frozen=True)
class MessageCurve:
    """The cost of a message over one level's links by its size, relative to the fitted cost.

    ``factors`` belong to messages of ``sizes`` bytes, ascending. Between two sizes the factor is
    interpolated on logarithmic scales; beyond the ends it is constant. ``algorithm`` names one that
    sends to all members at once, by other code of the runtime; all others have curves in common.
    """

    level: int
    sizes: tuple[float, ...]
    factors: tuple[float, ...]
    protocol: str
    algorithm: str = ANY

    def __post_init__(self) -> None:
        ascending = all(low < high for low, high in pairwise((0.0, *self.sizes)))
        text = f"factors of messages of {self.sizes} bytes"
        _check(bool(self.sizes) and ascending, text, "sizes above 0 that ascend")
        counts = f"{len(self.factors)} factors of {len(self.sizes)} sizes"
        _check(len(self.factors) == len(self.sizes), counts, "one factor for each size")
        for factor in self.factors:
            _check(factor > 0, f"a factor of {factor}", "a finite number above 0", factor)

    def at(self, message_bytes: float) -> float:
        """Return the factor of a message.

        >>> [MessageCurve(0, (64.0, 256.0), (1.0, 4.0), "simple").at(m) for m in (8, 128, 1024)]
        [1.0, 2.0, 4.0]
        """
        sizes, factors = self.sizes, self.factors
        above = bisect_right(sizes, message_bytes)
        if above in (0, len(sizes)):
            return factors[min(above, len(sizes) - 1)]
        place = log2(message_bytes / sizes[above - 1]) / log2(sizes[above] / sizes[above - 1])
        return float(factors[above - 1] * (factors[above] / factors[above - 1]) ** place)


@dataclass(frozen=True)
class Fit:
    """The fitted numbers of a collective by an algorithm and a protocol.

    ``levels`` has one entry for each level, outermost first. ``rows``: the number of measured rows
    assigned to it; 0 if its numbers come from similar fits.
    """

    protocol: str
    levels: tuple[Crossing, ...]
    launch_seconds: float
    algorithm: str = ANY
    collective: str = ANY
    rows: int = 0

    def __post_init__(self) -> None:
        launch = self.launch_seconds
        _check(launch >= 0, f"a launch of {launch} s", "a finite number, 0 or more", launch)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.collective, self.algorithm, self.protocol


@dataclass(frozen=True)
class Residual:
    """The spread of measured over fitted seconds, in one class of message sizes.

    The class begins at ``smallest_bytes`` and ends where the next class of the calibration begins.
    ``COVERED`` of the held-out rows are between the ratios ``low`` and ``high``: 0.9 and 1.2 mean
    that most rows took from 10% less to 20% more than their price.
    """

    smallest_bytes: int
    rows: int
    low: float
    median: float
    high: float
    protocol: str = ANY
    algorithm: str = ANY
    collective: str = ANY

    def __post_init__(self) -> None:
        ordered = 0 < self.low <= self.median <= self.high
        text = f"ratios {self.low}, {self.median}, {self.high}"
        _check(ordered, text, "low, median and high are positive and ascend", self.high)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.collective, self.algorithm, self.protocol


@dataclass(frozen=True)
class MeasuredRange:
    """A measured range of sizes, of one collective among groups of one shape.

    ``members`` has, outermost level first, the number of children of one parent that contain
    members of one group, so (2, 8) are 16 ranks on two nodes. ``ways`` has the algorithms and
    protocols to which its rows were assigned. ``forced``: the algorithm is known to have run,
    because the runtime was forced to use it or has no other. Otherwise the runtime chose, and the
    fit assigned the ways. In that case only the runtime's own choice was measured, and each range
    ends where the fit expects the choice to change. Prices of measured configurations have tighter
    intervals than others.
    """

    collective: str
    members: tuple[int, ...]
    ways: tuple[tuple[str, str], ...]
    smallest_bytes: int
    largest_bytes: int
    forced: bool = False

    def __post_init__(self) -> None:
        text = f"{self.collective} measured from {self.smallest_bytes} to {self.largest_bytes}"
        _check(0 < self.smallest_bytes <= self.largest_bytes, text, "sizes above 0 that ascend")
        _check(min(self.members, default=0) > 0, f"groups of {self.members}", "1 or more a level")

    def covers(
        self, collective: str, how: tuple[str, str], members: tuple[int, ...], size_bytes: float
    ) -> bool:
        """Whether these rows measured this algorithm and protocol at this size.

        If a fit assigned several ways to one range, it is unknown which ran at a size.
        """
        return (
            (self.collective, self.members) == (collective, members)
            and self.smallest_bytes <= size_bytes <= self.largest_bytes
            and how in self.ways
            and (self.forced or len(self.ways) == 1)
        )


@dataclass(frozen=True)
class TableResidual:
    """The deviation of a whole table from a fit made without it (leave one out), as ratios.

    Size classes are those of ``Residual``. ``tables`` is the number of tables that were left out in
    turn; 0 if there was only one, so that the ratios are a prior expectation. All-to-alls have
    separate strays if they have tables, because no other collective sends to every peer.
    """

    smallest_bytes: int
    tables: int
    low: float
    high: float
    collective: str = ANY

    def __post_init__(self) -> None:
        text = f"ratios {self.low} and {self.high}"
        _check(0 < self.low <= 1 <= self.high, text, "low is positive; 1 is between", self.high)

    def within(self, machines: Residual) -> TableResidual:
        """Limit the ratios to the spread among machines with the same kinds of links."""
        low, high = max(self.low, min(1.0, machines.low)), min(self.high, max(1.0, machines.high))
        return replace(self, low=low, high=high)

    def opened(self, spread: float) -> TableResidual:
        """Widen the ratios by an independent error, the standard deviation of a logarithm."""
        margin = NORMAL_MARGIN * spread
        low, high = (exp(hypot(log(ratio), margin)) for ratio in (self.low, self.high))
        return replace(self, low=1 / low, high=high) if spread else self


@dataclass(frozen=True)
class UndeterminedLevels:
    """Levels, one of which is slower than expected, although the rows do not determine which.

    ``taken`` is the level whose numbers were changed to explain the rows; the others keep the
    expected numbers. A slowdown of any of them would explain the rows.
    """

    levels: tuple[str, ...]
    taken: str

    def __post_init__(self) -> None:
        _check(len(self.levels) > 1, f"levels {self.levels} cannot be distinguished", "two or more")
        _check(self.taken in self.levels, f"{self.taken!r} taken", "one of these levels")

    def __str__(self) -> str:
        names = " and ".join(map(repr, self.levels))
        return f"levels {names} cannot be distinguished: one is slow, taken to be {self.taken!r}"


_Class = TypeVar("_Class", Residual, TableResidual)


@dataclass(frozen=True)
class Calibration:
    """The result of a fit: its numbers, their errors, and the numbers that are undetermined.

    ``runtime`` states how the runtime seems to choose its algorithm if none was forced: the
    fastest, or by the published model of NCCL; among protocols it chooses the fastest. ``measured``
    has the configurations of its rows, ``strays`` the possible errors of prices of others.
    ``undetermined`` and ``dropped`` are sentences: about numbers that the rows cannot separate or
    do not constrain, and about rows that the fit did not follow. Every protocol with a fit has a
    fit for any algorithm and collective. ``families`` is the number of families of other machines
    from whose links the numbers are derived; 0 if this machine was measured. ``machines`` is the
    spread among machines with such links, by class of sizes; empty if no such links are known. It
    was known before this machine was measured, so it still limits errors. ``undetermined_levels``
    has sets of levels, one of which is slow although the rows do not determine which. ``nccl`` is
    the version of NCCL that was measured, as ``2.22.3``; "" if no log states it. ``curves`` has the
    factors of messages by size; without one, all messages of a level cost the same.
    """

    fits: tuple[Fit, ...]
    residuals: tuple[Residual, ...]
    sources: tuple[str, ...] = ()
    undetermined: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    runtime: str = FASTEST
    measured: tuple[MeasuredRange, ...] = ()
    strays: tuple[TableResidual, ...] = ()
    families: int = 0
    machines: tuple[Residual, ...] = ()
    undetermined_levels: tuple[UndeterminedLevels, ...] = ()
    nccl: str = ""
    curves: tuple[MessageCurve, ...] = ()

    def __post_init__(self) -> None:
        text = f"a runtime that chooses by {self.runtime!r}"
        _check(self.runtime in RUNTIMES, text, f"known are: {', '.join(RUNTIMES)}")
        keys = [fit.key for fit in self.fits]
        twice = [key for key in keys if keys.count(key) > 1]
        _check(
            not twice, f"two fits for {_name_of_key(twice[0]) if twice else ''}", "one is enough"
        )
        _check(
            "simple" in self.protocols, "no fit for the protocol 'simple'", "every link knows it"
        )
        lacking = {key[2] for key in keys} - {key[2] for key in keys if key[:2] == (ANY, ANY)}
        text = f"no fit for any algorithm by protocol {min(lacking, default='')!r}"
        _check(not lacking, text, "add one without algorithm and collective")
        self._check_curves()

    def _check_curves(self) -> None:
        curves = [(each.algorithm, each.protocol, each.level) for each in self.curves]
        repeated = next((key for key in curves if curves.count(key) > 1), None)
        _check(repeated is None, f"two curves of messages for {repeated}", "one is enough")
        for way, protocol, level in curves:
            _check(way in (ANY, _AT_ONCE), f"a curve of messages by {way!r}", f"none or {_AT_ONCE}")
            _check(protocol in self.protocols, f"a curve of {protocol!r}", "add a fit of it")
            known = len(self.fits[0].levels)
            _check(level < known, f"a curve of level {level}", f"there are {known} levels")

    @property
    def protocols(self) -> frozenset[str]:
        """The fitted protocols; a system with a calibration uses no others."""
        return frozenset(fit.protocol for fit in self.fits)

    def fit(self, collective: str, algorithm: str, protocol: str) -> Fit | None:
        """Return the most specific matching fit; None if the protocol was not fitted."""
        known = {fit.key: fit for fit in self.fits}
        return next(
            (known[key] for key in _wider_keys(collective, algorithm, protocol) if key in known),
            None,
        )

    def curve(self, algorithm: str, protocol: str, level: int) -> MessageCurve | None:
        """Return the curve of a level's messages; None if they all cost the same."""
        key = algorithm, protocol, level
        curves = (
            each for each in self.curves if (each.algorithm, each.protocol, each.level) == key
        )
        return next(curves, None)

    def residual(
        self, collective: str, algorithm: str, protocol: str, size_bytes: float
    ) -> Residual | None:
        """Return the residual of the most specific matching key in the class of this size."""
        edges = sorted({residual.smallest_bytes for residual in self.residuals})
        edge = max((edge for edge in edges if edge <= size_bytes), default=min(edges, default=0))
        known = {
            residual.key: residual for residual in self.residuals if residual.smallest_bytes == edge
        }
        keys = (*_wider_keys(collective, algorithm, protocol), (ANY, ANY, ANY))
        return next((known[key] for key in keys if key in known), None)

    def stray(
        self, way: tuple[str, str, str], members: tuple[int, ...], size_bytes: float
    ) -> TableResidual | None:
        """Return the possible error of an unmeasured configuration's price; None if measured.

        The error is that of the size's class, or of the lowest class for smaller sizes. It is
        widened by the distance beyond all measured rows (``extrapolation_spread``), and limited by
        the spread among machines with such links.
        """
        collective, how = way[0], way[1:]
        seen = any(rows.covers(collective, how, members, size_bytes) for rows in self.measured)
        if seen or not self.strays:
            return None
        known = {stray.collective for stray in self.strays}
        nearest = collective if collective in known else ANY if ANY in known else min(known)
        strays = [stray for stray in self.strays if stray.collective == nearest]
        spread = extrapolation_spread(self.measured, collective, members, size_bytes)
        stray = _class_of_size(strays, size_bytes).opened(spread)
        return stray.within(_class_of_size(self.machines, size_bytes)) if self.machines else stray

    @property
    def generosity(self) -> tuple[float, ...]:
        """The largest fitted share of each level's bandwidth, at least 1: the links' capacity."""
        levels = zip(*(fit.levels for fit in self.fits), strict=True)
        return tuple(max(1.0, *(crossing.share for crossing in crossings)) for crossings in levels)


def extrapolation_spread(
    measured: Collection[MeasuredRange],
    collective: str,
    members: tuple[int, ...],
    size_bytes: float,
) -> float:
    """Return the additional error of a price beyond the measured rows, as a standard deviation.

    Grows with the doublings from the nearest end of the measured rows: of children at each level,
    and of sizes. Only rows of the same collective count, or all rows if it was not measured.
    """
    own = [rows for rows in measured if rows.collective == collective]
    known = own or [*measured]
    if not known:
        return 0.0
    smallest = min(rows.smallest_bytes for rows in known)
    largest = max(rows.largest_bytes for rows in known)
    apart = APART * (collective == _APART and not own)
    shapes = zip(*(rows.members for rows in known), strict=True)
    child_doublings = sum(map(_count_doublings, members, shapes))
    doublings = min(_count_doublings(size_bytes, (smallest, largest)), DOUBLINGS_OF_BYTES)
    beyond = (FEWER_BYTES if size_bytes < smallest else MORE_BYTES) * doublings
    return hypot(apart, MORE_CHILDREN * child_doublings, beyond)


def _class_of_size(classes: Collection[_Class], size_bytes: float) -> _Class:
    """Return the class of a size; the lowest one for a size below all classes."""
    ordered = sorted(classes, key=lambda size_class: size_class.smallest_bytes)
    below = [each for each in ordered if each.smallest_bytes <= size_bytes]
    return (below or ordered[:1])[-1]


def _count_doublings(number: float, known: Iterable[float]) -> float:
    """Return the doublings from the range of ``known`` to a number; 0 inside the range."""
    ends = sorted(known)
    return max(0.0, log2(ends[0] / number), log2(number / ends[-1]))


def _wider_keys(collective: str, algorithm: str, protocol: str) -> Iterator[tuple[str, str, str]]:
    yield collective, algorithm, protocol
    yield ANY, algorithm, protocol
    yield ANY, ANY, protocol


def _name_of_key(key: tuple[str, str, str]) -> str:
    return " ".join(name or "any" for name in key)


def _check(holds: bool, text: str, hint: str, number: float = 0.0) -> None:
    if not holds or not isfinite(number):
        raise InputError(text, hint=hint)
