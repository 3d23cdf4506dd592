"""What operations take at least, into whatever sections they are cut, some of them done again.

However they are fused, every product of matrices is done, alone. What a product makes, or what
comes from outside, and something else reads, is read from memory at least once, by whoever does
that; what something else makes and a product reads, or what is kept, is written there at least
once: no kernel reaches over a product. And along a chain the kernels on the two sides of a product
are two, each with its launch. Who does an operation again reads, too, or has it of who read it.

A product between two things that work element by element, as one section, takes just that: x is
read and written, the product is done, its result is read and written, by two kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grammar.tensors.operations import Operation, Value
from grammar.tensors.primitives import MULTIPLIED
from grammar.tensors.sharding import Type
from hierarchies.devices import Device
from synth.compute.attention import BACKWARD_PRODUCTS, attention_rate
from synth.compute.flops import flops_of, type_of
from synth.compute.products import product_of
from synth.compute.roofline import TYPICAL, Rates, bytes_estimate, product_estimate
from synth.compute.section import IN_GRADIENTS, NAMED_OTHERWISE, Section, is_scores


def section_floor(
    section: Section,
    device: Device,
    rates: Rates = TYPICAL,
    scores: Collection[tuple[int, ...]] = (),
) -> float:
    """Seconds that no sections of these operations go below together, as ``section_estimate`` has
    them. Raises InputError as that does.
    """
    passed = _Passed(section, scores)
    products = sum(product_estimate(product_of(one), device, rates).seconds for one in passed.plain)
    moved = sum(passed.read.values()) + sum(passed.written.values())
    bare = replace(device, launch_seconds=0.0)
    between = bytes_estimate(moved, bare, rates).seconds + passed.kernels * device.launch_seconds
    return products + _attended(passed.attended, device) + between


@dataclass
class _Passed:
    """Goes through a section: bytes ``read`` and ``written`` by name, and ``kernels`` in a row."""

    section: Section
    scores: Collection[tuple[int, ...]]
    plain: list[Operation] = field(default_factory=list)
    attended: list[Operation] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    kernels: int = 0

    def __post_init__(self) -> None:
        roots: dict[str, str] = {}
        made: dict[str, Type] = {}
        before: dict[str, int] = {}
        for one in self.section.operations:
            values = [operand for operand in one.operands if isinstance(operand, Value)]
            names = [roots.get(value.name, value.name) for value in values]
            if one.primitive in NAMED_OTHERWISE and isinstance(one.operands[0], Value):
                roots |= dict.fromkeys((value.name for value in one.results), names[0])
                continue
            results = [value.name for value in one.results]
            if one.primitive in MULTIPLIED:
                inside = any(is_scores(kind, self.scores) for kind in _types(one))
                (self.attended if inside else self.plain).append(one)
                ended = (self._ended(name, made, before) for name in names)
                before |= dict.fromkeys(results, max(ended, default=0))
                continue
            for value, name in zip(values, names, strict=True):
                if name not in made and name not in self.section.constants:
                    size = self._size(value.type)
                    self.read[name] = min(size, self.read.get(name, size))
            made |= {value.name: value.type for value in one.results}
            before |= dict.fromkeys(
                results, max((before.get(name, 0) for name in names), default=0)
            )
        kept = [roots.get(name, name) for name in self.section.kept]
        ends = [self._ended(name, made, before) for name in kept]
        self.kernels = max((*ends, *before.values()), default=0)

    def _ended(self, name: str, made: Mapping[str, Type], before: Mapping[str, int]) -> int:
        """How many kernels are done in a row when a value is in memory, which it is to be now."""
        if name not in made:
            return before.get(name, 0)
        self.written[name] = self._size(made[name])
        return before[name] + bool(self.written[name])

    def _size(self, kind: Type) -> int:
        return 0 if is_scores(kind, self.scores) else kind.bytes


def _types(one: Operation) -> Iterator[Type]:
    yield from map(type_of, (*one.operands, *one.results))


def _attended(several: Sequence[Operation], device: Device) -> float:
    """Of products with scores half may be masked, their rate is any, and one launch for all."""
    if not several:
        return 0.0
    dtypes = {type_of(one.operands[0]).dtype for one in several}
    forward, backward = (
        max(attention_rate(device, dtype, back) for dtype in dtypes) for back in (False, True)
    )
    more = BACKWARD_PRODUCTS / IN_GRADIENTS
    least = 0.5 * sum(map(flops_of, several)) * min(1 / forward, more / backward)
    return device.launch_seconds + least
