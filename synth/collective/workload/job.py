"""A job: the collectives of one training step, over axes whose sizes may be left open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from grammar import Goal
from hierarchies import InputError, error_context, suggest_nearest
from hierarchies.hierarchy import check_distinct, check_name
from synth.collective.workload.quantities import (
    EXTREMES,
    Amount,
    Known,
    Rule,
    amounts_in,
    evaluate_amount,
    names_in,
    power_of_bytes,
)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MOST_AXES = 8
MOST_PAYLOAD_BYTES = 2**60
MOST_TIMES = 10**12


@dataclass(frozen=True)
class SourcePlaces:
    """The places of a table and its keys in their file, for errors: ``job.toml, line 7``."""

    table: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    def of(self, key: str) -> str:
        """The place of a key, or of its table where the key was left out."""
        return self.keys.get(key, self.table)


NOWHERE = SourcePlaces()


@dataclass(frozen=True)
class JobAxis:
    """A parallelism axis and the sizes it may have; ``None``: any size that fits the machine."""

    name: str
    sizes: tuple[int, ...] | None
    where: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_symbol(self.name, "axis", self.where)
        if self.sizes is None:
            return
        if not self.sizes:
            hint = "a size, several as in 1|2|4, or any"
            raise InputError(f"axis {self.name!r} has no size", where=self.where, hint=hint)
        for size in self.sizes:
            if size < 1:
                problem = f"axis {self.name!r} has size {size}"
                raise InputError(problem, where=self.where, hint="at least 1 is needed")
            if self.sizes.count(size) > 1:
                problem = f"axis {self.name!r} has the size {size} twice"
                raise InputError(problem, where=self.where, hint="give each size once")

    def admits(self, size: int) -> bool:
        """Whether the axis may have this size."""
        return size >= 1 if self.sizes is None else size in self.sizes

    @property
    def text(self) -> str:
        """The sizes as a job file writes them: ``1|2|4``, or ``any``."""
        return "any" if self.sizes is None else "|".join(str(size) for size in self.sizes)


@dataclass(frozen=True)
class NamedNumber:
    """A named number that amounts refer to; it may itself refer to axes and earlier numbers."""

    name: str
    amount: Amount
    where: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_symbol(self.name, "number", self.where)


@dataclass(frozen=True)
class Requirement:
    """A condition on the axes' sizes, such as memory; sizes that fail it are not considered."""

    name: str
    rule: Rule
    where: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Entry:
    """A collective over the axes ``over`` in which every device takes part, ``times`` per step.

    ``payload`` is in bytes, the largest buffer of a device; ``hidden`` is the share of its time
    that overlaps with compute, from 0 to 1.
    """

    name: str
    goal: Goal
    over: tuple[str, ...]
    payload: Amount
    times: Amount
    hidden: Amount
    places: SourcePlaces = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class UnpricedTraffic:
    """Communication that no ``Goal`` describes, and ``why``. It is listed, not priced."""

    name: str
    over: tuple[str, ...]
    payload: Amount
    times: Amount
    why: str
    places: SourcePlaces = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Workload:
    """The communication of one training step, on any machine that the axes fit.

    The axes' sizes multiply to the number of devices. Raises InputError, with the place, for names
    that do not exist or are given twice, for bytes mixed with plain numbers, and for an empty job.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    axes: tuple[JobAxis, ...]
    numbers: tuple[NamedNumber, ...]
    requires: tuple[Requirement, ...]
    entries: tuple[Entry, ...]
    unpriced: tuple[UnpricedTraffic, ...] = ()
    places: SourcePlaces = field(default=NOWHERE, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_text(self.name, "name", self.places)
        _check_text(self.title or "-", "title", self.places)
        for source in self.sources:
            _check_text(source, "source", self.places)
        self._check_axes()
        if not self.entries:
            hint = "add at least one [[collective]]"
            raise InputError("the job is empty", where=self.places.of("collective"), hint=hint)
        powers = self._powers()
        self._check_requirements(powers)
        names = [entry.name for entry in self.communications]
        for position, entry in enumerate(self.communications):
            if entry.name in names[:position]:
                raise _repeated_error(entry.name, entry.places.of("name"))
            self._check_entry(entry, powers)
        self._check_constants()

    @property
    def communications(self) -> tuple[Entry | UnpricedTraffic, ...]:
        """All communication of the job: priced entries, then unpriced traffic."""
        return (*self.entries, *self.unpriced)

    def _check_requirements(self, powers: Powers) -> None:
        names = [requirement.name for requirement in self.requires]
        for position, requirement in enumerate(self.requires):
            where = requirement.where
            _check_text(requirement.name, "name", SourcePlaces(where))
            if requirement.name in names[:position]:
                raise _repeated_error(requirement.name, where)
            units = [_power(part, powers, where) for part in amounts_in(requirement.rule)]
            if len(set(units)) > 1:
                problem = f"{str(requirement.rule)!r} compares bytes with something else"
                hint = "give both sides a unit, as in 16 B * parameters <= 64 GB"
                raise InputError(problem, where=where, hint=hint)

    def _check_axes(self) -> None:
        where = self.places.of("axes")
        if not 1 <= len(self.axes) <= MOST_AXES:
            hint = f"from 1 to {MOST_AXES}, as in data = 8 under [axes]"
            raise InputError(f"the job has {len(self.axes)} axes", where=where, hint=hint)
        with error_context(where):
            check_distinct(tuple(axis.name for axis in self.axes), "axis")

    def _powers(self) -> dict[str, int]:
        """Maps each name to 1 (bytes) or 0 (a plain number), checking each in order.

        Raises InputError for a name that is taken, and for amounts that refer to an unknown name.
        """
        powers = {axis.name: 0 for axis in self.axes}
        for number in self.numbers:
            if number.name in powers:
                raise _repeated_error(number.name, number.where)
            powers[number.name] = _power(number.amount, powers, number.where)
        return powers

    def _check_entry(self, entry: Entry | UnpricedTraffic, powers: Powers) -> None:
        _check_text(entry.name, "name", entry.places)
        self._check_over(entry)
        for key, amount in amounts_of(entry):
            where = entry.places.of(key)
            if _power(amount, powers, where) not in _POWERS[key]:
                hint = "write bytes, as in 14 GB / tensor" if key == "bytes" else "a plain number"
                problem = f"{key} of {entry.name!r}, {str(amount)!r}, has the wrong unit"
                raise InputError(problem, where=where, hint=hint)
        if isinstance(entry, UnpricedTraffic):
            _check_text(entry.why, "why", entry.places)

    def _check_constants(self) -> None:
        """Raises InputError for amounts out of bounds whatever sizes the open axes take."""
        fixed = {
            axis.name: axis.sizes[0] for axis in self.axes if axis.sizes and not axis.sizes[1:]
        }
        known = values_at(self, fixed)
        for entry in self.communications:
            # Entries over axes of size 1 only are never settled, so their amounts need not be
            # valid.
            if all(fixed.get(name) == 1 for name in entry.over):
                continue
            for key, amount in amounts_of(entry):
                if all(name in known for name in names_in(amount)):
                    entry_value(entry, key, known)

    def _check_over(self, entry: Entry | UnpricedTraffic) -> None:
        where, known = entry.places.of("over"), [axis.name for axis in self.axes]
        if not entry.over:
            hint = f"name at least one of: {', '.join(known)}"
            raise InputError(f"{entry.name!r} is over no axis", where=where, hint=hint)
        for name in entry.over:
            if name not in known:
                problem = f"{entry.name!r} is over {name!r}, which is not an axis"
                raise InputError(problem, where=where, hint=suggest_nearest(name, known))
            if entry.over.count(name) > 1:
                problem = f"{entry.name!r} is over {name!r} twice"
                raise InputError(problem, where=where, hint="name each axis once")


Powers = Mapping[str, int]
_POWERS = {"bytes": (0, 1), "times": (0,), "hidden": (0,)}
"""The powers of bytes that an entry's amounts may have."""
_BOUNDS = {
    "bytes": (MOST_PAYLOAD_BYTES, f"above 0, and at most {MOST_PAYLOAD_BYTES}"),
    "times": (MOST_TIMES, f"above 0, and at most {MOST_TIMES}"),
    "hidden": (1, "from 0 to 1"),
}


