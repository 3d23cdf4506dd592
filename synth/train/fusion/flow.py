"""Who reads what of a program, and the floors of parts of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from grammar.tensors.operations import Operand, Operation, Step, Value
from grammar.tensors.primitives import MULTIPLIED
from synth.compute import Section, is_scores, section_floor
from synth.compute.flops import type_of
from synth.train.factors import part
from synth.train.plans import Done, Moved, Plan, Program, apply, prepared
from synth.train.plans.program import Key, makes, reads
from synth.train.simulation.groups import CAST, constants_of
from synth.train.simulation.sources import Rooflines


@dataclass(frozen=True)
class _Node:
    """An instruction: the names that it reads and makes, and the operation of a device's part."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    operation: Operation | None


@dataclass(frozen=True, eq=False)
class Flow:
    """Who reads what of a program; a value that was sent has another name than before.

    ``losses`` are the outputs that are no parameters of the next step.
    """

    program: Program
    parts: Mapping[str, int]
    sizes: Mapping[str, int]
    outputs: Sequence[Key]
    constants: frozenset[str]
    losses: Sequence[str]

    @classmethod
    def of(cls, step: Step, plan: Plan) -> Flow:
        """Of a plan, without its groups and buckets."""
        plain = replace(plan, fused=(), buckets=())
        program, ready = apply(step, plain), prepared(step, plain)
        names, into = [*map(str, ready.graph.outputs)], {out for out, _ in ready.updates}
        outputs = list(zip(names, program.outputs, strict=True))
        losses = [name for at, name in enumerate(names) if at not in into]
        constants = constants_of(ready.graph)
        return cls(program, plan.parts, plan.sizes, outputs, constants, losses)

    @cached_property
    def _names(self) -> dict[Key, str]:
        """Of each value as it lies; what lies otherwise without being sent is as it was."""
        found: dict[Key, str] = {}
        for one in self.program.instructions:
            if not isinstance(one, Moved):
                continue
            [source], [target] = reads(one), makes(one)
            sent = one.path.requests(self.sizes)
            found[target] = (
                f"{one.value.name}+{len(found)}" if sent else found.get(source, source[0])
            )
        return found

    @cached_property
    def sent(self) -> Mapping[str, Moved]:
        """What sends something, by the values that are sent; the last of one that is sent twice."""
        moved = (one for one in self.program.instructions if isinstance(one, Moved))
        return {one.value.name: one for one in moved if one.path.requests(self.sizes)}

    def named(self, key: Key) -> str:
        return self._names.get(key, key[0])

    @cached_property
    def nodes(self) -> Sequence[_Node]:
        """All that is done, but constants."""
        return list(self._nodes())

    def _nodes(self) -> Iterator[_Node]:
        """What a loop does is left out, and casts of its stacks, which it may do itself."""
        stacks = set[str]()
        for one in self.program.instructions:
            made = tuple(dict.fromkeys(map(self.named, makes(one))))
            read = tuple(dict.fromkeys(map(self.named, reads(one))))
            if made == read or self.constants.issuperset(made):
                continue
            done = one if isinstance(one, Done) else None
            loop = done is not None and done.body is not None
            cast = done is None or done.operation.primitive == CAST
            if loop or (cast and not stacks.isdisjoint(read)):
                stacks.update(made)
                done = None
            yield _Node(read, made, None if done is None else self._part(done))

    def _part(self, one: Done) -> Operation:
        found = part(one.operation, one.how, self.parts).operation
        operands: list[Operand] = []
        for operand, lies in zip(found.operands, one.how.operands, strict=True):
            if isinstance(operand, Value):
                operand = replace(operand, name=self.named((operand.name, lies)))
            operands.append(operand)
        return replace(found, operands=tuple(operands))

    @cached_property
    def _kept(self) -> frozenset[str]:
        """The outputs, and what is sent."""
        sent = (name for one in self.nodes if one.operation is None for name in one.reads)
        return frozenset((*map(self.named, self.outputs), *sent))

    def floor(self, chosen: Iterable[int], rooflines: Rooflines, *ends: str) -> float:
        """Seconds that some of what is done takes at least; of ``ends`` alone it is kept."""
        found = (self.nodes[at].operation for at in chosen)
        operations = tuple(one for one in found if one is not None)
        section = Section(operations, frozenset(ends) or self._kept, self.constants)
        return section_floor(section, rooflines.device, rooflines.rates, rooflines.scores)

    def alone(self, of: Sequence[Sequence[int]], rooflines: Rooflines) -> list[float]:
        """Of each of some parts: seconds of the products of matrices that are in no other.

        A product is done alone, so these add up, also to a floor of what they are not in.
        """
        times = Counter(at for some in of for at in some)
        own = ([at for at in some if times[at] == 1] for some in of)
        return [
            self.floor((at for at in some if self._is_product(at, rooflines)), rooflines)
            for some in own
        ]

    def _is_product(self, at: int, rooflines: Rooflines) -> bool:
        """Whether it is a product of matrices, and not one of attention."""
        one = self.nodes[at].operation
        if one is None or one.primitive not in MULTIPLIED:
            return False
        kinds = map(type_of, (*one.operands, *one.results))
        return not any(is_scores(kind, rooflines.scores) for kind in kinds)

    @cached_property
    def before(self) -> Sequence[Collection[int]]:
        """Of each node those that it waits for."""
        makers = {name: at for at, one in enumerate(self.nodes) for name in one.makes}
        read = ((makers[name] for name in one.reads if name in makers) for one in self.nodes)
        return [tuple(dict.fromkeys(some)) for some in read]

    @cached_property
    def late(self) -> frozenset[int]:
        """The nodes of the update."""
        update = self.program.update
        every = enumerate(self.nodes)
        return frozenset(at for at, one in every if not update.isdisjoint(one.makes))

    def between(self, some: Collection[int]) -> set[int]:
        """These nodes, and all that waits for some of them and some of them wait for."""
        after, before = {*some}, {*some}
        for at in range(len(self.nodes)):
            if not after.isdisjoint(self.before[at]):
                after.add(at)
        for at in sorted(after, reverse=True):
            if at in before:
                before.update(self.before[at])
        return after & before

    def names(self, some: Collection[int]) -> list[str]:
        """The first results of those of some nodes that are operations."""
        operations = (self.nodes[at].operation for at in sorted(some))
        return [one.results[0].name for one in operations if one is not None]

    def needed(self, *names: str) -> list[int]:
        """What must be done before values are there."""
        wanted = {*names}
        found = list[int]()
        for at in range(len(self.nodes))[::-1]:
            if not wanted.isdisjoint(self.nodes[at].makes):
                wanted.update(self.nodes[at].reads)
                found.append(at)
        return found[::-1]

    def waiting(self, name: str) -> list[int]:
        """What is done of a sum, and of what is made of that."""
        there = {self.named(key) for key in makes(self.sent[name])}
        found = list[int]()
        for at, one in enumerate(self.nodes):
            if not there.isdisjoint(one.reads):
                there.update(one.makes)
                found.append(at)
        return found
