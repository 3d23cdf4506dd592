"""Machines whose calibration is known, and what would be measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hierarchies import (
    Calibration,
    Crossing,
    Domain,
    Fit,
    Hierarchy,
    Level,
    Link,
    Residual,
    System,
    load,
)
from hierarchies.calibration import MODEL
from hierarchies.files.writing import describe_system
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.candidates import Predictor, SizePrediction
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.prior import expected_fit
from synth.measure.calibration.typical import apply_typical

SIZES = tuple(8 << power for power in range(28))
_SEEN = {"simple": 1.0, "ll": 0.45, "ll128": 0.85}


def bare(nodes: int = 8, gpus: int = 4) -> System:
    between = Link(
        Domain.SWITCH, 25e9, 14e-6, gpus, ll_latency_seconds=2.7e-6, ll128_latency_seconds=4e-6
    )
    inside = Link(
        Domain.SWITCH, 300e9, 3.4e-6, ll_latency_seconds=0.6e-6, ll128_latency_seconds=1.9e-6
    )
    hierarchy = Hierarchy((Level("node", nodes), Level("gpu", gpus)))
    return System("known", "", hierarchy, (between, inside), 2e12)


def calibration(
    launches: Sequence[float] = (20e-6, 6e-6, 12e-6),
    hops: Sequence[Sequence[float]] = ((18e-6, 5e-6), (4e-6, 1e-6), (6e-6, 2e-6)),
    shares: Sequence[float] = (0.9, 0.8),
) -> Calibration:
    """One fit a protocol, for all algorithms and collectives; rows that stray by a tenth."""
    fits = tuple(
        Fit(
            protocol,
            tuple(Crossing(hop, share * seen) for hop, share in zip(each, shares, strict=True)),
            launch,
        )
        for (protocol, seen), launch, each in zip(_SEEN.items(), launches, hops, strict=True)
    )
    return Calibration(fits, (Residual(0, 100, 0.9, 1.0, 1.1),), ("made up",))


def calibrated(nodes: int = 8, gpus: int = 4) -> System:
    return replace(bare(nodes, gpus), calibration=calibration())


def measured(
    system: System,
    collective: str,
    members: tuple[int, ...],
    *,
    noise: float = 0.0,
    algorithm: str | None = None,
    protocol: str | None = None,
    seed: int = 0,
    sizes: Sequence[int] = SIZES,
) -> Measurement:
    """What the machine takes, each time off by so much at most."""
    asked = Measurement(
        collective,
        members,
        members,
        tuple(Sample(size, 1.0) for size in sizes),
        algorithm,
        protocol,
        f"{collective} {members} {algorithm} {protocol} {seed}",
    )
    random = np.random.default_rng(seed)
    return replace(
        asked,
        samples=tuple(
            Sample(size, float(row.seconds * (1 + noise * random.uniform(-1, 1))))
            for size, row in zip(sizes, predict(system, asked), strict=True)
        ),
    )


def predict(system: System, measurement: Measurement) -> tuple[SizePrediction, ...]:
    """The rows of a measurement as they should be, in its order."""
    predictor = Predictor(system, measurement)
    return tuple(predictor.at(one.size_bytes) for one in measurement.samples)


def span(said: SizePrediction) -> tuple[float, float]:
    """Where a calibration takes the truth to lie."""
    assert said.interval is not None
    return said.interval.low_seconds, said.interval.high_seconds


def precise(name: str, error: float = 0.0) -> System:
    """A machine priced as before any calibration, as if measured with so small an error."""
    system = apply_typical(load(name))
    spread = (Residual(0, 100, 1 - error, 1.0, 1 + error),) if error else ()
    if system.calibration:
        known_error = replace(system.calibration, families=0, residuals=spread)
        return replace(system, calibration=known_error)
    known = [p for p in Protocol if all(p.latency_seconds(link) for link in system.links)]
    fits = (expected_fit(system, ("", "", protocol.value)) for protocol in known)
    launches = system.launches
    exact = tuple(fit if launches else replace(fit, launch_seconds=0.0) for fit in fits)
    return replace(system, calibration=Calibration(exact, spread, runtime=MODEL))


def precise_text(name: str, error: float = 0.0) -> dict[str, str]:
    """The description of ``precise``, as a question takes it."""
    return {"name": name, "text": describe_system(precise(name, error))}
