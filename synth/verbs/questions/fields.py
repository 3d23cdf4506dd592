"""What a field of a question says of itself: how it is asked for, and what it may do to whoever
answers.

``k: Annotated[int, Limited.K, Flag("How many answers", spelled="-k")] = 10`` is all there is to
``-k``: commands, forms and documents are made from it, and a service limits it. It loads nothing,
so that what is made may be shown before anything is loaded that could answer.
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


class Limited(Enum):
    """What grows with a field, as ``k: Annotated[int, Limited.K]``; in the order of checking.

    A service limits how much one question may ask for. What is limited must not be found by the
    name of a key: a new key would escape. So every field of every question is one of three: its
    type bounds it (a switch, one of some names, a list of at most so many), it is ``Limited``, or
    it is ``Harmless``. A test goes over all of them.
    """

    K = auto()
    """How many answers are given."""
    MAX_STEPS = auto()
    """How long programs may be that are searched."""
    DIGITS = auto()
    """How deep the tree is on which they are."""
    TREE = auto()
    """The sizes of a tree: their product is its devices."""
    SYSTEMS = auto()
    """Several systems, each of them described by a text."""
    SYSTEM = auto()
    """A system by its name or its text: the length of that, and its devices."""
    ANSWER = auto()
    """An answer of before, with the system it is about."""
    TEXT = auto()
    """Texts that only whoever works the question out reads: as long as a whole question may be."""


@dataclass(frozen=True)
class Harmless:
    """Why a number needs no limit."""

    why: str


class File(Enum):
    """What a user's word may be the file of. No verb reads one: a front end reads it before."""

    SYSTEM = auto()
    SYSTEMS = auto()
    JOB = auto()
    TOPOLOGIES = auto()
    LOGS = auto()
    ANSWER = auto()
    PROGRAM = auto()


@dataclass(frozen=True)
class Notation:
    """How a value is typed: ``read`` makes JSON of what was typed, ``write`` what reads as that.

    ``read`` raises InputError without a place: whoever asked knows it.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], str] = str


@dataclass(frozen=True)
class Flag:
    """How a field is asked for: what it is, in a few words, and how one types it.

    ``typed`` goes on where ``what`` ends, for those who type (``, as in data=8``). ``spelled`` is
    ``--`` and the key if it is not said; a word without a dash is an argument, known by its place;
    ``...`` at its end: may be given several times; ``--no-...`` turns off what is on otherwise.
    ``file``: the word may name a file. ``unread``: the key whose files nobody looks at where this
    is given. ``also``: what else is so then. Of two flags of a field the later one speaks, and
    leaves spelling, notation and file to the earlier where it says nothing of them.
    """

    what: str
    typed: str = ""
    spelled: str = ""
    notation: Notation | None = None
    file: File | None = None
    unread: str = ""
    also: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def word(self) -> str:
        """The flag as it is typed, or what stands in its place."""
        return self.spelled.partition(" ")[0].removesuffix("...")

    @property
    def turns_off(self) -> bool:
        """Whether giving it makes the field false."""
        return self.spelled.startswith("--no-")

    def written(self, value: Any) -> Any:
        """A value of the field as one would type it."""
        if self.notation is not None:
            return self.notation.write(value)
        return value.value if isinstance(value, Enum) else value

    def over(self, earlier: Flag) -> Flag:
        """This flag, with what only the earlier one says."""
        return replace(
            self,
            spelled=self.spelled or earlier.spelled,
            notation=self.notation or earlier.notation,
            file=self.file or earlier.file,
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """What a schema says of the field."""
        off = f"If not: {self.what[0].lower()}{self.what[1:]}"
        return handler(schema) | {"description": _sentence(off if self.turns_off else self.what)}


class Kind(StrEnum):
    """What is given with a flag: nothing, or a word that must be such a number, or any."""

    SWITCH = auto()
    WHOLE = auto()
    NUMBER = auto()
    TEXT = auto()


@dataclass(frozen=True)
class Asked:
    """A flag as a command or a form shows it: all that must be known of it before it is given.

    ``word`` is what one types, of an argument the word that stands for it; ``metavar`` stands for
    what follows the word.
    """

    name: str
    word: str
    help: str
    kind: str = Kind.TEXT
    metavar: str = ""
    required: bool = False
    several: bool = False
    default: Any = None

    @property
    def is_argument(self) -> bool:
        """Whether it is known by its place."""
        return not self.word.startswith("-")


def flag_of(question: type[BaseModel], name: str) -> Flag | None:
    """How a field is asked for; None if it is not asked for one by one."""
    field = question.model_fields[name]
    flags = [mark for mark in field.metadata if isinstance(mark, Flag)]
    if not flags:
        return None
    spelled = f"--{field.alias or name}".replace("_", "-")
    return reduce(lambda earlier, later: later.over(earlier), flags, Flag("", spelled=spelled))


def flags_of(question: type[BaseModel]) -> list[Asked]:
    """The flags of a question: arguments, then what must be given, then what is its own before
    what its kin has, too.
    """
    kin = {name: age for age, one in enumerate(question.__mro__) for name in get_annotations(one)}
    flags = {name: flag_of(question, name) for name in question.model_fields}
    found = [_asked(question, name, flag) for name, flag in flags.items() if flag is not None]
    return sorted(found, key=lambda one: (not one.is_argument, not one.required, kin[one.name]))


def _asked(question: type[BaseModel], name: str, flag: Flag) -> Asked:
    field = question.model_fields[name]
    worded = flag.notation is not None or flag.file is not None
    kind = Kind.TEXT if worded else _KINDS.get(_plain(field.annotation), Kind.TEXT)
    return Asked(
        name=name,
        word=flag.word,
        help=_sentence(flag.what + flag.typed),
        kind=kind,
        metavar=flag.spelled.partition(" ")[2],
        required=field.is_required(),
        several=flag.spelled.endswith("..."),
        default=None if field.is_required() or kind is Kind.SWITCH else _usual(field, flag),
    )


def _usual(field: FieldInfo, flag: Flag) -> Any:
    """What is taken where nothing is given, as one would type it; None for nothing."""
    usual = field.get_default(call_default_factory=True)
    if usual is None or usual in ([], {}):
        return None
    return flag.written(usual)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


_KINDS: Mapping[Any, Kind] = {bool: Kind.SWITCH, int: Kind.WHOLE, float: Kind.NUMBER}


def _plain(annotation: Any) -> Any:
    """What a type is that may be left out, without what is said of it."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    parts = [one for one in get_args(annotation) if one is not NoneType]
    return _plain(parts[0]) if get_origin(annotation) in (Union, UnionType) else annotation


def limited_fields(question: BaseModel) -> Iterator[tuple[Limited, str, Any]]:
    """What is limited of a question and given in it, with its key and value; first what is cheap
    to check.
    """
    found = [
        (mark, field.alias or name, getattr(question, name))
        for name, field in type(question).model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Limited)
    ]
    order = list(Limited)
    for mark, key, given in sorted(found, key=lambda one: order.index(one[0])):
        if given is not None:
            yield mark, key, given
