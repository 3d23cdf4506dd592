"""The boxes of a form: the flags of a question that have one, what is typed into them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hierarchies import InputError
from synth.verbs.questions.fields import Asked, File, Flag, Kind, flag_of, flags_of
from synth.verbs.questions.named_texts import NamedText
from synth.verbs.questions.question import Question

_TEXTS: Mapping[File | None, str] = {
    File.PROFILE: "your.profile",
    File.DEVICE: "your-device.toml",
}
"""What a text of several lines is called that is pasted in the place of a file's name."""


@dataclass(frozen=True)
class Boxes:
    """The flags that have a box, by the name of the box, of a question."""

    question: type[Question]
    by_name: Mapping[str, Asked]

    @classmethod
    def of(cls, question: type[Question], names: Iterable[str]) -> Boxes:
        """Of the fields of these names."""
        wanted = set(names)
        found = (one for one in flags_of(question) if one.name in wanted)
        return cls(question, {one.word.strip("-").replace("-", "_"): one for one in found})

    @cached_property
    def where(self) -> Mapping[str, str]:
        """The box of each flag, as mistakes name it."""
        return {one.word: name for name, one in self.by_name.items()}

    @cached_property
    def hints(self) -> Mapping[str, str]:
        """The help of each."""
        return {name: self.flag(name).what for name in self.by_name}

    @cached_property
    def switches(self) -> list[str]:
        """Those that are ticked."""
        return [name for name, one in self.by_name.items() if one.kind == Kind.SWITCH]

    @cached_property
    def usual(self) -> dict[str, str]:
        """The texts in all others if nothing is typed: the defaults of the question."""
        return {
            name: "" if one.default is None else str(one.default)
            for name, one in self.by_name.items()
            if one.kind != Kind.SWITCH
        }

    def flag(self, name: str) -> Flag:
        """The flag that a box stands for."""
        found = flag_of(self.question, self.by_name[name].name)
        assert found is not None
        return found

    def typed(self, name: str, text: str) -> Any:
        """A box's text as the question's value. Raises InputError for what cannot be read."""
        box = self.by_name[name]
        if box.kind == Kind.SWITCH:
            return not self.flag(name).turns_off
        if box.kind == Kind.WHOLE:
            return whole(text, name)
        if (own := _TEXTS.get(self.flag(name).file)) and "\n" in text:
            return {"name": own, "text": text}
        words = text.replace(",", " ").split() if box.several else text
        notation = self.flag(name).notation
        return words if notation is None else notation.read(words)

    def written(self, name: str, value: Any) -> str:
        """A question's value as a box's text, which ``typed`` reads back."""
        return value.text if isinstance(value, NamedText) else str(self.flag(name).written(value))


def whole(text: str, what: str) -> int:
    """A whole number as it is typed. Raises InputError for what is none."""
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InputError(f"{what} is {text[:40]!r}", hint="a whole number is needed")
    return int(text)
