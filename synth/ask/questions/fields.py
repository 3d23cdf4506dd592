"""The marks on a field of a question: its notation for users, and its limit in a service.

``k: Annotated[int, Limited.K, Flag("Number of answers", spelled="-k")] = 10`` defines ``-k``
completely: commands, forms and documents are generated from it, and a service limits it. This
module loads no other package, so that help and forms can be shown before slower modules are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from functools import reduce
from inspect import get_annotations
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel, GetJsonSchemaHandler
    from pydantic.fields import FieldInfo
    from pydantic_core import CoreSchema


class CostLimit(Enum):
    """Which cost grows with a field, as ``k: Annotated[int, Limited.K]``; in the order of checking.

    A service limits how much one question may ask for. It does not look for keys by name, as a
    new key would escape its limits. So every field of every question is one of three: its
    type bounds it (a switch, one of some names, a list of at most so many), it is ``CostLimit``, or
    it is ``LimitExemption``. A test goes over all of them.
    """

    K = auto()
    """How many answers are given."""
    MAX_STEPS = auto()
    """How many steps the programs searched may have."""
    DIGITS = auto()
    """How many digits the tree of those programs has."""
    TREE = auto()
    """The sizes of a tree: their product is its number of devices."""
    SYSTEMS = auto()
    """Several systems, each of them described by a text."""
    SYSTEM = auto()
    """A system by its name or its text: the length of the text, and the number of devices."""
    SWEEP = auto()
    """Values of keys, systems among them: as many questions as there are combinations."""
    ANSWER = auto()
    """An earlier answer, as ``emit --from`` takes, with the system it is about."""
    TEXT = auto()
    """What is only read, such as logs or two answers to compare: limited with the whole body."""
    HERE = auto()
    """A switch that has processes of this machine run what was emitted: no service does it."""


@dataclass(frozen=True)
class LimitExemption:
    """Why a number needs no limit."""

    why: str


class File(Enum):
    """What a file named by the user holds. The front end reads it: no verb reads a file."""

    SYSTEM = auto()
    SYSTEMS = auto()
    JOB = auto()
    TOPOLOGIES = auto()
    LOGS = auto()
    ANSWER = auto()
    PROGRAM = auto()
    ORDER = auto()
    STEP = auto()
    MODEL = auto()
    PLAN = auto()
    PROFILE = auto()
    DEVICE = auto()
    SWEPT = auto()


@dataclass(frozen=True)
class Notation:
    """How a value is typed: ``read`` makes JSON of what was typed, ``write`` is its inverse.

    ``read`` raises InputError without a place: the caller, who knows the flag, adds it.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], str] = str


