"""Finds the level that explains why a run falls short, using the results of other runs.

Runs that cross one level come first, as they leave no choice. Their results apply to runs that
cross more: a slow network explains a run over it if the predicted algorithm, or another, takes that
long there. Only a remaining difference is blamed on other levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from hierarchies import System
from synth.collective.algorithms.algorithms import innermost_network_level
from synth.collective.algorithms.nccl_model import SPELLINGS
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.experiments import isolating_experiment
from synth.measure.calibration.slow_level import SHORT, LargestRow, choose_slow_level
from synth.measure.doctor.runs import MeasuredRun

CLEARED = 1.1
"""A level is cleared if it delivered this multiple of the run's share in another run."""
PORT_FIT = 0.02
"""A share this close to 1/2, 1/4, ... is reported as that fraction of ports carrying traffic."""

FindingKind = Literal[
    "as-predicted",
    "short",
    "no-large-sizes",
    "no-small-sizes",
    "latency-as-predicted",
    "contradicting-rows",
    "cleared",
    "level-short",
    "explained",
    "open",
    "unexplained",
    "other-algorithm",
    "above-prediction",
    "below-bound",
    "latency",
    "middle",
    "as-before",
    "slower",
    "faster",
    "level-slower",
    "other-settings",
    "unnoticed",
]


@dataclass(frozen=True)
class Finding:
    """One statement, and the level it is about ("" for none).

    ``tests`` are the experiments that would distinguish the ``suspects``, ``then`` the commands to
    run in order to find the slow part of the level.
    """

    kind: FindingKind
    text: str
    level: str = ""
    source: str = ""
    share: float | None = None
    suspects: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    then: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlowLevel:
    """The share of bandwidth that a level delivers, as the run named ``source`` showed."""

    share: float
    source: str


SlowLevels = Mapping[str, SlowLevel]
"""Levels found to be slow, by name."""


def blame_levels(system: System, runs: Sequence[MeasuredRun]) -> list[tuple[Finding, ...]]:
    """Returns findings on why each run falls short, in the order of runs; empty if it does not."""
    found: dict[int, tuple[Finding, ...]] = {}
    slow_levels: dict[str, SlowLevel] = {}
    for crossed in range(1, len(system.links) + 1):
        current = [at for at, run in enumerate(runs) if run.short and len(run.delivered) == crossed]
        found |= {
            at: tuple(_blame_run(system, runs[at], runs, dict(slow_levels))) for at in current
        }
        for finding in (finding for at in current for finding in found[at]):
            if finding.kind == "level-short" and finding.share:
                slow = SlowLevel(finding.share, finding.source)
                known = slow_levels.get(finding.level, slow)
                slow_levels[finding.level] = max(known, slow, key=lambda level: level.share)
    return [found.get(at, ()) for at in range(len(runs))]


def _blame_run(
    system: System, run: MeasuredRun, runs: Sequence[MeasuredRun], slow_levels: SlowLevels
) -> Iterator[Finding]:
    known = {name: slow for name, slow in slow_levels.items() if name in run.delivered}
    explained = _explain_by_known(system, run, known) if known else None
    if explained:
        yield explained
    left = {}
    for name, share in run.delivered.items():
        if share > 1 / CLEARED or (explained and name in known):
            continue
        witness = max(runs, key=lambda other: other.delivered.get(name, 0.0))
        best = witness.delivered[name]
        if best < share * CLEARED:
            left[name] = share
        else:
            verdict = (
                f"level {name!r} is slow, but not so slow"
                if name in known
                else f"not level {name!r}"
            )
            delivers = f"it delivers {best:.0%} in {witness.source}"
            text = f"{verdict}: {delivers}, and {share:.0%} would do here"
            yield Finding("cleared", text, name, run.source, best)
    if not explained:
        yield from _blame_remaining(system, run, left)


def _explain_by_known(system: System, run: MeasuredRun, known: SlowLevels) -> Finding | None:
    """Explains the run by known slow levels: by the predicted way, else by another."""
    links = tuple(
        replace(
            link, bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * known[name].share
        )
        if name in known
        else link
        for name, link in zip(system.hierarchy.names, system.links, strict=True)
    )
    slow = Predictor(replace(system, links=links), run.matched.measurement)
    ways = _find_fitting_ways(run, [slow.at(reading.size_bytes).options for reading in run.large])
    if not ways:
        return None
    shown = " and ".join(
        f"level {name!r} ({level.share:.0%} in {level.source})" for name, level in known.items()
    )
    text = f"{shown} {'explains' if len(known) == 1 else 'explain'} it"
    if run.way in ways:
        text = f"{text}: so slow, {run.way} takes what was measured"
    else:
        text = f"{text} if {' or '.join(ways)} ran, not {run.way}: {_how_to_tell(run)}"
    level = next(iter(known)) if len(known) == 1 else ""
    return Finding("explained", text, level, run.source, run.share)


def _blame_remaining(system: System, run: MeasuredRun, left: dict[str, float]) -> Iterator[Finding]:
    """Blames the only level that no other run clears; reports if there are several or none."""
    others = _explain_by_other_way(run)
    if len(left) == 1 and not others:
        [(name, share)] = left.items()
        text = f"level {name!r} falls short: {share:.0%} of what {_describe_expected(system)}"
        text += _describe_ports(system, name, share)
        then = next_steps(system, name)
        yield Finding("level-short", text, name, run.source, share, (name,), then=then)
    elif left:
        yield _open_finding(system, run, left)
    else:
        text = "no level explains it: each delivers more in another run; what ran is not what was"
        yield Finding("unexplained", f"{text} predicted ({run.way})", source=run.source)
    if others:
        yield _other_way_finding(run, others)


