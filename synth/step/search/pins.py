"""Decisions that a user fixes before the search, as names with values: ``tensor=8 zero=1``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from hierarchies import InputError
from synth.step.schedules import SCHEDULES
from synth.step.sharding import Recipe
from synth.step.sharding.plan import PIPE

AXES = (PIPE, "data", "expert", "seq", "tensor")
"""The axes of recipes from major to minor, in the order of frameworks."""


@dataclass(frozen=True)
class Pins:
    """Values that a recipe must have, by the name of the pin: sizes of axes and other decisions.

    ``frameworks``: those of which one must run the recipe; empty if none needs to.
    """

    values: Mapping[str, str]
    frameworks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Pins:
        """Parses ``tensor=8 zero=1 remat=no``. Raises InputError for unknown names or values."""
        values: dict[str, str] = {}
        for word in text.replace(",", " ").replace(";", " ").split():
            name, equals, value = word.partition("=")
            if not equals or name not in _WORDS or not _WORDS[name](value):
                hint = (
                    "as in 'tensor=8 zero=1 schedule=1f1b microbatches=32 remat=no sequence=yes"
                    " vocabulary=no bucket=25MB'"
                )
                raise InputError(f"not understood: {word!r}", where="pin", hint=hint)
            if values.setdefault(name, value) != value:
                problem = f"{name}={values[name]} and {name}={value}"
                raise InputError(problem, where="pin", hint="pin one of them")
        return cls(values)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items())

    def subsets(self) -> Iterator[Pins]:
        """Yields each pin alone, then each pair of pins, and so on."""
        for count in range(1, len(self.values) + 1):
            for chosen in combinations(self.values.items(), count):
                yield Pins(dict(chosen))

    @property
    def bucket_bytes(self) -> int | None:
        """Size of the pinned buckets in bytes; 0 for no buckets, None if buckets are not pinned."""
        value = self.values.get("bucket")
        size = _SIZE.fullmatch(value or "")
        return int(size[1]) * 10**6 if size else None if value is None else 0

    def without(self, name: str) -> Pins:
        """Returns the pins other than ``name``."""
        values = {other: value for other, value in self.values.items() if other != name}
        return replace(self, values=values)

    def allow(self, recipe: Recipe) -> bool:
        """Whether a recipe satisfies every pin."""
        return all(pin_value_of(recipe, name) == value for name, value in self.values.items())


def pin_value_of(recipe: Recipe, name: str) -> str:
    """Returns the value that a recipe has for the name of a pin."""
    match name:
        case "zero" | "microbatches" | "chunks":
            return str(getattr(recipe, name))
        case "schedule":
            return recipe.schedule
        case "remat":
            return "yes" if recipe.remat else "no"
        case "sequence":
            return "yes" if recipe.tokens == "tensor" else "no"
        case "vocabulary":
            return "yes" if recipe.vocabulary else "no"
        case "bucket":
            return f"{recipe.bucket_bytes / 1e6:.6g}MB" if recipe.bucket_bytes else "no"
        case _:
            return str(dict(recipe.axes).get(name, 1))


_SIZE = re.compile(r"([1-9]\d{0,5})MB")


def _is_count(value: str) -> bool:
    return value.isdecimal() and 0 < int(value) < 2**31


_WORDS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys((*AXES, "microbatches", "chunks"), _is_count),
    "zero": lambda value: value in ("0", "1", "2", "3"),
    "schedule": lambda value: value in SCHEDULES,
    "remat": lambda value: value in ("yes", "no"),
    "sequence": lambda value: value in ("yes", "no"),
    "vocabulary": lambda value: value in ("yes", "no"),
    "bucket": lambda value: value == "no" or _SIZE.fullmatch(value) is not None,
}