def amounts_of(entry: Entry | UnpricedTraffic) -> tuple[tuple[str, Amount], ...]:
    """An entry's amounts by their keys: bytes, times and, for a collective, hidden."""
    amounts = (("bytes", entry.payload), ("times", entry.times))
    return (*amounts, ("hidden", entry.hidden)) if isinstance(entry, Entry) else amounts


def values_at(job: Workload, sizes: Mapping[str, int]) -> Known:
    """The value of each name of a job at sizes of its axes, or the error in computing it.

    With data = 8, ``batch / data`` is an eighth of the batch. Numbers that depend on axes without a
    size are left out.
    """
    known: dict[str, Fraction | InputError] = {name: Fraction(size) for name, size in sizes.items()}
    for number in job.numbers:
        if all(name in known for name in names_in(number.amount)):
            try:
                known[number.name] = evaluate_amount(number.amount, known)
            except InputError as error:
                known[number.name] = _add_place(error, number.where)
    return known


def entry_value(entry: Entry | UnpricedTraffic, key: str, known: Known) -> Fraction:
    """The value of one amount of an entry.

    Raises InputError, with the place, for a division by zero and for a value out of bounds: bytes
    and times are above 0, the hidden share is from 0 to 1.
    """
    where = entry.places.of(key)
    try:
        value = evaluate_amount(dict(amounts_of(entry))[key], known)
    except InputError as error:
        problem = f"{key} of {entry.name!r}: {error.problem}"
        raise _add_place(InputError(problem, where=error.where, hint=error.hint), where) from None
    most, hint = _BOUNDS[key]
    if value < 0 or (value == 0 and key != "hidden") or value > most:
        problem = f"{key} of {entry.name!r} would be {number_text(value)}"
        raise InputError(problem, where=where, hint=hint)
    return value


