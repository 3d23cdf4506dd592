"""How far the truth may lie from a price: intervals from what a calibration's fit left over.

A calibration keeps, for each way and class of sizes, two ratios to the fitted seconds between which
nine of ten measured rows lay. For what no row measured (another collective, other members, another
algorithm or protocol, sizes beyond) it keeps how far tables lay from fits made without them. A
step's interval is its price times the two ratios. The interval of a program goes from the sum of
the lows to the sum of the highs, as if every step were off to the same side. That is wider than for
independent errors (whose squares add up), and right for what a fit gets wrong: the same machine,
links and runtime carry all steps. Where steps overlap, the price of the whole is widened
by the same ratios as the sum of its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hierarchies import Calibration, MeasuredRange, System
from synth.collective.price.steps import InstructionPrice


@dataclass(frozen=True)
class Interval:
    """Seconds between which a price is taken to lie.

    ``among_machines``: other machines lie there. Then all prices of one are off together, and of
    two which is lower is not said.
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
    """The ratios to the price between which the truth lies; 1 and 1 where nothing was measured.

    The price itself is always between them, even where rows that the fit had not seen were all
    slower. What was not measured is never narrower than if it had been.

    ``way``: collective, algorithm, protocol; ``members`` of one group, level by level.
    """
    if calibration is None:
        return 1.0, 1.0
    found = (calibration.residual(*way, size_bytes), calibration.stray(way, members, size_bytes))
    known = [one for one in found if one]
    return min([1.0, *(one.low for one in known)]), max([1.0, *(one.high for one in known)])


def interval_of_step(system: System, price: InstructionPrice) -> Interval:
    """The interval of one phase. A transpose is no message: it is taken at its price."""
    if price.algorithm is None:
        return Interval(price.seconds, price.seconds)
    way = (price.what, price.algorithm.value, price.protocol.value)
    low, high = widening_ratios(system.calibration, way, price.members, price.size_bytes)
    return Interval(low * price.seconds, high * price.seconds)


def interval_of_program(
    system: System, prices: Iterable[InstructionPrice], seconds: float | None = None
) -> Interval | None:
    """The interval of a program, from the prices of its phases; None without a calibration.

    ``seconds`` is what the whole takes, where that is not the sum of the phases: phases that
    overlap, or (given those of one segment) segments.
    """
    if system.calibration is None:
        return None
    prices = tuple(prices)
    total = sum(price.seconds for price in prices)
    if not total:
        return Interval(0.0, 0.0)
    each = [interval_of_step(system, price) for price in prices]
    whole = total if seconds is None else seconds
    low = sum(one.low_seconds for one in each) / total
    high = sum(one.high_seconds for one in each) / total
    return Interval(low * whole, high * whole, system.calibration.families > 0)


def explain_unmeasured(system: System, prices: Iterable[InstructionPrice]) -> str:
    """What of a calibrated system's prices no row measured, and from what it is priced; else empty.

    A collective by an algorithm was measured where rows were forced to use it, whatever their
    protocol, members and sizes; their intervals are those of the unmeasured (``widening_ratios``)
    where these differ, too. Where the runtime chose, only its choice at a size was measured. First
    come levels that bytes cross and that were not told apart.
    """
    prices = tuple(prices)
    return "; ".join(
        filter(
            None, (_explain_undetermined(system, prices), _explain_unmeasured_ways(system, prices))
        )
    )


def _explain_undetermined(system: System, prices: Sequence[InstructionPrice]) -> str:
    known = system.calibration
    busy = {name for price in prices for name, seconds in price.busy_seconds if seconds}
    return "; ".join(str(one) for one in (known.untold if known else ()) if busy & {*one.levels})


def _explain_unmeasured_ways(system: System, prices: Sequence[InstructionPrice]) -> str:
    known = system.calibration
    if known is None or not known.measured:
        return ""
    missing = {
        (price.what, price.algorithm.value): None
        for price in prices
        if price.algorithm and not _was_measured(known, price, price.algorithm.value)
    }
    if not missing:
        return ""
    collectives = {what for what, _ in missing}
    kin = [one for one in known.measured if one.collective in collectives] or known.measured
    are = "was" if len(missing) == 1 else "were"
    return f"{_spell_ways(missing)} {are} not measured here: priced from {_sources(kin)}"


def _was_measured(known: Calibration, price: InstructionPrice, algorithm: str) -> bool:
    how = algorithm, price.protocol.value
    return any(
        one.covers(price.what, how, price.members, price.size_bytes)
        or (
            one.forced
            and one.collective == price.what
            and algorithm in {way for way, _ in one.ways}
        )
        for one in known.measured
    )


def _sources(measured: Iterable[MeasuredRange]) -> str:
    """The measured ways, and those collectives for which the runtime chose the way."""
    measured = tuple(measured)
    forced = {(one.collective, way) for one in measured if one.forced for way, _ in one.ways}
    chosen = {one.collective for one in measured if not one.forced}
    named = [_spell_ways(sorted(forced))] if forced else []
    return ", ".join([*named, *(f"{what} as the runtime chose" for what in sorted(chosen))])


def _spell_ways(ways: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{what} by {how}" for what, how in ways)
