"""How far the true seconds may be from a price: intervals from the residuals of a calibration.

A calibration keeps, for each algorithm with its protocol and each class of sizes, two ratios to the
fitted seconds that enclose nine of ten measured rows. For anything that no row measured (another
collective, other members, another algorithm or protocol, sizes outside the measured range) it keeps
the errors of fits on the tables that were left out of them. A step's interval is its price times
the two ratios. A program's interval goes from the sum of the lows to the sum of the highs, as if
every step erred in the same direction. That is wider than for independent errors (whose squares add
up), and right for the systematic errors of a fit, because all steps run on the same machine, links
and runtime. Where steps overlap, the price of the whole is widened by the same ratios as the sum of
its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hierarchies import Calibration, MeasuredRange, System
from synth.collective.price.steps import InstructionPrice

OF_A_SHEET = (1.0, 1 / 0.39)
"""The low and high ratio of a link's seconds to those of its data sheet: measured media reach
between 0.39 and all of their nominal rate (results/typical).
"""


@dataclass(frozen=True)
class Interval:
    """The range of seconds in which a price is expected to lie.

    ``among_machines``: the range covers other machines. All prices of one machine then err
    together, and the range does not order two prices.
    """

    low_seconds: float
    high_seconds: float
    among_machines: bool = False


def widening_ratios(
    calibration: Calibration | None,
    way: tuple[str, str, str],
    members: tuple[int, ...],
    size_bytes: float,
) -> tuple[float, float]:
    """Returns the low and high ratios of truth to price; 1 and 1 where nothing was measured.

    The range always includes the price itself, even where all rows held out of the fit were slower.
    An unmeasured range is never narrower than a measured range.

    ``way``: collective, algorithm, protocol; ``members`` of one group, level by level.
    """
    if calibration is None:
        return 1.0, 1.0
    residuals = (
        calibration.residual(*way, size_bytes),
        calibration.stray(way, members, size_bytes),
    )
    measured = [residual for residual in residuals if residual]
    low = min([1.0, *(residual.low for residual in measured)])
    return low, max([1.0, *(residual.high for residual in measured)])


def interval_of_step(system: System, price: InstructionPrice) -> Interval:
    """The interval of one phase. A transpose sends no message; its interval is its price."""
    low, high = OF_A_SHEET if price.algorithm else (1.0, 1.0)
    if system.calibration and price.algorithm:
        way = (price.what, price.algorithm.value, price.protocol.value)
        low, high = widening_ratios(system.calibration, way, price.members, price.size_bytes)
    return Interval(low * price.seconds, high * price.seconds)


def interval_of_program(
    system: System,
    prices: Iterable[InstructionPrice],
    seconds: float | None = None,
    least_seconds: float = 0.0,
) -> Interval | None:
    """The interval of a program, from the prices of its phases; None without a calibration.

    ``seconds`` is the whole's time where that is not the sum of the phases: phases that overlap, or
    segments (``prices`` are then of one segment). The interval does not begin below
    ``least_seconds``, the lower bound of any program, nor above the price.
    """
    if system.calibration is None:
        return None
    prices = tuple(prices)
    total = sum(price.seconds for price in prices)
    if not total:
        return Interval(0.0, 0.0)
    intervals = [interval_of_step(system, price) for price in prices]
    whole = total if seconds is None else seconds
    low = sum(interval.low_seconds for interval in intervals) / total
    high = sum(interval.high_seconds for interval in intervals) / total
    least = max(low * whole, min(least_seconds, whole))
    return Interval(least, high * whole, system.calibration.families > 0)


def explain_unmeasured(system: System, prices: Iterable[InstructionPrice]) -> str:
    """Says which of a calibrated system's prices no row measured, and their source; else "".

    A collective by an algorithm counts as measured where rows were forced to use it, whatever their
    protocol, members and sizes; where these differ, its interval is still that of the unmeasured
    (``widening_ratios``). Where the runtime chose, only its choice at a size counts. Levels that
    carry bytes and that the rows could not determine come first.
    """
    prices = tuple(prices)
    return "; ".join(
        filter(
            None, (_explain_undetermined(system, prices), _explain_unmeasured_ways(system, prices))
        )
    )


def _explain_undetermined(system: System, prices: Sequence[InstructionPrice]) -> str:
    calibration = system.calibration
    busy = {name for price in prices for name, seconds in price.busy_seconds if seconds}
    levels = calibration.undetermined_levels if calibration else ()
    return "; ".join(str(each) for each in levels if busy & {*each.levels})


def _explain_unmeasured_ways(system: System, prices: Sequence[InstructionPrice]) -> str:
    calibration = system.calibration
    if calibration is None or not calibration.measured:
        return ""
    missing = {
        (price.what, price.algorithm.value): None
        for price in prices
        if price.algorithm and not _was_measured(calibration, price, price.algorithm.value)
    }
    if not missing:
        return ""
    collectives = {collective for collective, _ in missing}
    kin = [
        row for row in calibration.measured if row.collective in collectives
    ] or calibration.measured
    are = "was" if len(missing) == 1 else "were"
    return f"{_spell_ways(missing)} {are} not measured here: priced from {_sources(kin)}"


def _was_measured(calibration: Calibration, price: InstructionPrice, algorithm: str) -> bool:
    way = algorithm, price.protocol.value
    return any(
        row.covers(price.what, way, price.members, price.size_bytes)
        or (
            row.forced
            and row.collective == price.what
            and algorithm in {forced for forced, _ in row.ways}
        )
        for row in calibration.measured
    )


def _sources(measured: Iterable[MeasuredRange]) -> str:
    """The measured algorithms, and the collectives for which the runtime chose the algorithm."""
    measured = tuple(measured)
    forced = {
        (row.collective, algorithm) for row in measured if row.forced for algorithm, _ in row.ways
    }
    chosen = {row.collective for row in measured if not row.forced}
    named = [_spell_ways(sorted(forced))] if forced else []
    return ", ".join(
        [*named, *(f"{collective} as the runtime chose" for collective in sorted(chosen))]
    )


def _spell_ways(ways: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{collective} by {algorithm}" for collective, algorithm in ways)
