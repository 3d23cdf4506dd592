"""Flags that belong to the one before them: ``--reduce data --bytes 1GiB --reduce model ...``.

One collective fills the question itself, as it always did, and its flags may stand in any order.
Several are a list, and then it matters which flag stands where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from hierarchies import InputError
from synth.ask.questions.fields import ItemFlags, flag_of, lists_of

Words = Sequence[tuple[str, str]]
Item = dict[str, str]


def collect_items(
    model: type[BaseModel], key: str, flags: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Item]]:
    """The flags of the question, and those of each item if there are several.

    ``flags[key]`` has the names of repeatable flags and their values in the order they were given.
    Raises InputError for a flag that belongs to no item, or twice to one, and for one that is
    missing.
    """
    each = lists_of(model)[key]
    rest = {name: value for name, value in flags.items() if name != key}
    words: Words = flags.get(key) or ()
    begun = sum(name == each.begins for name, _ in words)
    if begun > 1:
        return rest, _items(each, words)
    for name, value in words:
        if name in rest:
            raise InputError(
                f"{_flag(each, name)} is given twice for one {_flag(each, each.begins)}",
                hint="give it once",
            )
        rest[name] = value
    _check_alone(model, each, words)
    return rest, []


def _items(each: ItemFlags, words: Words) -> list[Item]:
    items: list[Item] = []
    for name, value in words:
        if name == each.begins:
            items.append({})
        elif not items:
            raise _early_flag_error(each, name)
        elif name in items[-1]:
            problem = f"{_flag(each, name)} is given twice for {_begin_text(each, items[-1])}"
            raise InputError(problem, hint="give it once")
        items[-1][name] = value
    for name, field in each.item.model_fields.items():
        for item in items:
            if field.is_required() and name not in item:
                hint = f"each of several needs its own, after its {_flag(each, each.begins)}"
                problem = f"{_begin_text(each, item)} has no {_flag(each, name)}"
                raise InputError(problem, hint=hint)
    return items


def _check_alone(model: type[BaseModel], each: ItemFlags, words: Words) -> None:
    """Refuse what the question itself has no field for. Raises InputError."""
    begins = [name for name, _ in words].index(each.begins) if words else 0
    for position, (name, _) in enumerate(words):
        if name in model.model_fields:
            continue
        if position < begins:
            raise _early_flag_error(each, name)
        raise InputError(
            f"{_flag(each, name)} relates a collective to others, but there is only one",
            hint=f"name the others, each with its {_flag(each, each.begins)}, or leave it out",
        )


def _early_flag_error(each: ItemFlags, name: str) -> InputError:
    begins = _flag(each, each.begins)
    return InputError(
        f"{_flag(each, name)} precedes the first {begins}",
        hint=f"it belongs to the {begins} before it",
    )


def _begin_text(each: ItemFlags, item: Item) -> str:
    return f"{_flag(each, each.begins)} {item[each.begins]}"


def _flag(each: ItemFlags, name: str) -> str:
    found = flag_of(each.item, name)
    assert found is not None
    return found.word