@dataclass(frozen=True)
class Flag:
    """How a field is typed on a command line or in a form, and its help.

    ``what`` is the help; ``typed`` continues it on a command line (``, as in data=8``).
    ``spelled`` is ``--`` and the key by default; without a dash it is an argument, known by its
    place; ``...`` at its end allows it several times; ``--no-...`` turns off a default.
    ``file``: what the file holds that the word may name. ``unread``: a key whose files are not
    read if this flag is given (``calibrate --plan`` needs no logs). ``ending``: where it is not
    given, it is the ending of the file that the answer goes to. ``also``: other keys that it
    sets. Where a field has two flags the later one counts; it takes spelling, notation and file
    from the earlier one unless it has its own.
    """

    what: str
    typed: str = ""
    spelled: str = ""
    notation: Notation | None = None
    file: File | None = None
    unread: str = ""
    ending: bool = False
    also: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def word(self) -> str:
        """The flag without its metavar, as ``--from``, or an argument's name, as ``PROGRAM``."""
        return self.spelled.partition(" ")[0].removesuffix("...")

    @property
    def turns_off(self) -> bool:
        """Whether giving it makes the field false."""
        return self.spelled.startswith("--no-")

    def written(self, value: Any) -> Any:
        """Return a value of the field as one would type it."""
        if self.notation is not None:
            return self.notation.write(value)
        return value.value if isinstance(value, Enum) else value

    def over(self, earlier: Flag) -> Flag:
        """This flag, with spelling, notation and file of the earlier one where it has none."""
        return replace(
            self,
            spelled=self.spelled or earlier.spelled,
            notation=self.notation or earlier.notation,
            file=self.file or earlier.file,
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return what a schema says of the field."""
        off = f"If not: {self.what[0].lower()}{self.what[1:]}"
        return handler(schema) | {"description": _sentence(off if self.turns_off else self.what)}


@dataclass(frozen=True)
class ItemFlags:
    """The mark of a list whose items are given one after the other on a command line.

    ``begins`` names the flag that begins an item; those that follow belong to it: in ``--reduce
    data --bytes 1GiB --reduce model --bytes 64MiB`` there are two. One item alone is no list, but
    fills the question's own fields of those names.
    """

    item: type[BaseModel]
    begins: str


class FlagKind(StrEnum):
    """What follows a flag: nothing (a switch), a whole number, any number, or any text."""

    SWITCH = auto()
    WHOLE = auto()
    NUMBER = auto()
    TEXT = auto()


@dataclass(frozen=True)
class FlagEntry:
    """A flag as a command or a form shows it, such as ``--bytes`` with its help and default.

    ``word`` is what one types, or the name of an argument; ``metavar`` stands for its value.
    ``each`` names the list of which each item may have one.
    """

    name: str
    word: str
    help: str
    kind: str = FlagKind.TEXT
    metavar: str = ""
    required: bool = False
    several: bool = False
    default: Any = None
    each: str = ""

    @property
    def is_argument(self) -> bool:
        """Whether it is known by its place."""
        return not self.word.startswith("-")


def flag_of(question: type[BaseModel], name: str) -> Flag | None:
    """Return the flag of a field, merged where it has several; None if it has none."""
    field = question.model_fields[name]
    flags = [mark for mark in field.metadata if isinstance(mark, Flag)]
    if not flags:
        return None
    spelled = f"--{field.alias or name}".replace("_", "-")
    return reduce(lambda earlier, later: later.over(earlier), flags, Flag("", spelled=spelled))


def flags_of(question: type[BaseModel]) -> list[FlagEntry]:
    """Return the flags of a question, in order.

    Arguments come first, then required flags, then the question's own, then inherited flags.
    """
    kin = {name: age for age, base in enumerate(question.__mro__) for name in get_annotations(base)}
    flags = {name: flag_of(question, name) for name in question.model_fields}
    found = {
        name: _flag_entry(question, name, flag) for name, flag in flags.items() if flag is not None
    }
    for key, each in lists_of(question).items():
        for flag in flags_of(each.item):
            begins = flag.name == each.begins
            found[flag.name] = replace(found.get(flag.name, flag), required=begins, each=key)
            kin.setdefault(flag.name, kin[key])
    return sorted(
        found.values(),
        key=lambda entry: (not entry.is_argument, not entry.required, kin[entry.name]),
    )


def lists_of(question: type[BaseModel]) -> dict[str, ItemFlags]:
    """Return the lists of a question whose items are given one after the other."""
    return {
        name: mark
        for name, field in question.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, ItemFlags)
    }


def _flag_entry(question: type[BaseModel], name: str, flag: Flag) -> FlagEntry:
    field = question.model_fields[name]
    worded = flag.notation is not None or flag.file is not None
    kind = FlagKind.TEXT if worded else _KINDS.get(_plain_type(field.annotation), FlagKind.TEXT)
    return FlagEntry(
        name=name,
        word=flag.word,
        help=_sentence(flag.what + flag.typed),
        kind=kind,
        metavar=flag.spelled.partition(" ")[2],
        required=field.is_required(),
        several=flag.spelled.endswith("..."),
        default=None
        if field.is_required() or kind is FlagKind.SWITCH
        else _default_value(field, flag),
    )


def _default_value(field: FieldInfo, flag: Flag) -> Any:
    """Return the default of a field as a user types it; None if it is empty."""
    usual = field.get_default(call_default_factory=True)
    if usual is None or usual in ([], {}):
        return None
    return flag.written(usual)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


_KINDS: Mapping[Any, FlagKind] = {
    bool: FlagKind.SWITCH,
    int: FlagKind.WHOLE,
    float: FlagKind.NUMBER,
}


def _plain_type(annotation: Any) -> Any:
    """Return the type inside ``Annotated`` and ``| None``: int for ``Annotated[int, 1] | None``."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return _plain_type(parts[0]) if get_origin(annotation) in (Union, UnionType) else annotation


def marks_of(question: type[BaseModel]) -> set[CostLimit]:
    """Return all ``CostLimit`` marks of a question's fields."""
    marks = (mark for field in question.model_fields.values() for mark in field.metadata)
    return {mark for mark in marks if isinstance(mark, CostLimit)}


def limited_fields(question: BaseModel) -> Iterator[tuple[CostLimit, str, Any]]:
    """Yield the ``CostLimit`` fields that a question fills, each with its key and value.

    Fields that are cheap to check come first.
    """
    found = [
        (mark, field.alias or name, getattr(question, name))
        for name, field in type(question).model_fields.items()
        for mark in field.metadata
        if isinstance(mark, CostLimit)
    ]
    order = list(CostLimit)
    for mark, key, given in sorted(found, key=lambda row: order.index(row[0])):
        if given is not None:
            yield mark, key, given
