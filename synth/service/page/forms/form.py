"""A form of a question: its texts, inputs and boxes, which are the question's flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hierarchies import InputError
from synth.ask.questions.fields import File, Flag, FlagEntry, FlagKind, flag_of, flags_of
from synth.ask.questions.named_texts import NamedText
from synth.ask.questions.question import Question
from synth.service.page.forms.collectives import WEIGHTS, hint

FormInput = Literal["system", "systems", "job", "model", "logs", "axes"]
"""Inputs with more than a box: machines, a job, a model, logs, a table of axes and collectives."""
_TEXTS: Mapping[File | None, str] = {
    File.PROFILE: "your.profile",
    File.DEVICE: "your-device.toml",
    File.LOGS: "baseline.txt",
}
"""The names of texts of several lines pasted in place of a file's name."""


@dataclass(frozen=True)
class QuestionForm:
    """A form: its texts, its inputs, and the boxes that are always visible or folded.

    ``menu`` is its entry in the menu. ``stubs`` replace required keys with invalid values, so that
    the other keys can be checked. ``fixed`` has the keys that all its questions share. ``example``
    and ``typed`` are the inputs and boxes of an example. ``shown`` is further context of its
    template.
    """

    name: str
    verb: str
    model: type[Question]
    title: str
    lead: str
    button: str
    needs: Sequence[FormInput]
    seen: Sequence[str]
    folded: Sequence[str]
    stubs: Mapping[str, Any]
    example: Mapping[str, Any]
    typed: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""
    template: str = "verb_form.html"
    menu: str = ""
    shown: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", self.address or f"/ask/{self.name}")

    @property
    def check_address(self) -> str:
        """The address that checks the form while the user types."""
        return f"{self.address.rstrip('/')}/check"

    @cached_property
    def boxes(self) -> Mapping[str, FlagEntry]:
        """The flags with a box, by the name of the box."""
        every = {entry.word.strip("-").replace("-", "_"): entry for entry in flags_of(self.model)}
        return {name: entry for name, entry in every.items() if name in (*self.seen, *self.folded)}

    @cached_property
    def switches(self) -> Sequence[str]:
        """The boxes that can be ticked."""
        return [name for name, entry in self.boxes.items() if entry.kind == FlagKind.SWITCH]

    @cached_property
    def usual(self) -> Mapping[str, str]:
        """The texts in all other boxes of an empty form, which are a question's defaults."""
        texts = {
            name: "" if entry.default is None else str(entry.default)
            for name, entry in self.boxes.items()
            if entry.kind != FlagKind.SWITCH
        }
        return texts | (dict.fromkeys(WEIGHTS, "") if "axes" in self.needs else {})

    @cached_property
    def hints(self) -> Mapping[str, str]:
        """The help of each box."""
        weights = WEIGHTS if "axes" in self.needs else ()
        hints = {name: self.flag(name).what for name in self.boxes}
        return hints | {name: hint(name) for name in weights}

    @cached_property
    def choices(self) -> Mapping[str, Sequence[str]]:
        """The choices of boxes that are not free text."""
        fields = self.model.model_fields
        choices = {
            name: _choices(fields[entry.name].annotation) for name, entry in self.boxes.items()
        }
        return {name: values for name, values in choices.items() if values}

    @cached_property
    def where(self) -> Mapping[str, str]:
        """The field of each flag and key that an error may name."""
        fields: dict[str, str] = {name: name for name in (*self.needs, *self.usual)}
        for name, entry in self.boxes.items():
            fields |= {entry.word: name, entry.name: name}
        if "axes" in self.needs:
            fields |= {"reduce": "reduce", "sent": "sent"}
        return {**fields, "SYSTEM": "system", "files": "logs"}

    def flag(self, name: str) -> Flag:
        """Return the flag of a box."""
        flag = flag_of(self.model, self.boxes[name].name)
        assert flag is not None
        return flag

    def read(self, name: str, text: str) -> Any:
        """Convert a box's text to the question's value. Raises InputError if it is invalid."""
        box, flag = self.boxes[name], self.flag(name)
        if box.kind == FlagKind.SWITCH:
            return not flag.turns_off
        if box.kind == FlagKind.WHOLE:
            return parse_whole(text, name)
        if (own := _TEXTS.get(flag.file)) and "\n" in text:
            pasted = {"name": own, "text": text}
            return [pasted] if box.several else pasted
        words = text.replace(",", " ").split() if box.several else text
        return words if flag.notation is None else flag.notation.read(words)

    def write(self, name: str, value: Any) -> str:
        """Convert a question's value to a box's text, which ``read`` converts back."""
        if value is None:
            return ""
        if isinstance(value, list) and self.flag(name).file is not None:
            return "\n".join(self.write(name, each) for each in value)
        return value.text if isinstance(value, NamedText) else str(self.flag(name).written(value))


def _choices(annotation: Any) -> Sequence[str]:
    """Return the values of an enumeration or literal type; empty for other types."""
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return ()
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(value.value) for value in annotation]
    return ()


def parse_whole(text: str, name: str) -> int:
    """Parse a whole number. Raises InputError for anything else."""
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InputError(f"{name} is {text[:40]!r}", hint="a whole number is needed")
    return int(text)
