"""An estimator as a file: plain JSON, so that to read one runs nothing; with its card.

It holds on the machine and for the versions that its samples were measured with, and is refused
elsewhere. A kernel outside what its samples range over is ``extrapolated``, and its interval wider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from hierarchies import InputError
from synth.train.learned.judging import (
    Error,
    Logs,
    coverage,
    ends,
    error_of,
    held_out,
    logarithms,
    simplest,
    together,
)
from synth.train.learned.kernels import FEATURES, Kernel, features
from synth.train.learned.rungs import Fitted, fit_parts, fit_rates
from synth.train.learned.samples import Machine, Sample, Samples, check_enough
from synth.train.zoo.sizes import ZOO

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Judged:
    """What was held out, and how far off each rung was; ``held`` of the rung that was taken.

    ``held``: of each model the share that intervals of nine in ten hold which never saw it.
    """

    __pydantic_config__ = _STRICT
    families: dict[str, Error]
    models: dict[str, Error]
    groups: dict[str, Error]
    held: dict[str, float]


@dataclass(frozen=True)
class Estimator:
    """What says seconds, where it holds, and how far it was off.

    ``low`` and ``high`` are logarithms of measured by estimated seconds; ``least`` and ``most`` are
    features between which its samples lie.
    """

    __pydantic_config__ = _STRICT
    format: str
    machine: Machine
    date: str
    samples: int
    fitted: Fitted
    low: float
    high: float
    least: tuple[float, ...]
    most: tuple[float, ...]
    judged: Judged

    def __post_init__(self) -> None:
        if {len(self.least), len(self.most)} != {len(FEATURES)} or not self.low <= self.high:
            raise ValueError("ranges that do not fit the features")


@dataclass(frozen=True)
class Learned:
    """Seconds between ``low`` and ``high`` in nine of ten cases; of what it was out of range."""

    seconds: float
    low: float
    high: float
    extrapolated: tuple[str, ...]

    @property
    def how(self) -> str:
        """In a word."""
        return "extrapolated" if self.extrapolated else "fitted"


LEAST_HELD = 0.85
FORMAT = "collsynth estimator 3"
_FILE = TypeAdapter(Estimator)


def estimate(estimator: Estimator, kernel: Kernel) -> Learned:
    """The seconds of a kernel.

    Out of range both ends of the interval go further by as many doublings as the furthest feature
    is outside: nobody measured there, so this is caution and no coverage.
    """
    beyond = {
        name: max(least - one, one - most)
        for name, one, least, most in zip(
            FEATURES, features(kernel), estimator.least, estimator.most, strict=True
        )
        if not least <= one <= most
    }
    [seconds] = map(float, estimator.fitted.seconds([kernel]))
    wider = 1.0 + max(beyond.values(), default=0.0)
    low, high = min(0.0, estimator.low), max(0.0, estimator.high)
    return Learned(seconds, seconds * exp(wider * low), seconds * exp(wider * high), tuple(beyond))


def trained(
    found: Samples, upper: bool = True, telling: Callable[[str], None] = lambda words: None
) -> Estimator:
    """The simplest rung that is not beaten, judged on what was held out, and fitted to all.

    ``upper``: trees and network, too. ``telling`` is told what is done next. Raises InputError for
    too few samples, and where an extra is not installed.
    """
    samples = found.samples
    check_enough(samples)
    fits: dict[str, Callable[[Sequence[Sample]], Fitted]] = {"parts": fit_parts, "rates": fit_rates}
    fits |= _upper() if upper else {}
    models = [one for one in found.groups if one in ZOO] or list(found.groups)
    drawn = [one for one in found.groups if one not in models]
    logs: dict[str, Logs] = {}
    for rung, fit in fits.items():
        telling(f"judging {rung} on each of {len(found.groups)} groups, held out")
        logs[rung] = held_out(samples, fit)
    taken = simplest(logs, models)
    rows = np.array([features(one.kernel) for one in samples])
    low, high = ends({model: logs[taken][model] for model in models})
    telling(f"judging the intervals of {taken}")
    held = {} if taken == "network" else coverage(samples, fits[taken], models)
    return Estimator(
        FORMAT,
        found.machine,
        found.date,
        len(samples),
        fits[taken](samples),
        low,
        high,
        tuple(map(float, rows.min(axis=0))),
        tuple(map(float, rows.max(axis=0))),
        Judged(
            {rung: together(one, drawn) for rung, one in logs.items() if drawn},
            {rung: together(one, models) for rung, one in logs.items()},
            {group: error_of(one) for group, one in logs[taken].items()},
            held,
        ),
    )


def _upper() -> dict[str, Callable[[Sequence[Sample]], Fitted]]:
    """The rungs that need an extra."""
    try:
        from synth.train.learned.forest import fit_trees  # Only who trains needs these.
        from synth.train.learned.network import fit_network
    except ModuleNotFoundError as error:
        problem = f"training needs {error.name}"
        raise InputError(problem, hint="pip install 'collsynth[learn]'") from None
    return {"trees": fit_trees, "network": fit_network}


def estimator_text(estimator: Estimator) -> str:
    """As JSON."""
    return _FILE.dump_json(estimator).decode() + "\n"


def read_estimator(text: str, where: str = "estimator") -> Estimator:
    """What ``estimator_text`` wrote. Raises InputError for another text."""
    hint = "'collsynth estimate train -o FILE' makes one"
    try:
        found = _FILE.validate_json(text)
    except ValidationError as error:
        [first, *_] = error.errors()
        at = ".".join(map(str, first["loc"])) or "the text"
        problem = f"no estimator: {at}: {first['msg']}"
        raise InputError(problem, where=where, hint=hint) from None
    if found.format != FORMAT:
        problem = f"an estimator of the format {found.format[:40]!r}"
        raise InputError(problem, where=where, hint=f"this reads {FORMAT!r}")
    return found


def check_machine(estimator: Estimator, here: Machine, where: str = "estimator") -> None:
    """Raises InputError for one of another machine, or of other versions."""
    there = estimator.machine
    told, found = (
        {"compiler": one.compiler, "processor": one.processor, "cores": one.cores, **one.versions}
        for one in (there, here)
    )
    for name in dict.fromkeys((*told, *found)):
        if told.get(name) != found.get(name):
            raise InputError(
                f"it was trained with {name} {told.get(name)}, and here it is {found.get(name)}",
                where=where,
                hint="seconds hold where they were measured: train here",
            )


@dataclass(frozen=True)
class Checked:
    """An estimator beside kernels that were measured since: errors, and the share in intervals."""

    error: Error
    inside: float
    extrapolated: int

    @property
    def holds(self) -> bool:
        """Whether so many lie in their intervals as is asked of intervals of nine in ten."""
        return self.inside >= LEAST_HELD


def checked(estimator: Estimator, samples: Sequence[Sample]) -> Checked:
    """Of samples of the same machine."""
    found = [(one.seconds, estimate(estimator, one.kernel)) for one in samples]
    inside = [said.low <= seconds <= said.high for seconds, said in found]
    return Checked(
        error_of(logarithms(estimator.fitted, samples)),
        sum(inside) / len(inside),
        sum(1 for _, said in found if said.extrapolated),
    )


def card(estimator: Estimator) -> Any:
    """All but the numbers of the fit, as JSON has it."""
    found = _FILE.dump_python(estimator, mode="json", exclude={"fitted", "least", "most"})
    return found | {"rung": estimator.fitted.rung}


def span(estimator: Estimator) -> str:
    """Its interval in words: measured seconds are so many times the estimate."""
    return f"{exp(estimator.low):.2f} to {exp(estimator.high):.2f}"
