"""A section: operations that a device executes in sequence, as compiled code does.

Values that only the section reads need not go to memory. A kernel of elementwise operations and
reductions reads its outside inputs, writes the results that are read later, and nothing between
(kernel fusion, as in XLA and torch.compile). Each product of matrices is a separate kernel. Scores
of attention, one per query and key, never go to memory if flash attention is used: products with
scores run at its rate, and the backward pass has one more product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammar.tensors.operations import Operation, Value
from grammar.tensors.sharding import Type
from hierarchies.devices import Device
from synth.compute.attention import BACKWARD_PRODUCTS, HIGH, LOW, attention_rate
from synth.compute.flops import flops_of
from synth.compute.precision import estimate_quantized, is_quantized
from synth.compute.products import product_of
from synth.compute.roofline import (
    Estimate,
    bytes_estimate,
    product_estimate,
)
from synth.primitives import MULTIPLIED, is_view

Shape = tuple[int, ...]

IN_GRADIENTS = 4
"""Products with scores in a backward pass: gradients of scores, values, queries and keys."""

EXPONENTIAL = "exp"

REGISTER_BYTES = 2**18
"""The registers of one multiprocessor, 65,536 of four bytes from V100 to B200 (CUDA programming
guide, technical specifications): a longer row is read from memory again.
"""

SUMMED = frozenset(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"))

NOTHING = Estimate(0.0, 0.0, 0.0, "roofline")


@dataclass(frozen=True)
class Section:
    """Operations of one device in order; ``kept`` names the results that are read later.

    ``constants`` are values computed where they are read. ``remade`` names values that are
    recomputed here instead of read from memory, each with the values that it is recomputed from.
    ``measured``: seconds of the measured operations. ``rest``: the share of all other operations,
    by bytes.
    """

    operations: tuple[Operation, ...]
    kept: frozenset[str]
    constants: frozenset[str] = frozenset()
    remade: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    measured: Estimate = NOTHING
    rest: float = 1.0


def scores_of(operations: Iterable[Operation]) -> frozenset[Shape]:
    """Returns the shapes of attention scores, sorted and without dimensions of size 1.

    A score is the result of a batch of products that is larger than both factors together, and a
    softmax takes its exponentials. The exponentials exclude products of experts, which may be as
    large.
    """
    listed = tuple(operations)
    exponentials = {
        _shape(operation.results[0].type)
        for operation in listed
        if operation.primitive == EXPONENTIAL
    }
    products = (
        _shape(operation.results[0].type) for operation in listed if _is_score_product(operation)
    )
    return frozenset(exponentials.intersection(products))


def renames(operation: Operation) -> bool:
    """Returns whether an operation is free in a kernel, which reads and writes in any order."""
    return is_view(operation.primitive) or operation.primitive == "transpose"


def is_scores(kind: Type, scores: Collection[Shape]) -> bool:
    """Returns whether a value has one element for each query and key."""
    return bool(scores) and _shape(kind) in scores


def section_estimate(
    section: Section,
    device: Device,
    scores: Collection[Shape] = (),
    vocabulary: Collection[int] = (),
) -> Estimate:
    """Returns the seconds of a section; ``scores`` are shapes of scores that are never in memory.

    ``vocabulary``: sizes of the table of words, whose products stay in the type of their operands.
    Measurements take precedence. Raises InputError as ``estimate_operation`` does.
    """
    if not section.rest:
        return section.measured
    products = _products(section, device, scores, vocabulary)
    return _estimate_whole(section, device, [*products, *_fused_kernel(section, device, scores)])


def _estimate_whole(section: Section, device: Device, estimates: Sequence[Estimate]) -> Estimate:
    """Returns the seconds of a section from the estimates of its operations."""
    if not section.rest:
        return section.measured
    estimate = _sum_on(device, estimates)
    if section.measured == NOTHING:
        return estimate
    return sum_estimates_of_section((section.measured, estimate.times(section.rest)))


def _sum_on(device: Device, estimates: Iterable[Estimate]) -> Estimate:
    """Returns the sum of estimates, as long as the device's framework makes it."""
    return sum_estimates_of_section(estimates).times(device.compute_factor)


