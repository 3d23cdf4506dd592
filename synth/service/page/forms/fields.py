"""The fields of a form as a browser sends them, and the findings about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from hierarchies import InputError
from synth.service.errors import clip_text

Fields = Mapping[str, Sequence[str]]
MOST_FIELDS = 200
OWN_SYSTEM = "own.toml"
OWN_JOB = "own-job.toml"
OWN_MODEL = "config.json"
"""The names of a user's own descriptions in errors."""


@dataclass
class FormFindings:
    """Findings by field: problems (``wrong``) and ``facts``, as ``4 node × 8 gpu: 32 devices``.

    ``where`` maps each flag and key that an error may name to its field. ``own`` has the names of
    the user's own texts. ``suits`` has values for fields that the user did not choose, which match
    the other fields.
    """

    wrong: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    suits: dict[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = (OWN_SYSTEM, OWN_JOB, OWN_MODEL)

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
        """Append a fact to the facts shown next to a field."""
        self.facts[name] = self.facts.get(name, "") + fact


@dataclass(frozen=True)
class AxisRow:
    """One row of the table of axes."""

    name: str = ""
    size: str = ""
    over: bool = False


@dataclass(frozen=True)
class LogText:
    """A log: its file's name and text."""

    name: str = ""
    text: str = ""


def parse_fields(raw: bytes) -> Fields:
    """Parse the fields of a form by name. Raises InputError if they are malformed."""
    try:
        return parse_qs(raw.decode("utf-8"), True, False, "utf-8", "strict", MOST_FIELDS)
    except ValueError as error:
        hint = f"send it as a browser does: {error}"[:200]
        raise InputError("the form cannot be read", hint=hint) from None


def first_value(fields: Fields, name: str) -> str:
    """Return the first value of a field, stripped; empty if there is none."""
    return (fields.get(name) or ("",))[0].strip()


def system_in(fields: Fields) -> Any:
    """Return the machine of a form: a name with a count, or the user's own text."""
    count = first_value(fields, "count")
    counted = f":{count}" if count else ""
    if own := first_value(fields, "own"):
        return {"name": f"{OWN_SYSTEM}{counted}", "text": own}
    return f"{first_value(fields, 'system')}{counted}"


def axis_rows(fields: Fields) -> list[AxisRow]:
    """Return the rows as sent; a ticked box has the number of its row as its value."""
    names, sizes = fields.get("axis_name", ()), fields.get("axis_size", ())
    ticked = fields.get("reduce", ())
    return [
        AxisRow(name, size, str(number) in ticked)
        for number, (name, size) in enumerate(zip(names, sizes, strict=False))
    ]


def logs_in(fields: Fields) -> Iterator[LogText]:
    """Yield the logs with a text; one without a name is named by its number."""
    names, texts = fields.get("log_name", ()), fields.get("log_text", ())
    pairs = zip(names, texts, strict=False)
    for number, (name, text) in enumerate(pairs, 1):
        if text.strip():
            yield LogText(name.strip() or f"log{number}.txt", text)
