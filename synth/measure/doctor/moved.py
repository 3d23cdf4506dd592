"""Findings on runs that were compared with earlier logs: what moved, and which level it is.

A level whose links are busy for a part b of what limits a run (1 for the busiest) explains that the
run's bandwidth fell to the share 1/r if it now delivers b/r of what it had. Any other run in which
it still delivers more clears it. Runs that cross fewer levels come first: what they show explains
runs that cross more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from hierarchies import System
from hierarchies.units import format_bytes, format_duration
from synth.collective.algorithms.algorithms import innermost_network_level
from synth.collective.price.ways import MEMORY
from synth.measure.calibration.experiments import isolating_experiment
from synth.measure.doctor.baseline import PastComparison
from synth.measure.doctor.blame import CLEARED, PORT_FIT, Finding, FindingKind, next_steps
from synth.measure.doctor.changes import Change

ALIKE = 1.5
"""Prices do not say which of two levels needs the lesser fault if the faults differ by less."""
SIDE_EFFECT = 0.5
"""Latency that grew by less than this share of the bandwidth's growth, on a logarithmic scale, is
not blamed: the large part of small rows that is bandwidth is not known so well."""


@dataclass(frozen=True)
class _Slowdown:
    """The part of what limits a run for which each level is busy, and the bandwidth's change."""

    busy: Mapping[str, float]
    change: Change

    def share(self, level: str) -> float:
        """The share of its earlier bandwidth that the level delivers, if it explains the run."""
        return self.busy[level] / self.change.factor

    def delivers(self, level: str) -> float:
        """The share that it delivers at least; 0 if the run does not cross it."""
        return min(1.0, self.busy.get(level, 0.0) / self.change.high)


def describe_past(
    system: System, compared: Sequence[PastComparison | None]
) -> list[tuple[Finding, ...]]:
    """Returns the findings of each run; none for a run without an earlier log."""
    slowdowns = [_slowdown(past) if past else None for past in compared]
    blamed = _blame_levels(system, compared, slowdowns)
    return [
        (*_describe(past), *blame, *_describe_rest(system, past)) if past else ()
        for past, blame in zip(compared, blamed, strict=True)
    ]


def _slowdown(past: PastComparison) -> _Slowdown | None:
    """Returns the slowdown of a run; None without rows that determine the bandwidth."""
    change = past.changes.bandwidth
    if change is None:
        return None
    large = {past.sizes[row] for row in change.rows}
    parts: dict[str, list[float]] = {}
    for reading in past.run.readings:
        if reading.size_bytes in large:
            busy = {n: s for n, s in reading.predicted.price.busy_seconds if n != MEMORY and s}
            for name, seconds in busy.items():
                parts.setdefault(name, []).append(seconds / max(busy.values()))
    return _Slowdown({name: median(found) for name, found in parts.items()}, change)


def _describe(past: PastComparison) -> Iterator[Finding]:
    """Yields the settings that differ, and how long the rows take now."""
    run, source = past.run, past.run.source
    before = " and ".join(past.sources)
    for text in past.differences:
        yield Finding("other-settings", f"{text}: it may explain the difference", source=source)
    changes = past.changes
    kind: FindingKind = "as-before"
    verdict = "as before"
    if changes.slower:
        kind, verdict = "slower", "slower than before"
        if changes.uneven:
            verdict += ", unevenly"
    elif changes.faster:
        kind, verdict = "faster", "faster than before"
    shape = " x ".join(map(str, run.matched.measurement.members))
    text = (
        f"{source}: {run.matched.measurement.collective} of {shape}: {verdict} ({before}): "
        f"{'; '.join(_describe_changes(past))}"
    )
    share = 1 / changes.bandwidth.factor if changes.bandwidth else None
    yield Finding(kind, text, source=source, share=share)


def _describe_changes(past: PastComparison) -> Iterator[str]:
    """Yields rows that are slower unevenly; the factors on messages and on links; and the plain
    one of sizes in between. Classes of uneven rows are left out, as no factor describes them.
    """
    changes, uneven = past.changes, set(past.changes.uneven)
    if uneven:
        listed = ", ".join(
            f"{format_bytes(past.sizes[row])} {past.times[row]:.2f}x" for row in changes.uneven
        )
        yield f"{listed} the time, which no factor on links or messages explains"
    for what, change in (
        ("messages", changes.latency),
        ("", changes.middle),
        ("links", changes.bandwidth),
    ):
        rows = change.rows if change else changes.undetermined.get(what, ())
        if not rows or uneven.intersection(rows):
            continue
        sizes = _name_sizes(past, rows)
        if not change:
            yield f"{what} (by {sizes}) cannot be determined"
        elif what:
            factor = f"{change.factor:.2f}x the time ({change.low:.2f} to {change.high:.2f})"
            yield f"{what} (by {sizes}) {factor}"
        else:
            yield f"{sizes} {median(past.times[row] for row in rows):.2f}x the time"


def _name_sizes(past: PastComparison, rows: Sequence[int]) -> str:
    """Returns the sizes of rows, in ranges that have no size of other rows."""
    ranges: list[list[int]] = []
    for row in sorted(rows):
        if ranges and row == ranges[-1][-1] + 1:
            ranges[-1].append(row)
        else:
            ranges.append([row])
    return " and ".join(
        " to ".join(format_bytes(past.sizes[row]) for row in dict.fromkeys((each[0], each[-1])))
        for each in ranges
    )


