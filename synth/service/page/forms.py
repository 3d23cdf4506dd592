"""The form as it comes from a browser, as a question; and what is wrong with it, field by field.

What a form says is put to the same models and functions that answer, so a field is told what the
answer would tell. Checks are of the kind that take no time: no program is searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from urllib.parse import parse_qsl

from hierarchies import (
    Axis,
    InputError,
    Placement,
    Reduction,
    System,
    count_placements,
    placements,
)
from synth.service.errors import clipped
from synth.verbs.planning import TopQuestion
from synth.verbs.questions import asked

Fields = Mapping[str, Sequence[str]]
MOST_FIELDS = 200
MOST_DEVICES = 2**20
_NUMBERS = ("k", "max_steps")
_SWITCHES = ("across", "per_placement", "explain")
_SWITCHES_OFF = {"no_collapse": "collapse", "no_stripes": "stripes"}
_STUBS: dict[str, Any] = {"system": "dgx-h100", "axes": {}, "reduce": []}
_OWN = "own.toml"
_WHERE = {"--without": "without", "--slow": "slow", "--per-placement": "per_placement"}


@dataclass
class Checked:
    """What is wrong by field, and what can be said of the machine and the axes beside that."""

    wrong: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, error: InputError) -> None:
        """The first thing that is wrong with a field stays."""
        place = f"{error.where}: " if error.where.startswith(_OWN) else ""
        self.wrong.setdefault(name, place + words(error))


def words(error: InputError) -> str:
    """A mistake without its place, which is beside it on the page."""
    return clipped(f"{error.problem}; {error.hint}" if error.hint else error.problem)


def read(raw: bytes) -> Fields:
    """The fields of a form by name. Raises InputError for what no browser sends."""
    try:
        pairs = parse_qsl(raw.decode("utf-8"), True, False, "utf-8", "strict", MOST_FIELDS)
    except ValueError as error:
        told = "the form cannot be read"
        raise InputError(told, hint=f"send it as a browser does: {error}"[:200]) from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def question(fields: Fields) -> tuple[dict[str, Any], Checked]:
    """The question of ``top`` as JSON, and what could not be made one."""
    checked = Checked()
    given: dict[str, Any] = {"system": _system(fields)}
    given["axes"], given["reduce"] = _axes(fields, checked)
    for name in ("request", "bytes", "algorithm"):
        if value := _one(fields, name):
            given[name] = value
    for name in _NUMBERS:
        _number(fields, name, given, checked)
    if (segments := _one(fields, "segments")) and segments != "auto":
        _number(fields, "segments", given, checked)
    given |= {name: True for name in _SWITCHES if _one(fields, name)}
    given |= {name: False for key, name in _SWITCHES_OFF.items() if _one(fields, key)}
    if without := _names(_one(fields, "without")):
        given["without"] = without
    if slow := _names(_one(fields, "slow")):
        given["slow"] = _shares(slow, checked)
    return given, checked


def check(
    given: Mapping[str, Any], checked: Checked, limit: Callable[[TopQuestion], None]
) -> Checked:
    """Everything that is wrong with a question, as far as it can be told at once.

    ``limit`` raises InputError for a question that asks for too much here.
    """
    sound = _sound(dict(given), checked)
    try:
        limit(sound)
    except InputError as error:
        checked.note(_field(error), error)
    try:
        system = sound.machine()
    except InputError as error:
        checked.note(_WHERE.get(error.where.split(",")[0], "system"), error)
        return checked
    levels = " × ".join(f"{one.cardinality} {one.name}" for one in system.hierarchy.levels)
    left = system.devices - len(system.missing)
    checked.told["system"] = f"{levels}: {system.devices} devices"
    if system.missing:
        checked.told["system"] += f", {left} of them left"
    if "axes" not in checked.wrong:
        _check_axes(given, sound, system, left, checked)
    return checked


def _check_axes(
    given: Mapping[str, Any], sound: TopQuestion, system: System, left: int, checked: Checked
) -> None:
    """Whether the axes fit the machine, and what is reduced over is among them."""
    product = prod(sound.axes.values())
    checked.told["axes"] = f"product {product} of {left} devices"
    try:
        axes = tuple(Axis(name, size) for name, size in given["axes"].items())
        if system.missing:
            sound.asked()
            return
        if system.devices > MOST_DEVICES:
            return
        count = count_placements(system.hierarchy, axes)
        checked.told["axes"] += f"; {count} {'placement' if count == 1 else 'placements'}"
        first: Placement = next(placements(system.hierarchy, axes))
    except InputError as error:
        checked.note("axes", error)
        return
    try:
        Reduction(first, tuple(sound.reduce))
        sound.asked()
    except InputError as error:
        checked.note(_WHERE.get(error.where, "reduce"), error)


def _sound(given: dict[str, Any], checked: Checked) -> TopQuestion:
    """The question without the fields that are wrong, which are noted."""
    while True:
        try:
            return asked(TopQuestion, given)
        except InputError as error:
            name = _field(error)
            checked.note(name, error)
            if name in _STUBS and given.get(name) != _STUBS[name]:
                given[name] = _STUBS[name]
            elif name in given and name not in _STUBS:
                del given[name]
            else:
                raise AssertionError(f"no field is to blame for {error}") from error


def _field(error: InputError) -> str:
    """The field of the form that a mistake is about; a text of one's own is the system's."""
    if error.where.startswith(_OWN):
        return "system"
    return _WHERE.get(error.where, error.where.split(".")[0].split(",")[0])


def _system(fields: Fields) -> Any:
    """A name of the catalogue with a count, or a text of one's own."""
    count = _one(fields, "count")
    counted = f":{count}" if count else ""
    if own := _one(fields, "own").strip():
        return {"name": f"{_OWN}{counted}", "text": own}
    return f"{_one(fields, 'system')}{counted}"


