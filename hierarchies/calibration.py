"""What measurements showed of a machine, kept beside the numbers that its makers state.

A collective of s bytes takes, by one algorithm and protocol,

    launch + sum of hops + sum of peers + max(sum of gaps, s x the busiest level's seconds per byte)

which is LogGP (Alexandrov et al., 1995) for collectives. Each message that waits for another pays
a *hop*. Between two such messages lies at least a *gap*, hidden while bytes are on the wire: hence
the maximum. The *launch* is paid once a call. Where a member exchanges with all others at once, as
in an all-to-all, it pays for each *peer*, whatever is on the wire meanwhile: on Polaris 11 to 23 us
from 8 to 1024 ranks. A level's bandwidth is that of the description times

    share x wide (where more than two children take part) x (1 - loss) ^ log2(children / 2)

Each is fitted per collective, algorithm and protocol; "" as a name stands for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from math import exp, hypot, isfinite, log, log2
from typing import TypeVar

from hierarchies.errors import InputError

ANY = ""
_APART = "all-to-all"
FASTEST, MODEL = RUNTIMES = ("fastest", "model")
COVERED = 0.9
"""The share of the rows of a class whose ratio lies between ``low`` and ``high``."""
NORMAL_MARGIN = 1.645
"""So many standard deviations hold ``COVERED`` of a normal distribution."""
MORE_CHILDREN, MORE_BYTES, DOUBLINGS_OF_BYTES, APART = 0.1, 0.2, 6, 0.5
"""What a price beyond the measured rows may be off besides, as standard deviations of a logarithm:
for each doubling of children; of sizes, but for so many at most; and of an all-to-all where none
was measured. Of 126 tables priced by fits to a part of their sizes and of 27 by fits to fewer nodes
(results/fidelity) 90 % were within e^0.5 one doubling of sizes away, e^0.9 three, e^1.4 six, and
e^1.8 farther; and within e^0.6 one doubling of nodes away, e^0.9 to e^1.6 five."""


@dataclass(frozen=True)
class Crossing:
    """The fitted numbers of one level's links: seconds per message, share of their bandwidth.

    ``share`` is that among two children of a parent. Among more there is left of it ``wide`` (0.5
    for NCCL's trees between nodes, whose busiest port carries twice what it must), and a part
    ``loss`` is gone with each doubling. Neither adds anything: what links carry is ``share``.
    """

    hop_seconds: float
    gap_seconds: float
    share: float
    peer_seconds: float = 0.0
    wide: float = 1.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        for seconds in (self.hop_seconds, self.gap_seconds, self.peer_seconds):
            _check(
                seconds >= 0, f"{seconds} s for a message", "a finite number, 0 or more", seconds
            )
        _check(self.share > 0, f"a share of {self.share}", "a finite number above 0", self.share)
        _check(0 < self.wide <= 1, f"a wide share of {self.wide}", "above 0, at most 1", self.wide)
        _check(0 <= self.loss < 1, f"a loss of {self.loss}", "0 or more, below 1", self.loss)

    def share_among(self, children: int) -> float:
        """The share of the bandwidth that so many children of one parent reach.

        >>> [Crossing(0.0, 0.0, 1.0, wide=0.5, loss=0.25).share_among(n) for n in (2, 4, 8)]
        [1.0, 0.375, 0.28125]
        """
        if children <= 2:
            return self.share
        return self.share * self.wide * float((1 - self.loss) ** log2(children / 2))


@dataclass(frozen=True)
class Fit:
    """The fitted numbers of one way: a collective by an algorithm and a protocol.

    ``levels`` has one entry for each level, outermost first. ``rows``: how many measured rows were
    assigned to this way; 0 where its numbers come from similar ways.
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

    The class begins at ``smallest_bytes`` and ends where the next one of the calibration begins.
    Of the rows that the fit had not seen, ``COVERED`` lie between the ratios ``low`` and ``high``:
    0.9 and 1.2 say that most rows took from 10% less to 20% more than their price.
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
    """A range of sizes that was measured: of one collective among groups of one shape.

    ``members`` has, outermost level first, how many children of one parent hold members of one
    group, so (2, 8) are 16 ranks on two nodes; ``ways`` are the algorithms and protocols that its
    rows were assigned to. ``forced``: the algorithm is known to have run, because the runtime was
    forced to use it or has no other. Otherwise the runtime chose, and the fit assigned the ways:
    then only the runtime's own choice was measured, and each range ends where the fit takes the
    choice to change. It is kept because prices of measured configurations have tighter intervals
    than others.
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
        """Whether these rows measured what this way takes at this size.

        Of several ways that a fit assigned to one range, nothing tells which ran at a size.
        """
        return (
            (self.collective, self.members) == (collective, members)
            and self.smallest_bytes <= size_bytes <= self.largest_bytes
            and how in self.ways
            and (self.forced or len(self.ways) == 1)
        )


@dataclass(frozen=True)
class TableResidual:
    """How far a whole table lies from a fit made without it (leave one out), as ratios.

    The class is one of ``Residual``'s. ``tables``: how many were left out, one after the other; 0
    where there was only one table, so that the ratios are only a prior expectation. All-to-alls
    have strays of their own where there are such tables: nothing else sends to every peer.
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
        """No farther than machines with such links lie from what these reach elsewhere."""
        low, high = max(self.low, min(1.0, machines.low)), min(self.high, max(1.0, machines.high))
        return replace(self, low=low, high=high)

    def opened(self, spread: float) -> TableResidual:
        """With errors of another kind besides, of a standard deviation of the logarithm."""
        more = NORMAL_MARGIN * spread
        low, high = (exp(hypot(log(ratio), more)) for ratio in (self.low, self.high))
        return replace(self, low=1 / low, high=high) if spread else self


@dataclass(frozen=True)
class UndeterminedLevels:
    """Levels of which one is slower than expected, and no row tells which.

    ``taken`` is the one whose numbers were made to explain the rows; those of the others are what
    was expected. Slow rows would be explained by any of them.
    """

    levels: tuple[str, ...]
    taken: str

    def __post_init__(self) -> None:
        _check(len(self.levels) > 1, f"levels {self.levels} not told apart", "two or more")
        _check(self.taken in self.levels, f"{self.taken!r} taken", "one that was not told apart")

    def __str__(self) -> str:
        names = " and ".join(map(repr, self.levels))
        return f"levels {names} are not told apart: one of them is slow, taken to be {self.taken!r}"


_Class = TypeVar("_Class", Residual, TableResidual)


@dataclass(frozen=True)
class Calibration:
    """All that a fit found: numbers, how far measurements lay from them, and what is not known.

    ``runtime`` says how the runtime seems to choose its algorithm where none was forced: the
    fastest, or by the published model of NCCL; among protocols it takes the fastest.
    ``measured`` are the configurations of its rows, ``strays`` how far others may lie from a price.
    ``undetermined`` and ``dropped`` are sentences: numbers that the rows cannot tell apart or say
    nothing of, and rows that the fit did not follow. Every protocol with a fit has one that serves
    any algorithm and collective. ``families``: of how many families of other machines the numbers
    are what their links reached; 0 where this machine was measured. ``machines``: how far machines
    with such links lie from what these reach elsewhere, by class of sizes. It was known before this
    one was measured, so nothing is known less well since; empty where no such links are known.
    ``untold`` are levels of which one is slow, and the rows do not tell which.
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
    untold: tuple[UndeterminedLevels, ...] = ()

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

    @property
    def protocols(self) -> frozenset[str]:
        """The protocols that have a fit; a system with a calibration uses no others."""
        return frozenset(fit.protocol for fit in self.fits)

    def fit(self, collective: str, algorithm: str, protocol: str) -> Fit | None:
        """The most specific fit for a way; None where its protocol was not fitted."""
        known = {fit.key: fit for fit in self.fits}
        return next(
            (known[key] for key in _wider_keys(collective, algorithm, protocol) if key in known),
            None,
        )

    def residual(
        self, collective: str, algorithm: str, protocol: str, size_bytes: float
    ) -> Residual | None:
        """The residual of this way in the size's class, else of the next wider way that has one."""
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
        """How far off the price of an unmeasured configuration may be; None if it was measured.

        From the class that the size falls into, or the lowest one for a size below all classes;
        opened by how far beyond all measured rows the price lies (``extrapolation_spread``), and no
        farther than machines with such links lie from each other.
        """
        collective, how = way[0], way[1:]
        seen = any(one.covers(collective, how, members, size_bytes) for one in self.measured)
        if seen or not self.strays:
            return None
        known = {one.collective for one in self.strays}
        mine = collective if collective in known else ANY if ANY in known else min(known)
        strays = [one for one in self.strays if one.collective == mine]
        farther = extrapolation_spread(self.measured, collective, members, size_bytes)
        found = _class_of_size(strays, size_bytes).opened(farther)
        return found.within(_class_of_size(self.machines, size_bytes)) if self.machines else found

    @property
    def generosity(self) -> tuple[float, ...]:
        """The largest fitted share of each level's bandwidth, at least 1: what links carry."""
        levels = zip(*(fit.levels for fit in self.fits), strict=True)
        return tuple(max(1.0, *(level.share for level in each)) for each in levels)


def extrapolation_spread(
    measured: Collection[MeasuredRange],
    collective: str,
    members: tuple[int, ...],
    size_bytes: float,
) -> float:
    """How much farther a price may be off than among measured rows, as a standard deviation.

    By doublings from the nearest end of what was measured: of children at each level, and of sizes.
    Those of the same collective count, or of all where it was not measured.
    """
    mine = [one for one in measured if one.collective == collective]
    known = mine or [*measured]
    if not known:
        return 0.0
    sizes = [end for one in known for end in (one.smallest_bytes, one.largest_bytes)]
    apart = APART * (collective == _APART and not mine)
    nodes = sum(map(_count_doublings, members, zip(*(one.members for one in known), strict=True)))
    farther = min(_count_doublings(size_bytes, sizes), DOUBLINGS_OF_BYTES)
    return hypot(apart, MORE_CHILDREN * nodes, MORE_BYTES * farther)


def _class_of_size(classes: Collection[_Class], size_bytes: float) -> _Class:
    """The class that a size falls into; the lowest for a size below all."""
    ordered = sorted(classes, key=lambda one: one.smallest_bytes)
    below = [one for one in ordered if one.smallest_bytes <= size_bytes]
    return (below or ordered[:1])[-1]


def _count_doublings(number: float, known: Iterable[float]) -> float:
    """How many doublings lie between a number and the nearer end of others, if it is outside."""
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
