"""A runtime that steps are written for: its calls of primitives, and its spelling of moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import chain

from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.primitives import PRIMITIVES, Primitive
from synth.primitives.calls.call import PrimitiveCall, RuntimeSpelling, Writer
from synth.step.redistribution import ShardingMove

_TEMPLATES = resources.files("synth.step.emit") / "templates"
_INCLUDED = re.compile(r'{% (?:include|from) "([^"]+)"')
_DEFINED = re.compile(
    r"^(?:def|class) (\w+)"
    r"|^(?:from [\w.]+ )?import ([\w. ,]+)$"
    r"|^([A-Z]+)\b[^(\n=]* = (?:([A-Z]+) = )?",
    re.MULTILINE,
)
"""The names that a template defines at the top level of a file: functions, imports, constants."""


@dataclass(frozen=True)
class TargetLanguage:
    """A runtime that a step is written for.

    ``template`` has the helpers of the functions. ``empty``: an array without elements. ``writer``
    selects how a primitive is called; ``move`` spells one move of a value, given the type of its
    part. ``gets_by_shape``: whether the receiver of a value must know its shape. ``word``:
    truncates a result to 32-bit words; empty if elements are 32-bit words already. ``sent``: a
    value in the memory layout that sends need. ``later``: turns the call of a collective into a
    call that only begins it; empty if the runtime orders work itself. ``apart``: prevents a value
    from being merged with an equal value; empty if the runtime merges none.
    """

    spelling: RuntimeSpelling
    template: str
    empty: str
    writer: Callable[[Primitive], Writer]
    move: Callable[[str, ShardingMove, Type, Mapping[str, int]], str]
    gets_by_shape: bool = False
    word: str = ""
    sent: str = "{0}"
    later: str = ""
    apart: str = ""

    @cached_property
    def reserved(self) -> frozenset[str]:
        """The names that the file defines, and the names that its functions give to operands."""
        names, files = {"device_step", "values", "constants", "carried", "slices"}, [self.template]
        for file in files:  # The list grows by the included files during the loop.
            text = (_TEMPLATES / file).read_text("utf-8")
            files += _INCLUDED.findall(text)
            for found in filter(None, chain.from_iterable(_DEFINED.findall(text))):
                names |= {name.rpartition(" as ")[2] for name in found.split(", ")}
        return frozenset(names)

    def write(self, call: PrimitiveCall) -> str:
        """Writes an operation. Raises InputError, with its line, for an unknown primitive."""
        operation = call.operation
        row = PRIMITIVES.get(operation.primitive)
        if row is None:
            name = self.spelling.name
            problem = f"{name} cannot express the primitive {operation.primitive!r}"
            hint = "write that line of the model with other operations, or choose another runtime"
            raise InputError(problem, where=operation.line, hint=hint)
        text = call.write(self.writer(row))
        is_wide = self.word and row.overflows and call.result.dtype == "u32"
        return self.word.format(text) if is_wide else text
