"""Measured runs beside the prediction: what they should reach, and which level limits them.

Take a level whose links need S seconds at the bandwidth described. A run of T seconds shows that
the level delivers at least S/T of that bandwidth, as it was busy for at most T. Where a run falls
short, some level delivers just that share, or what ran is not what was predicted. A level is
cleared by any other run in which it delivered more than that; if one level is left, it is named.
Nothing is concluded that these numbers do not show.

Prices that are typical of such links, or calibrated, have an interval: what lies in it is as
expected. A level then falls short of what its medium reaches elsewhere, not of its data sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Literal

from hierarchies import System
from hierarchies.units import duration, volume
from synth.calibration.experiments import isolating
from synth.calibration.logs.matching import Matched
from synth.calibration.logs.tables import busbw_factor
from synth.calibration.prediction import Predicted, Predictor
from synth.calibration.slow_level import NINE_OF_TEN, SHORT
from synth.collectives.nccl_model import SPELLINGS
from synth.price.bound import Bound
from synth.price.ways import MEMORY

CLEARED = 1.1
"""A level is cleared if it delivered this many times the share of this run in another run."""
LARGE, SMALL = 0.1, 0.9
"""Latency's share of the prediction: at most LARGE for large sizes, at least SMALL for small."""
PORT_FIT = 0.02
"""A share this close to 1/2, 1/4, ... is reported as so many of the ports carrying traffic."""


@dataclass(frozen=True)
class Reading:
    """One size of a run: what it took, what it should have, and what no schedule can beat."""

    size_bytes: int
    in_place: bool
    seconds: float
    predicted: Predicted
    bound: Bound

    @property
    def share(self) -> float:
        """Predicted over measured seconds: 1 is as predicted, less is slower."""
        return self.predicted.seconds / self.seconds

    @property
    def explained(self) -> bool:
        """Whether the measured time is at most the upper end of the prices' interval.

        Nineteen of twenty machines are below that: of machines in general what nine of ten take.
        """
        margin = self.predicted.interval
        if margin is None:
            return False
        slower = margin.high_seconds / self.predicted.seconds
        part = NINE_OF_TEN if margin.among_machines else 1.0
        return self.seconds <= self.predicted.seconds * float(slower**part)

    @property
    def quick(self) -> bool:
        """Whether the measured time is below the lower end of the prices' interval, if any."""
        margin = self.predicted.interval
        return margin is None or self.seconds < margin.low_seconds

    @property
    def waiting(self) -> float:
        """The share of the prediction that is waiting for messages."""
        return self.predicted.price.latency_seconds / self.predicted.seconds


@dataclass(frozen=True)
class Run:
    """One log: its readings, and what its large sizes say of each level.

    ``share`` is the median of predicted/measured at large sizes, ``slower`` of measured/predicted
    at small ones, ``extra_seconds`` what small ones take beyond the prediction; each None without
    such sizes. ``delivered`` are the shares of its described bandwidth that each level delivers at
    least; ``limited_by`` is the level the prediction waits for longest.
    """

    matched: Matched
    readings: tuple[Reading, ...]
    share: float | None
    slower: float | None
    extra_seconds: float | None
    delivered: dict[str, float]
    limited_by: str
    way: str

    @property
    def source(self) -> str:
        return self.matched.log.source

    @property
    def short(self) -> bool:
        large = [r for r in self.readings if r.waiting <= LARGE]
        explained = 2 * sum(r.explained for r in large) >= len(large)
        return self.share is not None and self.share < SHORT and not explained

    @property
    def too_good(self) -> bool:
        large = [r for r in self.readings if r.waiting <= LARGE]
        quick = 2 * sum(r.quick for r in large) > len(large)
        return self.share is not None and self.share > 1 / SHORT and quick

    @property
    def factor(self) -> float:
        """The factor from size / seconds (algbw) to busbw."""
        measurement = self.matched.measurement
        return busbw_factor(measurement.collective, prod(measurement.members))


FindingKind = Literal[
    "as-predicted",
    "short",
    "no-large-sizes",
    "cleared",
    "level-short",
    "open",
    "unexplained",
    "other-algorithm",
    "above-prediction",
    "below-bound",
    "latency",
    "middle",
]


