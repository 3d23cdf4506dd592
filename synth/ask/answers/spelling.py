"""How a part of an answer is made: its keys are attributes of the domain, spelled as JSON.

A key that has the name of an attribute needs no line of code: lists, pairs and parts inside are
made by the types of the keys, and a type says by ``KeySpelling`` how its values are written.
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

from synth.collective.emit.document import schema


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
"""Keys of answers that attributes of the domain spell otherwise."""


class AnswerPart(schema.DocumentPart):
    """What all parts of answers have in common: how one is made of values of the domain."""

    @classmethod
    def like(cls, *values: object, **others: Any) -> Self:
        """A part whose keys are the attributes of their names, each as JSON spells it.

        Of several values the first that has the attribute; an item of several numbers or words is
        taken in the order of the keys. ``others`` has what is computed, or called otherwise.
        """
        for key, spell in _spellings(cls).items():
            value = others[key] if key in others else _attribute(key, values)
            if value is not ...:
                others[key] = spell(value)
        return cls(**others)


def _attribute(key: str, values: Sequence[object]) -> Any:
    """The attribute of that name, or of another word for it; ... if no value has it."""
    for name in (key, *_OTHER_WORDS.get(key, ())):
        for value in values:
            if (found := getattr(value, name, ...)) is not ...:
                return found
    return ...


@cache
def _spellings(part: type[AnswerPart]) -> Mapping[str, Callable[[Any], Any]]:
    """By key of a part: how a value of the domain is spelled in it."""
    return {
        key: _spelling(field.annotation, field.metadata) for key, field in part.model_fields.items()
    }


def _spelling(kind: Any, marks: Sequence[object] = ()) -> Callable[[Any], Any]:
    """How a value of the domain is spelled in a key of a type with these marks."""
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
    """A part of one value, by its own rule if it has one; of a tuple, key by key."""
    if isinstance(value, AnswerPart):
        return value
    if type(value) is tuple:
        return part.like(**dict(zip(part.model_fields, value, strict=True)))
    make: Callable[[Any], AnswerPart] = getattr(part, "of", part.like)
    return make(value)


def _spell_number(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
