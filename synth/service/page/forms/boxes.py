"""The boxes of a form: flags of a question, with conversions between texts and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hierarchies import InputError
from synth.ask.questions.fields import File, Flag, FlagEntry, FlagKind, flag_of, flags_of
from synth.ask.questions.named_texts import NamedText
from synth.ask.questions.question import Question

_TEXTS: Mapping[File | None, str] = {
    File.PROFILE: "your.profile",
    File.DEVICE: "your-device.toml",
}
"""The names of texts of several lines pasted in place of a file's name."""


@dataclass(frozen=True)
class Boxes:
    """A question's flags with a box, by the name of the box."""

    question: type[Question]
    by_name: Mapping[str, FlagEntry]

    @classmethod
    def of(cls, question: type[Question], names: Iterable[str]) -> Boxes:
        """Return the boxes of the fields with these names."""
        field_names = set(names)
        entries = (entry for entry in flags_of(question) if entry.name in field_names)
        return cls(question, {entry.word.strip("-").replace("-", "_"): entry for entry in entries})

    @cached_property
    def where(self) -> Mapping[str, str]:
        """The box of each flag, as errors name it."""
        return {entry.word: name for name, entry in self.by_name.items()}

    @cached_property
    def hints(self) -> Mapping[str, str]:
        """The help of each box."""
        return {name: self.flag(name).what for name in self.by_name}

    @cached_property
    def switches(self) -> list[str]:
        """The boxes that can be ticked."""
        return [name for name, entry in self.by_name.items() if entry.kind == FlagKind.SWITCH]

    @cached_property
    def usual(self) -> dict[str, str]:
        """The default texts of all other boxes."""
        return {
            name: "" if entry.default is None else str(entry.default)
            for name, entry in self.by_name.items()
            if entry.kind != FlagKind.SWITCH
        }

    def flag(self, name: str) -> Flag:
        """Return the flag of a box."""
        flag = flag_of(self.question, self.by_name[name].name)
        assert flag is not None
        return flag

    def typed(self, name: str, text: str) -> Any:
        """Convert a box's text to the question's value. Raises InputError if it is invalid."""
        box = self.by_name[name]
        if box.kind == FlagKind.SWITCH:
            return not self.flag(name).turns_off
        if box.kind == FlagKind.WHOLE:
            return parse_whole(text, name)
        if (own := _TEXTS.get(self.flag(name).file)) and "\n" in text:
            return {"name": own, "text": text}
        words = text.replace(",", " ").split() if box.several else text
        notation = self.flag(name).notation
        return words if notation is None else notation.read(words)

    def written(self, name: str, value: Any) -> str:
        """Convert a question's value to a box's text, which ``typed`` converts back."""
        return value.text if isinstance(value, NamedText) else str(self.flag(name).written(value))


def parse_whole(text: str, name: str) -> int:
    """Parse a whole number. Raises InputError for anything else."""
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InputError(f"{name} is {text[:40]!r}", hint="a whole number is needed")
    return int(text)
