"""What is written of a step: its functions, what each reads and makes, and what a step gives."""

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
    """A function of the emitted file: its lines are indented."""

    name: str
    head: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.head, *self.lines))


@dataclass(frozen=True)
class StepOutput:
    """An output of the step, by name and by how it lies in the end.

    With microbatches ``kept`` is the name under which it is there once all is done.
    """

    name: str
    type: Type
    sharding: Sharding
    kept: str = ""


@dataclass(frozen=True)
class SectionFunction:
    """A section as a function of the file; ``names`` are what values are kept under."""

    section: ProgramSection
    names: Mapping[Key, str]

    @property
    def key(self) -> str:
        """As an action of an order is spelled, without its microbatch; else in words."""
        assert self.section.phase is not None
        return str(self.section.phase)

    @property
    def function(self) -> str:
        """Its name, empty where it makes nothing: then it is there to send and to get."""
        return self.section.function if self.section.makes else ""

    @property
    def reads(self) -> list[str]:
        return self._named((one.name, lies) for one, lies in self.section.reads)

    @property
    def makes(self) -> list[str]:
        made = self.section.makes
        return self._named((one.name, lies) for one, lies in made if isinstance(one, Value))

    @property
    def adds(self) -> list[str]:
        return self._named(self.section.adds)

    @property
    def keeps(self) -> list[str]:
        return self._named(self.section.keeps)

    def _named(self, keys: Iterable[Key]) -> list[str]:
        return [self.names[key] for key in keys]


@dataclass(frozen=True)
class Listing:
    """The functions of a step: bodies first, what each device does last; and what it gives.

    ``moves`` are those that stand in them. With microbatches there are several functions:
    ``written`` in their order, and ``transfers`` between them.
    """

    functions: tuple[Function, ...]
    outputs: tuple[StepOutput, ...]
    moves: tuple[ShardingMove, ...]
    written: tuple[SectionFunction, ...]
    transfers: tuple[SectionTransfer, ...]

    @property
    def text(self) -> str:
        return "\n\n\n".join(map(str, self.functions))

    def uses(self, name: str) -> bool:
        """Whether a helper is called."""
        return re.search(rf"\b(?:{name})\(", self.text) is not None


def list_outputs(
    step: Step, outputs: Sequence[tuple[Operand, Sharding]], names: Mapping[Key, str] | None
) -> Iterator[StepOutput]:
    """What the step gives; with microbatches there are ``names`` under which values are kept.

    Raises InputError for a number that is written out, which is then kept nowhere.
    """
    for name, (output, lies) in zip(output_names(step), outputs, strict=True):
        kind = output.type if isinstance(output, Value) else Type(output.dtype, ())
        if names is not None and isinstance(output, Literal):
            hint = "leave microbatches out of the plan"
            raise InputError(f"the step gives the number {output}", where="plan", hint=hint)
        yield StepOutput(name, kind, lies, names[str(output), lies] if names is not None else "")


def output_names(step: Step) -> list[str]:
    """What outputs are called: as the input that they are next time, one number alone the loss."""
    back = {out: step.graph.inputs[place].name for out, place in step.updates}
    rest = [at for at in range(len(step.graph.outputs)) if at not in back]
    for number, at in enumerate(rest):
        output = step.graph.outputs[at]
        is_loss = len(rest) == 1 and not (isinstance(output, Value) and output.type.shape)
        free = "loss" not in step.graph.values
        back[at] = "loss" if is_loss and free else f"output/{number}"
    return [back[at] for at in range(len(step.graph.outputs))]