def section_parts(
    section: Section,
    device: Device,
    scores: Collection[Shape] = (),
    vocabulary: Collection[int] = (),
) -> tuple[Estimate, Estimate, Estimate]:
    """Returns the seconds of a section, of its products, and of all other operations.

    A measured total is divided in the ratio of the estimates. Raises as ``section_estimate``.
    """
    products = [*_products(section, device, scores, vocabulary)]
    others = [*_fused_kernel(section, device, scores)]
    whole = _estimate_whole(section, device, [*products, *others])
    parts = _sum_on(device, products), _sum_on(device, others)
    if section.measured == NOTHING:
        return whole, *parts
    estimate = sum(part.seconds for part in parts)
    share = parts[0].seconds / estimate if estimate else 0.0
    return whole, whole.times(share), whole.times(1.0 - share)


def sum_estimates_of_section(estimates: Iterable[Estimate]) -> Estimate:
    """Returns the sum of estimates in sequence; its provenance is the least certain of theirs."""
    total = NOTHING
    for index, estimate in enumerate(estimates):
        total = Estimate(
            total.seconds + estimate.seconds,
            total.low + estimate.low,
            total.high + estimate.high,
            estimate.how if not index or _ORDER[estimate.how] > _ORDER[total.how] else total.how,
        )
    return total


_ORDER = {"measured": 0, "roofline": 1}


def _products(
    section: Section, device: Device, scores: Collection[Shape], vocabulary: Collection[int]
) -> Iterator[Estimate]:
    """Estimates each product of matrices; products with scores become attention."""
    with_scores = []
    for operation in section.operations:
        if operation.primitive in MULTIPLIED:
            if any(is_scores(value.type, scores) for value in operation.values):
                with_scores.append(operation)
            else:
                product = product_of(operation)
                if is_quantized(product, device, vocabulary):
                    yield from estimate_quantized(product, device)
                else:
                    yield product_estimate(product, device)
    if with_scores:
        causal = any(_is_mask(operation, scores) for operation in section.operations)
        yield from _attention(with_scores, causal, device)


def _attention(products: Sequence[Operation], causal: bool, device: Device) -> Iterator[Estimate]:
    """Estimates attention: full sets of ``IN_GRADIENTS`` products are backward, others forward."""
    back = len(products) // IN_GRADIENTS * IN_GRADIENTS
    for backward, group in ((False, products[back:]), (True, products[:back])):
        if not group:
            continue
        flops = sum(map(flops_of, group)) * (BACKWARD_PRODUCTS / IN_GRADIENTS if backward else 1)
        dtype = group[0].operands[0].type.dtype
        rate = attention_rate(device, dtype, backward)
        part = 0.5 if causal else 1.0
        seconds = part * flops / rate + device.launch_seconds
        least = part * flops / device.peak(dtype)
        yield Estimate(seconds, max(least, LOW * seconds), HIGH * seconds, "roofline")