@dataclass(frozen=True)
class Finding:
    """One statement, and the level it is about ("" for none).

    ``tests`` are the names of the experiments that would tell the ``suspects`` apart.
    """

    kind: FindingKind
    text: str
    level: str = ""
    source: str = ""
    share: float | None = None
    suspects: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All runs, and what they say together."""

    system: System
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...]


def diagnose(system: System, matched: Sequence[Matched]) -> Diagnosis:
    """Compare runs with the prediction. Raises InputError for what cannot be priced."""
    runs = tuple(_run(system, one) for one in matched)
    return Diagnosis(system, runs, tuple(_findings(system, runs)))


def _run(system: System, one: Matched) -> Run:
    predictor = Predictor(system, one.measurement)
    known: dict[int, tuple[Predicted, Bound]] = {}
    readings = []
    for sample in one.measurement.samples:
        size = sample.size_bytes
        if size not in known:
            known[size] = predictor.at(size), predictor.bound(size)
        readings.append(Reading(size, sample.in_place, sample.seconds, *known[size]))
    large = [r for r in readings if r.waiting <= LARGE]
    small = [r for r in readings if r.waiting >= SMALL]
    last = max(readings, key=lambda r: r.size_bytes)
    return Run(
        one,
        tuple(readings),
        median(r.share for r in large) if large else None,
        median(1 / r.share for r in small) if small else None,
        median(r.seconds - r.predicted.seconds for r in small) if small else None,
        _delivered(large),
        last.predicted.price.busiest,
        last.predicted.way,
    )


def _delivered(large: Sequence[Reading]) -> dict[str, float]:
    """For each level, the median share of its described bandwidth used at large sizes."""
    shares: dict[str, list[float]] = {}
    for reading in large:
        price = reading.predicted.price
        for name, busy in price.busy_seconds:
            if busy and name != MEMORY:
                streaming = max(reading.seconds - price.latency_seconds, busy * 1e-3)
                shares.setdefault(name, []).append(busy / streaming)
    return {name: median(found) for name, found in shares.items()}


def _findings(system: System, runs: Sequence[Run]) -> Iterator[Finding]:
    for run in runs:
        yield from _reached(system, run)
        if run.short:
            yield from _blamed(system, run, runs)
        elif run.too_good:
            yield _too_good(run)
        if any(r.seconds < r.bound.seconds * 0.999 for r in run.readings):
            yield _below_bound(run)
        yield from _waited(run)
        yield from _between(run)


def _reached(system: System, run: Run) -> Iterator[Finding]:
    if run.share is None:
        text = "all its sizes wait for messages: it says nothing of bandwidth"
        yield Finding("no-large-sizes", f"{_named(run)}: {text}", source=run.source)
        return
    kind: FindingKind = "short" if run.short else "as-predicted"
    text = f"{_named(run)}: {run.share:.0%} of the predicted bandwidth (by {run.way})"
    if system.prices == "typical":
        expected = "less than nine of ten reach" if run.short else "as expected"
        text += f": {expected} of such links on other machines"
    yield Finding(kind, text, source=run.source, share=run.share)


def _blamed(system: System, run: Run, runs: Sequence[Run]) -> Iterator[Finding]:
    """Which level explains that a run falls short, if only one does."""
    left = {}
    for name, share in run.delivered.items():
        if share > 1 / CLEARED:
            continue
        best = max(other.delivered.get(name, 0.0) for other in runs)
        if best < share * CLEARED:
            left[name] = share
        else:
            shower = max(runs, key=lambda other: other.delivered.get(name, 0.0))
            yield Finding(
                "cleared",
                f"not level {name!r}: it delivers {best:.0%} in {shower.source}, "
                f"and {share:.0%} would do here",
                name,
                run.source,
                best,
            )
    others = _as_other_way(run)
    if len(left) == 1 and not others:
        [(name, share)] = left.items()
        text = f"level {name!r} falls short: {share:.0%} of what {_expected(system)}"
        yield Finding(
            "level-short", text + _ports(system, name, share), name, run.source, share, (name,)
        )
    elif left:
        yield _open(system, run, left, others)
    else:
        text = "no level explains it: each delivers more in another run; what ran is not what was"
        yield Finding("unexplained", f"{text} predicted ({run.way})", source=run.source)
    if others:
        yield _other(run, others)


def _open(system: System, run: Run, left: dict[str, float], others: Sequence[str]) -> Finding:
    """The finding where more than one level, or another algorithm, would explain the run."""
    likely = max(left, key=lambda name: left[name])
    shares = [f"{name!r} with {share:.0%}" for name, share in left.items()]
    listed = f"level {' or '.join(shares)} of what {_expected(system)}"
    if len(left) == 1:
        text = f"{listed} would explain it, and so would another algorithm"
    else:
        text = f"{listed}: not told apart; most likely {likely!r}, the busiest"
    found = [isolating(system, name) for name in left]
    tests = tuple(one.name for one in found if one is not None)
    return Finding("open", text, likely, run.source, left[likely], tuple(left), tests)


def _expected(system: System) -> str:
    """What the share of a level is a share of: what ..."""
    if system.prices == "typical":
        return "such links reach"
    return "was measured before" if system.prices == "calibrated" else "is described"


def _as_other_way(run: Run) -> list[str]:
    """Other ways than the predicted one that have about the measured time at large sizes."""
    if run.matched.measurement.algorithm is not None:
        return []
    large = [r for r in run.readings if r.waiting <= LARGE]
    found = []
    for way in large[-1].predicted.options if large else ():
        shares = [r.predicted.options[way] / r.seconds for r in large if way in r.predicted.options]
        if way != run.way and shares and abs(median(shares) - 1) <= 1 - SHORT:
            found.append(way)
    return found


def _other(run: Run, others: Sequence[str]) -> Finding:
    names = " and ".join(others)
    return Finding(
        "other-algorithm",
        f"it is what {names} would take: did the runtime not choose {run.way}? "
        f"NCCL_ALGO={SPELLINGS[run.way]} or NCCL_DEBUG=INFO tells",
        source=run.source,
    )


def _ports(system: System, level: str, share: float) -> str:
    """``; as if 4 of its 8 ports carried``, where the arithmetic fits."""
    ports = system.links[system.hierarchy.index(level)].ports
    some = round(share * ports)
    if 0 < some < ports and ports % some == 0 and abs(share - some / ports) <= PORT_FIT:
        return f"; as if {some} of its {ports} ports carried"
    return ""


def _too_good(run: Run) -> Finding:
    return Finding(
        "above-prediction",
        f"faster than predicted: the description gives level {run.limited_by!r} too little, "
        f"or the runtime has a better way than {run.way}",
        run.limited_by,
        run.source,
        run.share,
    )


def _below_bound(run: Run) -> Finding:
    worst = min(run.readings, key=lambda r: r.seconds / r.bound.seconds)
    level = worst.bound.level
    what = "its messages" if level == "latency" else f"level {level!r}"
    return Finding(
        "below-bound",
        f"{worst.size_bytes} bytes took {duration(worst.seconds)}, less than the bound of "
        f"{duration(worst.bound.seconds)}: {what} can do more than is described",
        "" if level == "latency" else level,
        run.source,
        worst.seconds / worst.bound.seconds,
    )


def _waited(run: Run) -> Iterator[Finding]:
    """A finding on small sizes. The prices have a call's launch, so it is on what is above that."""
    if run.slower is None or run.extra_seconds is None:
        return
    small = [r for r in run.readings if r.waiting >= SMALL]
    if run.slower > 1 / SHORT and 2 * sum(r.explained for r in small) < len(small):
        text = (
            f"small sizes take {run.slower:.1f}x the prediction, {duration(run.extra_seconds)} more"
        )
        yield Finding("latency", text, source=run.source, share=1 / run.slower)


def _between(run: Run) -> Iterator[Finding]:
    """A finding on middle sizes, of both latency and bandwidth: how far the worst is off."""
    middle = [r for r in run.readings if LARGE < r.waiting < SMALL]
    if not middle:
        return
    worst = min(middle, key=lambda r: r.share)
    if worst.share < SHORT and not worst.explained:
        sizes = sorted(r.size_bytes for r in middle)
        text = (
            f"from {volume(sizes[0])} to {volume(sizes[-1])} {worst.share:.0%} of the prediction "
            f"at worst, at {volume(worst.size_bytes)}"
        )
        yield Finding("middle", text, source=run.source, share=worst.share)


def _named(run: Run) -> str:
    measurement = run.matched.measurement
    parts = " x ".join(str(count) for count in measurement.members)
    return f"{run.source}: {measurement.collective} of {parts}"
