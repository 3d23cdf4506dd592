"""What calibration says, as JSON; docs/json.md describes it key by key."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from hierarchies import System
from synth.calibration.doctor import Diagnosis, Finding, Reading, Run
from synth.calibration.experiments import Experiment, kept, lines
from synth.calibration.fit import Calibrated
from synth.calibration.logs.matching import Matched

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
    margin = predicted.interval

    def busbw(seconds: float) -> float | None:
        return run.factor * size / seconds / 1e9 if seconds else None

    return {
        "bytes": size,
        "in_place": reading.in_place,
        "seconds": reading.seconds,
        "predicted_seconds": predicted.seconds,
        "predicted_low_seconds": margin.low_seconds if margin else None,
        "predicted_high_seconds": margin.high_seconds if margin else None,
        "bound_seconds": reading.bound.seconds,
        "busbw_GB_per_s": busbw(reading.seconds),
        "predicted_busbw_GB_per_s": busbw(predicted.seconds),
        "bound_busbw_GB_per_s": busbw(reading.bound.seconds),
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


def calibrated_json(calibrated: Calibrated, matched: Sequence[Matched]) -> Json:
    """What was fitted, to how many rows, how far they lie from it, and what they cannot tell."""
    found = calibrated.calibration
    kept = [row for row in calibrated.rows if not row.dropped]
    off = [abs(row.fitted_seconds / row.seconds - 1) for row in kept]
    return {
        "sources": list(found.sources),
        "rows": len(calibrated.rows),
        "median_error": median(off) if off else None,
        "residuals": [
            {
                "collective": one.collective,
                "algorithm": one.algorithm,
                "protocol": one.protocol,
                "smallest_bytes": one.smallest_bytes,
                "rows": one.rows,
                "low": one.low,
                "median": one.median,
                "high": one.high,
            }
            for one in found.residuals
        ],
        "strays": [
            {
                "smallest_bytes": one.smallest_bytes,
                "tables": one.tables,
                "low": one.low,
                "high": one.high,
            }
            for one in found.strays
        ],
        "undetermined": list(found.undetermined),
        "dropped": list(found.dropped),
        "warnings": [f"{m.log.source}: {said}" for m in matched for said in m.log.warnings],
    }
