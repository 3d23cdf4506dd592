"""The construction of parts of answers: their keys are attributes of the domain, in JSON.

A key with the name of an attribute needs no code. The types of keys determine how lists, pairs and
inner parts are built, and a type states with ``KeySpelling`` how its values are written.
"""

from __future__ import annotations

import builtins
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, Self

from hierarchies.files.schema import DocumentPart


@dataclass(frozen=True)
class KeySpelling:
    """The mark of a type of keys: how a value of the domain is spelled as JSON."""

    spell: Callable[[Any], Any]


_OTHER_WORDS: Mapping[str, Sequence[str]] = {
    "bytes": ("size_bytes", "payload_bytes"),
    "count": ("cardinality",),
    "request": ("goal", "how"),
    "reduce": ("over",),
    "algorithm": ("choice",),
    "interval_seconds": ("interval",),
    "baseline_interval_seconds": ("baseline_interval",),
}
"""Keys of answers whose attributes in the domain have other names."""


class AnswerPart(DocumentPart):
    """What all parts of answers have in common: how one is made of values of the domain."""

    @classmethod
    def like(cls, *values: object, **others: Any) -> Self:
        """Return a part whose keys are the attributes of the same names, in JSON.

        The first of several values that has the attribute is used; an item of several numbers or
        words is taken in the order of the keys. ``others`` has keys that are computed or renamed.
        """
        for key, spell in _spellings(cls).items():
            value = others[key] if key in others else _attribute(key, values)
            if value is not ...:
                others[key] = spell(value)
        return cls(**others)


def _attribute(key: str, values: Sequence[object]) -> Any:
    """Return the attribute of a name or its synonym; ``...`` if no value has it."""
    for name in (key, *_OTHER_WORDS.get(key, ())):
        for value in values:
            if (found := getattr(value, name, ...)) is not ...:
                return found
    return ...


@cache
def _spellings(part: type[AnswerPart]) -> Mapping[str, Callable[[Any], Any]]:
    """Return the functions that spell values of the domain, by key of a part."""
    return {
        key: _spelling(field.annotation, field.metadata) for key, field in part.model_fields.items()
    }


def _spelling(kind: Any, marks: Sequence[object] = ()) -> Callable[[Any], Any]:
    """Return the function that spells a value of the domain in a key with these marks."""
    for mark in marks:
        if isinstance(mark, KeySpelling):
            return mark.spell
    match typing.get_origin(kind), typing.get_args(kind):
        case typing.Annotated, (inner, *more):
            return _spelling(inner, more)
        case ((typing.Union | types.UnionType), (inner, types.NoneType)):
            return partial(_spell_unless_none, _spelling(inner))
        case builtins.list, (item,):
            return partial(_spell_items, _spelling(item))
        case builtins.dict, _:
            return dict
    if isinstance(kind, type) and issubclass(kind, AnswerPart):
        return partial(_make_part, kind)
    return _spell_number


def _spell_unless_none(spell: Callable[[Any], Any], value: Any) -> Any:
    return value if value is None else spell(value)


def _spell_items(spell: Callable[[Any], Any], values: Any) -> list[Any]:
    return [spell(item) for item in (values.items() if isinstance(values, Mapping) else values)]


def _make_part(part: type[AnswerPart], value: Any) -> AnswerPart:
    """Return a part of one value, by the part's own rule if it has any; of a tuple, key by key."""
    if isinstance(value, AnswerPart):
        return value
    if type(value) is tuple:
        return part.like(**dict(zip(part.model_fields, value, strict=True)))
    make: Callable[[Any], AnswerPart] = getattr(part, "of", part.like)
    return make(value)


def _spell_number(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
