"""What calibration says, as JSON; docs/json.md describes it key by key."""

from __future__ import annotations

from typing import Any

from hierarchies import System
from synth.calibration.doctor import Diagnosis, Finding, Reading, Run
from synth.calibration.experiments import Experiment, kept, lines

Json = dict[str, Any]


def experiments_json(system: System, found: tuple[Experiment, ...]) -> list[Json]:
    """The tests to run, with the lines that run them."""
    return [_experiment(system, one) for one in found]


def _experiment(system: System, one: Experiment) -> Json:
    how = lines(system, one)
    return {
        "name": one.name,
        "file": one.file,
        "collective": one.goal.value,
        "groups": one.groups.where,
        "members": list(one.groups.members),
        "busy": list(one.groups.busy),
        "algorithm": one.algorithm,
        "protocol": one.protocol.value if one.protocol else None,
        "environment": one.environment,
        "smallest_bytes": one.smallest_bytes,
        "largest_bytes": one.largest_bytes,
        "tells": list(one.tells),
        "seconds": one.seconds,
        "mpirun": kept(how.mpirun, one),
        "srun": kept(how.srun, one),
    }


def diagnosis_json(diagnosis: Diagnosis) -> Json:
    """The runs row by row, and the findings."""
    return {
        "runs": [_run(run) for run in diagnosis.runs],
        "findings": [_finding(finding) for finding in diagnosis.findings],
    }


def _run(run: Run) -> Json:
    measurement, log = run.matched.measurement, run.matched.log
    return {
        "source": run.source,
        "collective": measurement.collective,
        "members": list(measurement.members),
        "busy": list(measurement.busy),
        "algorithm": measurement.algorithm,
        "protocol": measurement.protocol,
        "version": log.table.version,
        "devices": list(log.devices),
        "predicted_algorithm": run.way,
        "share": run.share,
        "slower": run.slower,
        "extra_seconds": run.extra_seconds,
        "limited_by": run.limited_by,
        "delivered": run.delivered,
        "warnings": list(log.warnings),
        "rows": [_reading(run, reading) for reading in run.readings],
    }


def _reading(run: Run, reading: Reading) -> Json:
    size, predicted = reading.size_bytes, reading.predicted

    def busbw(seconds: float) -> float | None:
        return run.factor * size / seconds / 1e9 if seconds else None

    return {
        "bytes": size,
        "in_place": reading.in_place,
        "seconds": reading.seconds,
        "predicted_seconds": predicted.seconds,
        "bound_seconds": predicted.bound.seconds,
        "busbw_GB_per_s": busbw(reading.seconds),
        "predicted_busbw_GB_per_s": busbw(predicted.seconds),
        "bound_busbw_GB_per_s": busbw(predicted.bound.seconds),
        "predicted_algorithm": predicted.way,
        "predicted_protocol": predicted.price.protocol.value,
    }


def _finding(finding: Finding) -> Json:
    return {
        "kind": finding.kind,
        "source": finding.source,
        "level": finding.level or None,
        "share": finding.share,
        "text": finding.text,
        "suspects": list(finding.suspects),
        "tests": list(finding.tests),
    }