def _blame_levels(
    system: System,
    compared: Sequence[PastComparison | None],
    slowdowns: Sequence[_Slowdown | None],
) -> list[list[Finding]]:
    """Returns findings on the levels that explain each run whose bandwidth fell."""
    found: list[list[Finding]] = [[] for _ in compared]
    known: dict[str, tuple[float, str]] = {}
    for crossed in range(1, len(system.links) + 1):
        for at, (past, slow) in enumerate(zip(compared, slowdowns, strict=True)):
            if past and slow and slow.change.slower and len(slow.busy) == crossed:
                found[at] = list(_blame_run(system, past, slow, slowdowns, dict(known)))
        for finding in (finding for findings in found for finding in findings):
            if finding.kind == "level-slower" and finding.share:
                known.setdefault(finding.level, (finding.share, finding.source))
    return found


def _blame_run(
    system: System,
    past: PastComparison,
    slow: _Slowdown,
    slowdowns: Sequence[_Slowdown | None],
    known: Mapping[str, tuple[float, str]],
) -> Iterator[Finding]:
    source = past.run.source
    for level in slow.busy:
        if level in known and known[level][0] <= slow.share(level) * CLEARED:
            share, where = known[level]
            text = (
                f"level {level!r}, at {share:.0%} of its earlier bandwidth in {where}, explains it"
            )
            yield Finding("explained", text, level, source, share)
            return
    left = {}
    for level in slow.busy:
        delivers = max(other.delivers(level) for other in slowdowns if other)
        if delivers > slow.share(level) * CLEARED:
            text = (
                f"not level {level!r}: it delivers at least {delivers:.0%} of its earlier "
                f"bandwidth in another run, and {slow.share(level):.0%} would do here"
            )
            yield Finding("cleared", text, level, source, delivers)
        else:
            left[level] = slow.share(level)
    if not left:
        text = "no level explains it: each delivers more in another run; another algorithm may run"
        yield Finding("unexplained", text, source=source)
    elif len(left) == 1:
        [(level, share)] = left.items()
        text = f"level {level!r} is slower: {share:.0%} of its bandwidth before"
        text += _describe_ports(system, level, share)
        yield Finding(
            "level-slower", text, level, source, share, (level,), then=next_steps(system, level)
        )
    else:
        yield _open_finding(system, source, left)


def _open_finding(system: System, source: str, left: Mapping[str, float]) -> Finding:
    """Returns the finding where several levels explain the run.

    The likeliest needs the least fault. Where prices do not say which that is, it is the network.
    """
    likely = max(left, key=lambda level: left[level])
    network = system.hierarchy.names[: innermost_network_level(system) + 1]
    outer = max(network, key=lambda level: left.get(level, 0.0), default=likely)
    why = "for which the least fault is enough"
    if outer != likely and left.get(outer, 0.0) * ALIKE >= left[likely]:
        likely, why = outer, "as networks lose rails and congest more often than links in a node"
    shares = " or ".join(f"{level!r} with {share:.0%}" for level, share in left.items())
    ports = _describe_ports(system, likely, left[likely])
    text = (
        f"level {shares} of its bandwidth before would explain it: this log cannot distinguish "
        f"them; most likely {likely!r}, {why}{ports}"
    )
    found = [isolating_experiment(system, level) for level in left]
    tests = tuple(test.name for test in found if test is not None)
    then = next_steps(system, likely)
    return Finding("open", text, likely, source, left[likely], tuple(left), tests, then)


def _describe_ports(system: System, level: str, share: float) -> str:
    """Returns ``; as if 7 of its 8 ports carried``, if the arithmetic fits."""
    ports = system.links[system.hierarchy.index(level)].ports
    active = round(share * ports)
    if 0 < active < ports and abs(share - active / ports) <= PORT_FIT:
        return f"; as if {active} of its {ports} ports carried"
    return ""


def _describe_rest(system: System, past: PastComparison) -> Iterator[Finding]:
    """Yields findings on sizes that wait for messages, and on those in between."""
    changes, source = past.changes, past.run.source
    bandwidth = changes.bandwidth
    if changes.latency and changes.latency.slower:
        grown = log(bandwidth.factor) if bandwidth and bandwidth.slower else 0.0
        if log(changes.latency.factor) > SIDE_EFFECT * grown:
            yield _latency_finding(system, past, changes.latency)
    middle = changes.middle
    if rows := changes.stray or (middle.rows if middle and middle.slower else ()):
        text = (
            f"{_name_sizes(past, rows)} take longer than slower links or messages explain: "
            "another algorithm or protocol may run there; NCCL_DEBUG_SUBSYS=TUNING tells"
        )
        yield Finding("middle", text, source=source)


def _latency_finding(system: System, past: PastComparison, change: Change) -> Finding:
    sizes = {past.sizes[row] for row in change.rows}
    extra = median(
        reading.seconds - past.before[reading.size_bytes, reading.in_place]
        for reading in past.run.readings
        if reading.size_bytes in sizes and (reading.size_bytes, reading.in_place) in past.before
    )
    links = past.changes.bandwidth
    alone = "" if links is None or links.slower else ", and links are as before"
    text = (
        f"what each message waits for takes {change.factor:.1f}x as long, "
        f"{format_duration(extra)} more a call{alone}"
    )
    crossed = {n for r in past.run.readings for n, s in r.predicted.price.busy_seconds if s}
    outer = next((name for name in system.hierarchy.names if name in crossed), "")
    then = next_steps(system, outer)[-1:] if outer else ()
    return Finding("latency", text, "", past.run.source, 1 / change.factor, then=then)
