"""What a system's description, or its calibration, says that a measurement should have taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierarchies import System
from hierarchies.calibration import MODEL
from synth.calibration.measurements import Measurement
from synth.calibration.ways import allowed_ways, chosen, placed
from synth.lines import Line
from synth.margins import widened


@dataclass(frozen=True)
class Prediction:
    """The seconds of one row, the way the runtime is taken to go, and what rows like it strayed.

    Without a calibration ``low_seconds`` and ``high_seconds`` are the seconds themselves.
    """

    size_bytes: int
    seconds: float
    low_seconds: float
    high_seconds: float
    algorithm: str
    protocol: str


def predict(system: System, measurement: Measurement) -> tuple[Prediction, ...]:
    """The rows of a measurement as they should be, in its order, each by the fastest way.

    The runtime chooses among what it has, or goes the way it was forced to. Raises InputError as
    ``candidates`` does.
    """
    machine, _ = placed(system, measurement)
    lines = [way.line(machine, protocol) for way, protocol in allowed_ways(system, measurement)]
    runtime = system.calibration.runtime if system.calibration else MODEL
    found = []
    for sample in measurement.samples:
        told = chosen(system, measurement, runtime, sample.size_bytes)
        mine = [line for line in lines if told is None or line.algorithm.value == told]
        found.append(_row(system, measurement.collective, mine or lines, sample.size_bytes))
    return tuple(found)


def _row(system: System, collective: str, lines: Sequence[Line], size_bytes: int) -> Prediction:
    best = min(lines, key=lambda line: line.seconds(size_bytes))
    algorithm, protocol, seconds = (
        best.algorithm.value,
        best.protocol.value,
        best.seconds(size_bytes),
    )
    way = collective, algorithm, protocol
    low, high = widened(system.calibration, way, best.members, size_bytes)
    return Prediction(size_bytes, seconds, low * seconds, high * seconds, algorithm, protocol)
