"""The functions of an emitted step, with the values that each reads and makes, and all outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grammar.tensors.operations import Literal, Operand, Step, Value
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError
from synth.step.emit.sections import ProgramSection, SectionTransfer
from synth.step.redistribution import ShardingMove
from synth.step.sharding.program import Key


@dataclass(frozen=True)
class Function:
    """A function of the emitted file, as indented lines."""

    name: str
    head: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.head, *self.lines))


@dataclass(frozen=True)
class StepOutput:
    """An output of the step, with its name and final sharding.

    ``kept``: with microbatches, the name under which it is available at the end of the step.
    """

    name: str
    type: Type
    sharding: Sharding
    kept: str = ""


@dataclass(frozen=True)
class Listing:
    """The functions of a step, bodies of loops first, and its outputs.

    ``moves``: the moves that the functions execute. With microbatches there are several functions,
    one for each section in ``sections`` that makes a value, with ``transfers`` between them.
    ``names``: the names under which values are kept.
    """

    functions: tuple[Function, ...]
    outputs: tuple[StepOutput, ...]
    moves: tuple[ShardingMove, ...]
    sections: tuple[ProgramSection, ...]
    transfers: tuple[SectionTransfer, ...]
    names: Mapping[Key, str]

    def named(self, values: Iterable[tuple[Operand | str, Sharding]]) -> list[str]:
        """Returns the names of values; literals have none."""
        pairs = (pair for pair in values if not isinstance(pair[0], Literal))
        return [self.names[str(value), sharding] for value, sharding in pairs]

    @property
    def text(self) -> str:
        return "\n\n\n".join(map(str, self.functions))

    def uses(self, name: str) -> bool:
        """Returns whether a helper is called."""
        return re.search(rf"\b(?:{name})\(", self.text) is not None


def list_outputs(
    step: Step, outputs: Sequence[tuple[Operand, Sharding]], names: Mapping[Key, str] | None
) -> Iterator[StepOutput]:
    """Lists the outputs of a step; with microbatches, ``names`` has the name of each kept value.

    Raises InputError for an output that is a literal, because a literal is not kept.
    """
    for name, (output, sharding) in zip(output_names(step), outputs, strict=True):
        if names is not None and isinstance(output, Literal):
            hint = "remove the microbatches from the plan"
            raise InputError(f"the step returns the number {output}", where="plan", hint=hint)
        yield StepOutput(
            name, output.type, sharding, names[str(output), sharding] if names is not None else ""
        )


def output_names(step: Step) -> list[str]:
    """Names outputs: after the input that they become next, or ``loss`` for a single number."""
    back = {out: step.graph.inputs[place].name for out, place in step.updates}
    rest = [at for at in range(len(step.graph.outputs)) if at not in back]
    for number, at in enumerate(rest):
        output = step.graph.outputs[at]
        is_loss = len(rest) == 1 and not (isinstance(output, Value) and output.type.shape)
        free = "loss" not in step.graph.values
        back[at] = "loss" if is_loss and free else f"output/{number}"
    return [back[at] for at in range(len(step.graph.outputs))]