def _open_finding(system: System, run: MeasuredRun, left: dict[str, float]) -> Finding:
    """Returns the finding where several levels, or another algorithm, explain the run."""
    names = system.hierarchy.names
    busy = LargestRow(tuple(run.delivered.get(name, 0.0) for name in names), 1.0)
    likely = names[choose_slow_level(system, busy, [names.index(name) for name in left])]
    shares = [f"{name!r} with {share:.0%}" for name, share in left.items()]
    listed = f"level {' or '.join(shares)} of what {_describe_expected(system)}"
    if len(left) == 1:
        text = f"{listed} would explain it, and so would another algorithm"
    else:
        why = "links like the others' are hardly ever so slow"
        if left[likely] == max(left.values()):
            why = "its links are busy longest, so the least fault of theirs explains it"
        text = f"{listed}: this log cannot distinguish them; most likely {likely!r}: {why}"
    found = [isolating_experiment(system, name) for name in left]
    tests = tuple(test.name for test in found if test is not None)
    then = next_steps(system, likely)
    return Finding("open", text, likely, run.source, left[likely], tuple(left), tests, then)


def _describe_expected(system: System) -> str:
    """Returns the reference of a level's share, as the end of a sentence: ``what ...``."""
    if system.prices == "typical":
        return "such links reach"
    return "was measured before" if system.prices == "calibrated" else "is described"


def _explain_by_other_way(run: MeasuredRun) -> list[str]:
    """Returns other ways that take about the measured time at large sizes."""
    found = _find_fitting_ways(run, [reading.predicted.options for reading in run.large])
    return [] if run.matched.measurement.algorithm else [way for way in found if way != run.way]


def _find_fitting_ways(run: MeasuredRun, options: Sequence[Mapping[str, float]]) -> list[str]:
    """Returns the ways whose seconds at large sizes are close to the measured seconds."""
    found = []
    for way in options[-1] if options else ():
        rows = zip(run.large, options, strict=True)
        shares = [priced[way] / reading.seconds for reading, priced in rows if way in priced]
        if abs(median(shares) - 1) <= 1 - SHORT:
            found.append(way)
    return found


def _other_way_finding(run: MeasuredRun, others: Sequence[str]) -> Finding:
    names = " and ".join(others)
    return Finding(
        "other-algorithm",
        f"it is what {names} would take: did the runtime not choose {run.way}? {_how_to_tell(run)}",
        source=run.source,
    )


def _how_to_tell(run: MeasuredRun) -> str:
    return f"NCCL_ALGO={SPELLINGS[run.way]} or NCCL_DEBUG=INFO tells"


def _describe_ports(system: System, level: str, share: float) -> str:
    """Returns ``; as if 4 of its 8 ports carried``, if the arithmetic fits."""
    ports = system.links[system.hierarchy.index(level)].ports
    active = round(share * ports)
    if 0 < active < ports and ports % active == 0 and abs(share - active / ports) <= PORT_FIT:
        return f"; as if {active} of its {ports} ports carried"
    return ""


def next_steps(system: System, level: str) -> tuple[str, ...]:
    """Returns commands that find a level's slow node, rail, link or path.

    Empty if there is no known tool for its links. Tests of ``calibrate --plan`` distinguish levels,
    but not the parts of a level. Tools for the links do (perftest between NICs, copies from GPU to
    GPU, the driver's NVLink status), and so does the log of the runtime: NICs that pass bytes
    through the host's memory, or sockets in place of NICs, are slow on a fast network. Sources:
    github.com/linux-rdma/perftest; NCCL's ``net.cc`` (``via NET/IB/0/GDRDMA`` of a channel) and
    ``enqueue.cc`` (``Bytes -> Algo`` of a call), which RCCL also has; ``nvidia-smi nvlink -h``;
    github.com/NVIDIA/nvbandwidth; rocm.docs.amd.com/projects/TransferBench ("presets").

    >>> from hierarchies import load
    >>> for step in next_steps(load("dgx-h100:2"), "gpu"):
    ...     print(step.partition(", ")[0])
    nvidia-smi nvlink -s on a node shows links that are down
    """
    by, at = runtime_of_system(system), system.hierarchy.index(level)
    medium = system.links[at].medium
    if not by.told:
        return ()
    if at <= innermost_network_level(system):
        return _next_steps_between(by, medium)
    pairs = "what pairs of its GPUs reach"
    if by is CollectiveRuntime.RCCL:
        return (f"TransferBench a2a on a node shows {pairs}",)
    if medium == "nvlink":
        return (f"nvidia-smi nvlink -s on a node shows links that are down, nvbandwidth {pairs}",)
    return (f"nvbandwidth on a node shows {pairs}",)


def _next_steps_between(by: CollectiveRuntime, medium: str) -> tuple[str, ...]:
    """Returns tests for slow nodes or NICs, and for the path and algorithm in use."""
    pairs = f"{by.value.lower()}-tests on two nodes at a time"
    if medium in ("infiniband", "roce"):
        pairs = f"ib_write_bw (perftest) between two NICs at a time, or {pairs},"
    debug_advice = (
        f"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,TUNING has {by.value} say how each channel "
        "goes ('via NET/...', with /GDRDMA where GPUDirect RDMA is on) and which algorithm ran"
    )
    return f"{pairs} shows which node or rail is slow", debug_advice
