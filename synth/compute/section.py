"""A section: operations that a device does one after the other, as compiled code does them.

Values that only the section reads need not go to memory: what works element by element, or puts
elements together, reads what comes from outside and writes what is read later, and nothing between
(kernel fusion, as XLA and torch.compile do it). Products of matrices are each done alone. Scores of
attention, of which there is one for each query and key, never go to memory either where it is done
as flash attention does: products with them run at its rate, and backward there is one more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammar.tensors.operations import Operation, Value
from grammar.tensors.primitives import MULTIPLIED
from grammar.tensors.sharding import Type
from hierarchies.devices import Device
from synth.compute.attention import BACKWARD_PRODUCTS, HIGH, LOW, attention_rate
from synth.compute.flops import flops_of, type_of
from synth.compute.products import product_of
from synth.compute.roofline import (
    TYPICAL,
    VIEWS,
    Estimate,
    RooflineRates,
    bytes_estimate,
    product_estimate,
)

Shape = tuple[int, ...]

IN_GRADIENTS = 4
"""Products with scores that a backward pass has: gradients of scores, values, queries and keys."""

EXPONENTIAL = "exp"

NAMED_OTHERWISE = VIEWS | {"transpose"}
"""What takes no time of its own: a kernel reads and writes in whatever order it likes."""

REGISTER_BYTES = 2**18
"""The registers of one multiprocessor, 65,536 of four bytes from V100 to B200 (CUDA programming
guide, technical specifications): a longer row is read again from memory."""

SUMMED = frozenset(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"))

NOTHING = Estimate(0.0, 0.0, 0.0, "roofline")


@dataclass(frozen=True)
class Section:
    """Operations of one device, in their order; ``kept`` names the results that are read after.

    ``constants`` are values that are made where they are read. ``remade`` names values that are
    read here and not in memory, each with the values that it is computed from again. ``measured``:
    seconds of those of its operations that somebody measured, ``rest`` the share of the others, by
    bytes.
    """

    operations: tuple[Operation, ...]
    kept: frozenset[str]
    constants: frozenset[str] = frozenset()
    remade: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    measured: Estimate = NOTHING
    rest: float = 1.0


def scores_of(operations: Iterable[Operation]) -> frozenset[Shape]:
    """The shapes of scores of attention, sorted and without ones.

    They are what a batch of products makes that is larger than its two factors together, and what
    a softmax has exponentials of: what experts' products make may be as large.
    """
    several = tuple(operations)
    weighed = {_shape(one.results[0].type) for one in several if one.primitive == EXPONENTIAL}
    made = (_shape(one.results[0].type) for one in several if _is_score_product(one))
    return frozenset(weighed.intersection(made))


def is_scores(kind: Type, scores: Collection[Shape]) -> bool:
    """Whether a value has one element for each query and key."""
    return bool(scores) and _shape(kind) in scores


def section_estimate(
    section: Section,
    device: Device,
    rates: RooflineRates = TYPICAL,
    scores: Collection[Shape] = (),
) -> Estimate:
    """Seconds of a section; ``scores`` are the shapes of those that are never in memory.

    What was measured goes before all else. Raises InputError as ``estimated`` does.
    """
    if not section.rest:
        return section.measured
    found = [
        *_products(section, device, rates, scores),
        *_fused_kernel(section, device, rates, scores),
    ]
    if section.measured == NOTHING:
        return sum_estimates_of_section(found)
    return sum_estimates_of_section(
        (section.measured, sum_estimates_of_section(found).times(section.rest))
    )


def section_parts(
    section: Section, device: Device, rates: RooflineRates = TYPICAL, scores: Collection[Shape] = ()
) -> tuple[Estimate, Estimate]:
    """Products of matrices of a section, and what is between them. Raises as the whole does.

    What was measured is divided as its estimate would be.
    """
    told = (section, device, rates, scores)
    both = (
        sum_estimates_of_section(_products(*told)),
        sum_estimates_of_section(_fused_kernel(*told)),
    )
    if section.measured == NOTHING:
        return both
    whole, estimate = section_estimate(*told), sum(one.seconds for one in both)
    share = both[0].seconds / estimate if estimate else 0.0
    return whole.times(share), whole.times(1.0 - share)


def sum_estimates_of_section(several: Iterable[Estimate]) -> Estimate:
    """One after the other; as well known as the least of them."""
    total = NOTHING
    for at, one in enumerate(several):
        total = Estimate(
            total.seconds + one.seconds,
            total.low + one.low,
            total.high + one.high,
            one.how if not at or _ORDER[one.how] > _ORDER[total.how] else total.how,
        )
    return total


_ORDER = {"measured": 0, "fitted": 1, "roofline": 2}


def _products(
    section: Section, device: Device, rates: RooflineRates, scores: Collection[Shape]
) -> Iterator[Estimate]:
    """Those of matrices one by one; those with scores as attention, forward and backward."""
    inside = []
    for one in section.operations:
        if one.primitive in MULTIPLIED:
            if any(is_scores(type_of(value), scores) for value in (*one.operands, *one.results)):
                inside.append(one)
            else:
                yield product_estimate(product_of(one), device, rates)
    if inside:
        causal = any(_is_mask(one, scores) for one in section.operations)
        yield from _attention(inside, causal, device, rates)


def _attention(
    products: Sequence[Operation], causal: bool, device: Device, rates: RooflineRates
) -> Iterator[Estimate]:
    """Of a backward pass there are four products, and flash attention makes the scores again."""
    back = len(products) // IN_GRADIENTS * IN_GRADIENTS
    for backward, some in ((False, products[back:]), (True, products[:back])):
        if not some:
            continue
        flops = sum(map(flops_of, some)) * (BACKWARD_PRODUCTS / IN_GRADIENTS if backward else 1)
        dtype = type_of(some[0].operands[0]).dtype
        rate = attention_rate(device, dtype, backward)
        part = 0.5 if causal else 1.0
        seconds = part * flops / rate + device.launch_seconds
        least = part * flops / device.peak(dtype)
        yield Estimate(seconds, max(least, LOW * seconds), HIGH * seconds, rates.how)


def _fused_kernel(
    section: Section, device: Device, rates: RooflineRates, scores: Collection[Shape]
) -> Iterator[Estimate]:
    """What is between products is one kernel: it reads from outside, and writes what is read."""
    roots: dict[str, str] = {}
    groups: dict[int, list[Operation]] = {}
    readers: dict[str, set[int]] = {}
    remade = dict(section.remade)
    products = 0
    for one in section.operations:
        names = [roots.get(str(operand), str(operand)) for operand in one.operands]
        if one.primitive in NAMED_OTHERWISE and isinstance(one.operands[0], Value):
            roots |= dict.fromkeys((value.name for value in one.results), names[0])
            continue
        product = one.primitive in MULTIPLIED
        products += product
        for name, operand in zip(names, one.operands, strict=True):
            readers.setdefault(name, set()).add(-1 if product else products)
            if product and name in remade:
                size = type_of(operand).bytes + sum(root.type.bytes for root in remade.pop(name))
                yield bytes_estimate(size, device, rates)
        if not product:
            groups.setdefault(products, []).append(one)
    kept = {roots.get(name, name) for name in section.kept}
    for number, some in groups.items():
        made = {value.name: value.type for one in some for value in one.results}
        read: dict[str, Type] = {}
        streams: dict[str, frozenset[str]] = {}
        for name, operand in _operands_read(some, roots):
            if name not in made and name not in section.constants:
                sources = remade.get(name, (Value(name, operand.type),))
                read |= {source.name: source.type for source in sources}
                streams[name] = frozenset(source.name for source in sources)
        written = {
            name: kind
            for name, kind in made.items()
            if name not in remade and (name in kept or readers.get(name, set()) - {number})
        }
        again = [read[name] for name in _bytes_read_twice(some, roots, streams, written)]
        several = (*read.values(), *again, *written.values())
        moved = sum(kind.bytes for kind in several if not is_scores(kind, scores))
        if moved:
            yield bytes_estimate(moved, device, rates)


def _operands_read(
    operations: Iterable[Operation], roots: Mapping[str, str]
) -> Iterator[tuple[str, Value]]:
    """The operands of operations by the names of the values that they are views of."""
    for one in operations:
        for operand in one.operands:
            if isinstance(operand, Value):
                yield roots.get(operand.name, operand.name), operand


def _bytes_read_twice(
    operations: Sequence[Operation],
    roots: Mapping[str, str],
    streams: Mapping[str, frozenset[str]],
    written: Collection[str],
) -> Iterator[str]:
    """What a kernel reads for sums over rows that no processor holds, and then for what they enter.

    Batch normalisation sums an image's channel over the whole batch and then scales each of its
    elements: two passes over memory, where a row of a layer normalisation stays in registers. Mean
    and variance are of one pass (Welford 1962). ``streams``: of each operand from outside, what is
    read for it.
    """
    known = {name: (0, several) for name, several in streams.items()}
    passes: dict[str, set[int]] = {}
    for one in operations:
        before = [known[name] for name, _ in _operands_read((one,), roots) if name in known]
        turn = max((number for number, _ in before), default=0)
        stream = frozenset[str]().union(*(some for _, some in before))
        made = {value.name for value in one.results}
        sums = _row_bytes(one) > REGISTER_BYTES
        if sums or not made.isdisjoint(written):
            for name in stream:
                passes.setdefault(name, set()).add(turn)
        known |= dict.fromkeys(made, (turn + 1, frozenset()) if sums else (turn, stream))
    return (name for name, turns in passes.items() if len(turns) > 1)


def _row_bytes(one: Operation) -> float:
    """The bytes that a reduction puts together to one element."""
    if one.primitive not in SUMMED:
        return 0.0
    return type_of(one.operands[0]).bytes / max(1, one.results[0].type.elements)


def _is_mask(one: Operation, scores: Collection[Shape]) -> bool:
    return one.primitive == "select_n" and is_scores(one.results[0].type, scores)


def _is_score_product(one: Operation) -> bool:
    if one.primitive != "dot_general":
        return False
    given: Mapping[str, Any] = one.parameter
    _, (shared, _) = given["dimension_numbers"]
    read = sum(type_of(operand).elements for operand in one.operands)
    return bool(shared) and one.results[0].type.elements > read


def _shape(kind: Type) -> Shape:
    return tuple(sorted(size for size in kind.shape if size > 1))
