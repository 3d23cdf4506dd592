"""The form's rows for further collectives of a training step, and their list in the question.

The form's own request is the first in the list. Without further rows, the question has no list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from typing import Any

from hierarchies import InputError
from synth.ask.questions.collectives import CollectiveRequest
from synth.ask.questions.fields import Flag, flag_of
from synth.service.page.forms.fields import Fields, first_value

WEIGHTS = ("times", "hidden")
"""Fields that a collective has only if there are several."""


@dataclass(frozen=True)
class CollectiveRow:
    """One further collective as typed: its axes, then its numbers."""

    reduce: str = ""
    bytes: str = ""
    times: str = ""
    hidden: str = ""
    request: str = "all-reduce"

    @property
    def empty(self) -> bool:
        """Whether nothing is typed, disregarding ``request``, which always has a choice."""
        return not any(astuple(self)[:-1])


def hint(name: str) -> str:
    """Return the help of a box of a row."""
    return _flag(name).what


def rows_of(form: Fields) -> list[CollectiveRow]:
    """Return the rows as sent, including empty ones."""
    names = [field.name for field in fields(CollectiveRow)]
    columns = [form.get(f"sent_{name}", ()) for name in names]
    return [
        CollectiveRow(**{name: text.strip() for name, text in zip(names, texts, strict=True)})
        for texts in zip(*columns, strict=False)
    ]


def collectives_of(form: Fields, first: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the first collective with its weight, and the non-empty rows; [] if there are none.

    Raises InputError for invalid texts, and for a weight without further collectives.
    """
    rows = [row for row in rows_of(form) if not row.empty]
    weights = {name: text for name in WEIGHTS if (text := first_value(form, name))}
    if not rows:
        for name in weights:
            problem = f"{name} weighs a collective against others, and there is only one"
            raise InputError(problem, where=name, hint="name the others, or leave it empty")
        return []
    collectives = [{**first, **_read(weights)}]
    for row in rows:
        texts = {field.name: getattr(row, field.name) for field in fields(CollectiveRow)}
        collectives.append(_read({name: text for name, text in texts.items() if text}))
    return collectives


def row_of(collective: CollectiveRequest) -> CollectiveRow:
    """Return the row that represents a collective."""
    return CollectiveRow(
        **{field.name: text_of(collective, field.name) for field in fields(CollectiveRow)}
    )


def text_of(collective: CollectiveRequest, name: str) -> str:
    """Return a field of a collective as typed; a default weight is empty."""
    value, field = getattr(collective, name), CollectiveRequest.model_fields[name]
    if name in WEIGHTS:
        return "" if value == field.default else f"{value:g}"
    return str(_flag(name).written(value))


def _flag(name: str) -> Flag:
    flag = flag_of(CollectiveRequest, name)
    assert flag is not None
    return flag


def _read(texts: Mapping[str, str]) -> dict[str, Any]:
    notations = {name: _flag(name).notation for name in texts}
    return {
        name: text if (notation := notations[name]) is None else notation.read(text)
        for name, text in texts.items()
    }
