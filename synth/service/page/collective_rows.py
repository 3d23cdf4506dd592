"""The rows of the form for what else a training step sends, and the list of collectives they make.

The form's own request is the first of them; with no further row it is a question about that alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from hierarchies import InputError
from synth.ask.questions.collectives import CollectiveRequest
from synth.ask.questions.fields import flag_of

Fields = Mapping[str, Sequence[str]]
WEIGHTS = ("times", "hidden")
"""What a collective has only beside others."""


@dataclass(frozen=True)
class CollectiveRow:
    """One further collective, as it is typed: the axes it is over, then its figures."""

    reduce: str = ""
    bytes: str = ""
    times: str = ""
    hidden: str = ""
    request: str = "all-reduce"

    @property
    def empty(self) -> bool:
        """Whether nothing is typed; a request is always chosen."""
        return not any(astuple(self)[:-1])


def hint(name: str) -> str:
    """What is typed into a box of a row."""
    flag = flag_of(CollectiveRequest, name)
    assert flag is not None
    return flag.what


def rows_of(form: Fields) -> list[CollectiveRow]:
    """The rows as they were sent, empty ones too: every box under its name."""
    names = [one.name for one in fields(CollectiveRow)]
    columns = [form.get(f"sent_{name}", ()) for name in names]
    return [
        CollectiveRow(**{name: text.strip() for name, text in zip(names, texts, strict=True)})
        for texts in zip(*columns, strict=False)
    ]


def weights_of(form: Fields) -> dict[str, str]:
    """What is typed of the weight of the form's own request."""
    return {name: (form.get(name) or ("",))[0].strip() for name in WEIGHTS}


def collectives_of(form: Fields, first: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first collective with its weight, then the rows that are not empty; none if it is alone.

    Raises InputError for what cannot be read, and for a weight where there is nothing to weigh.
    """
    rows = [row for row in rows_of(form) if not row.empty]
    weights = {name: text for name, text in weights_of(form).items() if text}
    if not rows:
        for name in weights:
            problem = f"{name} weighs a collective against others, and there is only one"
            raise InputError(problem, where=name, hint="name the others, or leave it empty")
        return []
    found = [{**first, **_read(weights)}]
    for row in rows:
        texts = {one.name: getattr(row, one.name) for one in fields(CollectiveRow)}
        found.append(_read({name: text for name, text in texts.items() if text}))
    return found


def row_of(asked: CollectiveRequest) -> CollectiveRow:
    """The row that would ask for a collective again."""
    return CollectiveRow(**{one.name: text_of(asked, one.name) for one in fields(CollectiveRow)})


def text_of(asked: CollectiveRequest, name: str) -> str:
    """A figure of a collective as it is typed; a weight that is the usual one is left empty."""
    value, field = getattr(asked, name), CollectiveRequest.model_fields[name]
    if name in WEIGHTS:
        return "" if value == field.default else f"{value:g}"
    flag = flag_of(CollectiveRequest, name)
    assert flag is not None
    return str(flag.written(value))


def _read(texts: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in texts.items():
        flag = flag_of(CollectiveRequest, name)
        assert flag is not None
        found[name] = text if flag.notation is None else flag.notation.read(text)
    return found
