"""Values as JSON and back: trees of dataclasses, named tuples, enums, tuples and mappings.

Only the classes that a reader lists are constructed, so an entry that others wrote can at worst be
wrong, which its digest shows, and never run code. A dataclass that occurs twice is written once.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import inf, nan
from typing import Any

import numpy as np

_ATOMS = (bool, int, float, str, type(None))
_CONSTANTS = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
"""Each is one object, as ``==`` compares tuples with nan by identity."""
_MAPPING, _BYTES, _AGAIN = "mapping", "bytes", "again"


class Codec:
    """The text form of values that consist of ``classes``.

    >>> codec = Codec()
    >>> codec.decode(codec.encode({("a", 1): (0.1, b"x")}))
    {('a', 1): (0.1, b'x')}
    """

    def __init__(self, *classes: type) -> None:
        self._classes = {each.__name__: each for each in classes}
        assert len(self._classes) == len(classes), "two classes of one name"
        self._fields = {
            each: [f.name for f in fields(each)] for each in classes if is_dataclass(each)
        }

    def encode(self, value: Any) -> str:
        """Returns the text of a value. Raises TypeError for a class that is not listed."""
        return json.dumps(_Writer(self._classes, self._fields).write(value), separators=(",", ":"))

    def decode(self, text: str) -> Any:
        """Returns the value of a text. Raises ValueError if it is the text of no value."""
        try:
            return _Reader(self._classes).read(json.loads(text, parse_constant=_CONSTANTS.get))
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


class _Writer:
    """Writes one value; numbers the dataclasses that it has written."""

    def __init__(self, classes: Mapping[str, type], names: Mapping[type, list[str]]) -> None:
        self._classes, self._fields = classes, names
        self._written: dict[int, int] = {}

    def write(self, value: Any) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if kind is tuple:
            return [self.write(item) for item in value]
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, bytes):
            return {_BYTES: b64encode(value).decode()}
        if isinstance(value, Mapping):
            return {_MAPPING: [[self.write(key), self.write(value[key])] for key in value]}
        return self._write_object(value, kind)

    def _write_object(self, value: Any, kind: type) -> Any:
        if self._classes.get(kind.__name__) is not kind:
            raise TypeError(f"{kind.__qualname__} is not among the classes to write")
        if isinstance(value, Enum):
            return {kind.__name__: value.name}
        if kind not in self._fields:
            return {kind.__name__: [self.write(item) for item in value]}
        if id(value) in self._written:
            return {_AGAIN: self._written[id(value)]}
        written = {kind.__name__: [self.write(getattr(value, f)) for f in self._fields[kind]]}
        self._written[id(value)] = len(self._written)
        return written


class _Reader:
    """Reads one value; remembers the dataclasses in the order in which they were written."""

    def __init__(self, classes: Mapping[str, type]) -> None:
        self._classes = classes
        self._read: list[Any] = []

    def read(self, coded: Any) -> Any:
        if isinstance(coded, list):
            return tuple([self.read(item) for item in coded])
        if not isinstance(coded, dict):
            return coded
        [(name, content)] = coded.items()
        if name == _AGAIN:
            return self._read[content]
        if name == _BYTES:
            return b64decode(content, validate=True)
        if name == _MAPPING:
            return {self.read(key): self.read(value) for key, value in content}
        return self._read_object(self._classes[name], content)

    def _read_object(self, kind: Any, content: Any) -> Any:
        if issubclass(kind, Enum):
            return kind[content]
        value = kind(*[self.read(item) for item in content])
        if is_dataclass(kind):
            self._read.append(value)
        return value