def number_text(value: Fraction) -> str:
    """A number as people write it: a long fraction with 6 digits."""
    return str(value) if value.denominator < 1000 else f"{float(value):.6g}"


def _add_place(error: InputError, where: str) -> InputError:
    """The error with a place, if it has none yet."""
    return error if error.where else InputError(error.problem, where=where, hint=error.hint)


def _power(amount: Amount, powers: Powers, where: str) -> int:
    for name in names_in(amount):
        if name not in powers:
            problem = (
                f"{str(amount)!r} names {name!r}, which is neither an axis nor "
                "a number given before"
            )
            raise InputError(problem, where=where, hint=suggest_nearest(name, powers))
    with error_context(where):
        return power_of_bytes(amount, powers)


def _repeated_error(name: str, where: str) -> InputError:
    hint = "every axis, number, requirement and collective needs a unique name"
    return InputError(f"the name {name!r} is given twice", where=where, hint=hint)


def _check_symbol(name: str, kind: str, where: str) -> None:
    """Raises InputError for a name that an amount could not contain."""
    with error_context(where):
        check_name(name, kind)
    if not _NAME.fullmatch(name) or name in EXTREMES:
        problem = f"{kind} name {name!r} cannot be used in an amount"
        hint = "a letter followed by letters, digits or '_', and neither min nor max"
        raise InputError(problem, where=where, hint=hint)


def _check_text(text: str, key: str, places: SourcePlaces) -> None:
    """Raises InputError for text that is empty or not a single printable line."""
    if not text.strip() or not text.isprintable():
        raise InputError(f"{key} = {text!r}", where=places.of(key), hint="one line of text")