def _fused_kernel(
    section: Section, device: Device, scores: Collection[Shape]
) -> Iterator[Estimate]:
    """Estimates the operations between products as one kernel: reads inputs, writes results."""
    roots: dict[str, str] = {}
    groups: dict[int, list[Operation]] = {}
    readers: dict[str, set[int]] = {}
    remade = dict(section.remade)
    products = 0
    for operation in section.operations:
        names = [roots.get(str(operand), str(operand)) for operand in operation.operands]
        if renames(operation) and isinstance(operation.operands[0], Value):
            roots |= dict.fromkeys((value.name for value in operation.results), names[0])
            continue
        product = operation.primitive in MULTIPLIED
        products += product
        for name, operand in zip(names, operation.operands, strict=True):
            # A product (-1) is a separate kernel: whatever it reads has to be in memory.
            readers.setdefault(name, set()).add(-1 if product else products)
            if product and name in remade:
                size = operand.type.bytes + sum(root.type.bytes for root in remade.pop(name))
                yield bytes_estimate(size, device)
        if not product:
            groups.setdefault(products, []).append(operation)
    kept = {roots.get(name, name) for name in section.kept}
    for number, fused in groups.items():
        results = {value.name: value.type for operation in fused for value in operation.results}
        inputs: dict[str, Type] = {}
        streams: dict[str, frozenset[str]] = {}
        for name, operand in _operands_read(fused, roots):
            if name not in results and name not in section.constants:
                sources = remade.get(name, (Value(name, operand.type),))
                inputs |= {source.name: source.type for source in sources}
                streams[name] = frozenset(source.name for source in sources)
        written = {
            name: type_
            for name, type_ in results.items()
            if name not in remade and (name in kept or readers.get(name, set()) - {number})
        }
        read_twice = [inputs[name] for name in _bytes_read_twice(fused, roots, streams, written)]
        accesses = (*inputs.values(), *read_twice, *written.values())
        moved = sum(type_.bytes for type_ in accesses if not is_scores(type_, scores))
        if moved:
            yield bytes_estimate(moved, device)


def _operands_read(
    operations: Iterable[Operation], roots: Mapping[str, str]
) -> Iterator[tuple[str, Value]]:
    """Yields the operands of operations, each by the name of the value that it is a view of."""
    for operation in operations:
        for operand in operation.operands:
            if isinstance(operand, Value):
                yield roots.get(operand.name, operand.name), operand


def _bytes_read_twice(
    operations: Sequence[Operation],
    roots: Mapping[str, str],
    streams: Mapping[str, frozenset[str]],
    written: Collection[str],
) -> Iterator[str]:
    """Yields the inputs that a kernel reads twice: for sums over long rows, and for later uses.

    Batch normalisation sums an image's channel over the whole batch and then scales each of its
    elements: two passes over memory, whereas a row of a layer normalisation stays in registers.
    Mean and variance take one pass (Welford 1962). ``streams``: the inputs read for each operand.
    """
    origins = {name: (0, sources) for name, sources in streams.items()}
    passes: dict[str, set[int]] = {}
    for operation in operations:
        operands = [
            origins[name] for name, _ in _operands_read((operation,), roots) if name in origins
        ]
        pass_ = max((number for number, _ in operands), default=0)
        inputs = frozenset[str]().union(*(sources for _, sources in operands))
        results = {value.name for value in operation.results}
        sums = _row_bytes(operation) > REGISTER_BYTES
        if sums or not results.isdisjoint(written):
            for name in inputs:
                passes.setdefault(name, set()).add(pass_)
        origins |= dict.fromkeys(results, (pass_ + 1, frozenset()) if sums else (pass_, inputs))
    return (name for name, numbers in passes.items() if len(numbers) > 1)


def _row_bytes(operation: Operation) -> float:
    """Returns the bytes that a reduction combines into one element."""
    if operation.primitive not in SUMMED:
        return 0.0
    return operation.operands[0].type.bytes / max(1, operation.results[0].type.elements)


def _is_mask(operation: Operation, scores: Collection[Shape]) -> bool:
    return operation.primitive == "select_n" and is_scores(operation.results[0].type, scores)


def _is_score_product(operation: Operation) -> bool:
    if operation.primitive != "dot_general":
        return False
    parameters: Mapping[str, Any] = operation.parameter
    _, (shared, _) = parameters["dimension_numbers"]
    read = sum(operand.type.elements for operand in operation.operands)
    return bool(shared) and operation.results[0].type.elements > read


def _shape(kind: Type) -> Shape:
    return tuple(sorted(size for size in kind.shape if size > 1))
