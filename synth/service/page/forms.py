"""Converts the form from a browser to a question, and notes its problems field by field.

The checks use the same models and functions as the answer, so the errors are the same. Only quick
checks are made: no program is searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any
from urllib.parse import parse_qs

from hierarchies import InputError, Reduction, System, count_placements, placements
from synth.ask.planning import TopQuestion
from synth.ask.questions.question import axes_of, parse_question
from synth.collective.ranking.advice import find_left_over_axes, fix_placement
from synth.service.errors import clip_text
from synth.service.page.boxes import Boxes, parse_whole
from synth.service.page.collective_rows import WEIGHTS, collectives_of
from synth.show.terminal.style import pluralize

Fields = Mapping[str, Sequence[str]]
MOST_FIELDS = 200
MOST_DEVICES = 2**20
BOXES = Boxes.of(
    TopQuestion, TopQuestion.model_fields.keys() - {"system", "axes", "reduce", "placement"}
)
"""The flags of ``top`` with a box of their own."""
_STUBS: dict[str, Any] = {"system": "dgx-h100", "axes": {}, "reduce": []}
OWN_FILE = "own.toml"
"""The name of a user's own description in errors."""
_FIELD_BY_KEY = {**BOXES.where, **{name: name for name in WEIGHTS}}


@dataclass
class FormFindings:
    """Findings by field: problems (``wrong``) and facts, as ``4 node × 8 gpu: 32 devices``.

    ``where``: the field of each flag that an error may name; ``own``: the names of own texts;
    ``suits``: values for fields that the user did not choose, which suit the others.
    """

    wrong: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    suits: dict[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = (OWN_FILE,)

    def note(self, name: str, error: InputError) -> None:
        """Note a problem of a field, unless it has one already."""
        place = f"{error.where}: " if error.where.startswith(self.own) else ""
        problem = f"{error.problem}; {error.hint}" if error.hint else error.problem
        self.wrong.setdefault(name, place + clip_text(problem))

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Note an InputError raised inside at the field whose flag it names, else at ``name``."""
        try:
            yield
        except InputError as error:
            self.note(self.where.get(error.where.split(",")[0], name), error)

    def tell(self, name: str, fact: str) -> None:
        """Append a fact to those shown beside a field."""
        self.told[name] = self.told.get(name, "") + fact


@dataclass(frozen=True)
class AxisRow:
    """One row of the table of axes."""

    name: str = ""
    size: str = ""
    over: bool = False


def read(raw: bytes) -> Fields:
    """Parse the fields of a form by name. Raises InputError if they are malformed."""
    try:
        return parse_qs(raw.decode("utf-8"), True, False, "utf-8", "strict", MOST_FIELDS)
    except ValueError as error:
        hint = f"send it as a browser does: {error}"[:200]
        raise InputError("the form cannot be read", hint=hint) from None


def first_value(fields: Fields, name: str) -> str:
    """Return the first value of a field, stripped; empty if there is none."""
    return (fields.get(name) or ("",))[0].strip()


def question(fields: Fields) -> tuple[dict[str, Any], FormFindings]:
    """Return the question of ``top`` as JSON, and the problems of converting the form to it.

    With further collectives the form's own is the first of their list.
    """
    checked = FormFindings(where=_FIELD_BY_KEY)
    axes, over = _axes(fields, checked)
    parsed: dict[str, Any] = {"system": system_in(fields), "axes": axes, "reduce": over}
    parsed |= read_boxes(fields, BOXES, checked)
    first: dict[str, Any] = {"reduce": over}
    first |= {key: parsed[key] for key in ("bytes", "request") if key in parsed}
    with checked.noting("sent"):
        if collectives := collectives_of(fields, first):
            alone = {key: value for key, value in parsed.items() if key not in first}
            parsed = {**alone, "collectives": collectives}
    return parsed, checked


def read_boxes(fields: Fields, boxes: Boxes, checked: FormFindings) -> dict[str, Any]:
    """Return the values of boxes by key of the question, and note invalid ones."""
    values = {}
    for name, box in boxes.by_name.items():
        if text := first_value(fields, name):
            with checked.noting(name):
                values[box.name] = boxes.typed(name, text)
    return values


def check(
    parsed: Mapping[str, Any], checked: FormFindings, limit: Callable[[TopQuestion], None]
) -> FormFindings:
    """Note problems of a question that quick checks can find.

    ``limit`` raises InputError if a question exceeds this server's limits.
    """
    sound = _drop_wrong_fields(dict(parsed), checked)
    try:
        limit(sound)
    except InputError as error:
        checked.note(_field(error), error)
    with checked.noting("system"):
        _check_machine(sound, sound.machine(), checked)
    return checked


def _check_machine(sound: TopQuestion, system: System, checked: FormFindings) -> None:
    """Note the machine's devices, and whether the axes and the reduction fit it."""
    tell_machine(system, checked)
    remaining = system.devices - len(system.missing)
    if "axes" in checked.wrong:
        return
    product = prod(sound.axes.values())
    if product in (remaining, system.devices):  # else a problem is noted instead
        checked.tell("axes", f"product {product} of {remaining} devices")
    with checked.noting("axes"):
        axes = axes_of(sound.axes)
        if system.missing and not sound.collectives:
            sound.asked()
        elif system.devices <= MOST_DEVICES:
            count = count_placements(system.hierarchy, axes)
            checked.tell("axes", f"; {pluralize(count, 'placement')}")
            _check_sent(sound, system, checked)


def tell_machine(system: System, checked: FormFindings) -> None:
    """Note the facts of a machine."""
    levels = " × ".join(f"{level.cardinality} {level.name}" for level in system.hierarchy.levels)
    checked.tell("system", f"{levels}: {system.devices} devices")
    if system.prices == "calibrated":
        checked.tell("system", ", calibrated on its measurements")
    if system.missing:
        checked.tell("system", f", {system.devices - len(system.missing)} of them left")


def _check_sent(sound: TopQuestion, system: System, checked: FormFindings) -> None:
    """Note problems of the collectives, and axes without a collective."""
    if sound.collectives:
        with checked.noting("sent"):
            sound.job()
            system.check_even()
        return
    with checked.noting("reduce"):
        first = next(placements(system.hierarchy, axes_of(sound.axes)))
        Reduction(first, tuple(sound.reduce or ()))
        request = sound.asked()
        if fix_placement(system, request) is not request:
            left_over = " and ".join(find_left_over_axes(request))
            fact = f"{left_over}: nothing is said of what it sends, so the placement"
            checked.tell("reduce", fact)
            checked.tell("reduce", " is the one that frameworks lay out; add what it sends below")


def _drop_wrong_fields(parsed: dict[str, Any], checked: FormFindings) -> TopQuestion:
    """Parse a question without its wrong fields, which are noted; required ones become stubs."""
    while True:
        try:
            return parse_question(TopQuestion, parsed)
        except InputError as error:
            name = _field(error)
            checked.note(name, error)
            if error.where.startswith("collectives"):
                parsed["reduce"] = parsed.pop("collectives")[0]["reduce"]
            elif name in _STUBS and parsed.get(name) != _STUBS[name]:
                parsed[name] = _STUBS[name]
            elif name in parsed and name not in _STUBS:
                del parsed[name]
            else:
                raise AssertionError(f"no field is to blame for {error}") from error


def _field(error: InputError) -> str:
    """The field that an error is about; for the user's own text it is the system."""
    if error.where.startswith(OWN_FILE):
        return "system"
    listed, _, place = error.where.partition(".")
    if listed == "collectives":
        number, _, key = place.partition(".")
        return key.partition(".")[0] if number == "0" else "sent"
    return _FIELD_BY_KEY.get(error.where, error.where.split(".")[0].split(",")[0])


def system_in(fields: Fields) -> Any:
    """Return the machine of a form: a name with a count, or the user's own text."""
    count = first_value(fields, "count")
    counted = f":{count}" if count else ""
    if own := first_value(fields, "own"):
        return {"name": f"{OWN_FILE}{counted}", "text": own}
    return f"{first_value(fields, 'system')}{counted}"


def axis_rows(fields: Fields) -> list[AxisRow]:
    """Return the rows as sent; a ticked box has the number of its row as its value."""
    names, sizes = fields.get("axis_name", ()), fields.get("axis_size", ())
    ticked = fields.get("reduce", ())
    return [
        AxisRow(name, size, str(number) in ticked)
        for number, (name, size) in enumerate(zip(names, sizes, strict=False))
    ]


def _axes(fields: Fields, checked: FormFindings) -> tuple[dict[str, int], list[str]]:
    """The axes by name, and the ticked ones."""
    axes: dict[str, int] = {}
    over: list[str] = []
    for row in axis_rows(fields):
        name, size = row.name.strip(), row.size.strip()
        if not name and not size:
            continue
        if name in axes:
            checked.note("axes", InputError(f"axis {name!r} is given twice"))
        with checked.noting("axes"):
            axes[name] = parse_whole(size, f"the size of {name or 'an axis'}")
        if row.over:
            over.append(name)
    if not axes:
        checked.note("axes", InputError("no axis is given", hint="name one, and give its size"))
    if not over:
        nothing = InputError("nothing to reduce over is chosen", hint="tick an axis")
        checked.note("reduce", nothing)
    return axes, over