def _axes(fields: Fields, checked: Checked) -> tuple[dict[str, int], list[str]]:
    """The axes by name, and those whose box is ticked: its value is the number of the row."""
    axes: dict[str, int] = {}
    over: list[str] = []
    ticked = set(fields.get("reduce", ()))
    for number, name, size in _rows(fields):
        if name in axes:
            checked.note("axes", InputError(f"axis {name!r} is given twice"))
        try:
            axes[name] = _whole(size, f"the size of {name or 'an axis'}")
        except InputError as error:
            checked.note("axes", error)
        if str(number) in ticked:
            over.append(name)
    if not axes:
        checked.note("axes", InputError("no axis is given", hint="name one, and give its size"))
    if not over:
        told = "nothing to reduce over is chosen"
        checked.note("reduce", InputError(told, hint="tick an axis"))
    return axes, over


def _rows(fields: Fields) -> Iterator[tuple[int, str, str]]:
    names, sizes = fields.get("axis_name", ()), fields.get("axis_size", ())
    for number, (name, size) in enumerate(zip(names, sizes, strict=False)):
        if name.strip() or size.strip():
            yield number, name.strip(), size.strip()


def _number(fields: Fields, name: str, given: dict[str, Any], checked: Checked) -> None:
    if text := _one(fields, name):
        try:
            given[name] = _whole(text, name)
        except InputError as error:
            checked.note(name, error)


def _whole(text: str, what: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InputError(f"{what} is {text[:40]!r}", hint="a whole number is needed")
    return int(text)


def _shares(given: Sequence[str], checked: Checked) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in given:
        name, _, share = one.partition("=")
        try:
            found[name.strip()] = float(share)
        except ValueError:
            told = InputError(f"{one[:80]!r} cannot be read", hint="as in node3/nic2=0.5")
            checked.note("slow", told)
    return found


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.replace(",", " ").split() if part.strip()]


def _one(fields: Fields, name: str) -> str:
    return (fields.get(name) or ("",))[0].strip()
