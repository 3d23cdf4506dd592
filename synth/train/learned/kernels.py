"""A fused group of operations as an estimate sees it: what each does, on how much, after which.

Names of values, and lines of its user, are no part of it: two graphs that differ in these alone are
one kernel.

>>> from grammar.tensors.parser import parse_step
>>> step = parse_step("step s\\nin x: f32[8,4] batch\\nv: f32[8,4] = exp(x)\\n"
...     "s: f32[8] = reduce_sum(v) axes=(1)\\nout s")
>>> found = kernel_of(step.graph)
>>> [(one.kind, one.reads, one.flops) for one in found.parts], found.read_bytes, found.made_bytes
([('series', (-1,), 32), ('reduced', (0,), 32)], 128, 32)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from grammar.tensors.operations import Graph, Operation, Value
from grammar.tensors.primitives import ARITHMETIC, RANDOM, REDUCED, REPEATED
from hierarchies import InputError
from synth.compute import flops_of

OUTSIDE = -1
"""The place of what a kernel reads and does not make."""

_SERIES = frozenset(
    [
        *("exp", "exp2", "expm1", "log", "log1p", "tanh", "sin", "cos", "tan", "pow", "erf"),
        *("erfc", "erf_inv", "atan2", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh"),
        *("atanh", "lgamma", "digamma", "polygamma", "zeta", "igamma", "igammac", "bessel_i0e"),
        "bessel_i1e",
    ]
)
"""What compilers compute by a series, with several numbers at once or one by one."""

_NAMED = {
    "dot_general": "product",
    "ragged_dot_general": "product",
    "conv_general_dilated": "convolution",
    "gather": "gather",
    "dynamic_slice": "gather",
    "scatter": "scatter",
    **dict.fromkeys(
        ("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"), "scatter"
    ),
    "dynamic_update_slice": "scatter",
    "select_and_scatter_add": "selected",
    "transpose": "transpose",
    "rev": "transpose",
    "reshape": "view",
    "squeeze": "view",
    "stop_gradient": "view",
    "bitcast_convert_type": "view",
    "copy": "view",
    "optimization_barrier": "view",
    "broadcast_in_dim": "spread",
    "iota": "spread",
    "tile": "spread",
    "sort": "sorted",
    "top_k": "sorted",
    "approx_top_k": "sorted",
    "square": "squared",
    "integer_pow": "squared",
    "sqrt": "divided",
    "cbrt": "divided",
    "div": "divided",
    "rem": "divided",
    "rsqrt": "rsqrt",
    "logistic": "logistic",
}
KINDS = (
    *("cheap", "squared", "divided", "rsqrt", "logistic", "series", "reduced", "window", "product"),
    *("convolution", "gather", "scatter", "transpose", "view", "spread", "moved", "sorted"),
    *("selected", "running"),
)
"""Elementwise work is of several, as compilers do them at rates that differ by ten times: an
``rsqrt`` takes 2.4 ns where a division takes 0.07 (XLA 0.10.2 on one core of an EPYC)."""

LANES = 16
"""Numbers that one instruction may take: what is left of a row is done one by one."""

NEAR_BYTES = (2**18, 2**20, 2**22)
"""Sizes of caches, about: what a kernel touches beyond comes from further away."""


@dataclass(frozen=True)
class Part:
    """One operation: of which kind, and the places of the operations that it reads.

    ``minor`` is the size of the last dimension of the largest value that it reads or makes;
    ``strided`` whether it works across that dimension: a transpose that moves it, a reduction of
    others, a product an operand of which is turned before; ``kept`` whether what it makes is given
    out. Of a table that it looks up in it reads no more than it makes.
    """

    kind: str
    reads: tuple[int, ...]
    flops: int
    read_bytes: int
    made_bytes: int
    minor: int
    strided: bool
    kept: bool


@dataclass(frozen=True)
class Kernel:
    """Operations in an order in which they can be done, and bytes that go in and out of all."""

    parts: tuple[Part, ...]
    read_bytes: int
    made_bytes: int


def kernel_of(graph: Graph) -> Kernel:
    """The kernel that does all of a graph. Raises InputError for one with loops or keys."""
    places = {value.name: at for at, one in enumerate(graph.operations) for value in one.results}
    out = {str(one) for one in graph.outputs}
    parts = tuple(_part(one, places, out) for one in graph.operations)
    if not parts:
        raise InputError("a kernel of no operations", hint="give at least one")
    made = {one.name: one.type.bytes for one in graph.outputs if isinstance(one, Value)}
    read: dict[str, int] = {}
    for one in graph.operations:
        for name, size_bytes in _read(one):
            if name not in places:
                read[name] = max(size_bytes, read.get(name, 0))
    return Kernel(parts, sum(read.values()), sum(made.values()))


def _read(operation: Operation) -> Iterator[tuple[str, int]]:
    """Values, and bytes of each that are read."""
    most = sum(one.type.bytes for one in operation.results)
    for at, one in enumerate(operation.operands):
        if isinstance(one, Value):
            looked_up = at == 0 and kind_of(operation.primitive) == "gather"
            yield one.name, min(most, one.type.bytes) if looked_up else one.type.bytes


def is_plain(operation: Operation) -> bool:
    """Whether it can be part of a kernel: no loop, no random numbers."""
    keys = any(
        isinstance(one, Value) and one.type.dtype == "key"
        for one in (*operation.operands, *operation.results)
    )
    return operation.primitive not in RANDOM | {REPEATED} and not keys


def _part(operation: Operation, places: Mapping[str, int], out: Collection[str]) -> Part:
    if not is_plain(operation):
        problem = f"{operation.primitive} is no part of a kernel"
        raise InputError(problem, where=operation.line, hint="loops and keys are done apart")
    values = [one for one in operation.operands if isinstance(one, Value)]
    kind = _kind_of(operation)
    read = values[1:] if kind == "gather" else values
    largest = max((one.type for one in (*read, *operation.results)), key=lambda one: one.elements)
    return Part(
        kind,
        tuple(sorted({places.get(one.name, OUTSIDE) for one in values})),
        flops_of(operation),
        sum(size_bytes for _, size_bytes in _read(operation)),
        sum(one.type.bytes for one in operation.results),
        max(1, *largest.shape[-1:], 1),
        _strided(operation, values),
        any(one.name in out for one in operation.results),
    )


def kind_of(primitive: str) -> str:
    """The kind that a primitive is of."""
    if primitive in _NAMED:
        return _NAMED[primitive]
    if primitive in ARITHMETIC:
        return "series" if primitive in _SERIES else "cheap"
    if primitive.startswith("reduce_window"):
        return "window"
    if primitive.startswith("cum"):
        return "running"
    return "reduced" if primitive in REDUCED else "moved"


def _kind_of(operation: Operation) -> str:
    """The same, but that to divide by one number is to multiply by its inverse."""
    if operation.primitive == "div":
        divisor = operation.operands[1]
        if not isinstance(divisor, Value) or not divisor.type.shape:
            return "cheap"
    return kind_of(operation.primitive)


def _strided(operation: Operation, values: list[Value]) -> bool:
    told = operation.parameter
    last = len(values[0].type.shape) - 1 if values else 0
    match told:
        case {"permutation": tuple(order)}:
            return bool(order) and order[-1] != last
        case {"axes": tuple(axes)}:
            return last not in axes
        case {"dimension_numbers": ((tuple(left), tuple(right)), (tuple(batch), tuple(other)))}:
            first, second = values
            return _turned(first, left, batch) or _turned(second, right, other)
    return False


def _turned(value: Value, contracted: Sequence[object], batch: Sequence[object]) -> bool:
    """Whether an operand of a product is copied first: libraries take a batch before all else, and
    what is contracted, and what is not, each in one piece."""
    rest = range(len(batch), len(value.type.shape))
    changes = sum((one in contracted) != (other in contracted) for one, other in pairwise(rest))
    return tuple(batch) != tuple(range(len(batch))) or changes > 1


def features(kernel: Kernel) -> tuple[float, ...]:
    """What the seconds of a kernel may follow from, in the order of FEATURES: logarithms."""
    return tuple(log2(1.0 + one) for one in counts(kernel))


def counts(kernel: Kernel) -> tuple[float, ...]:
    """The same as they are: bytes, operations, flops by kind."""
    return tuple(_counts(kernel))


def _counts(kernel: Kernel) -> Iterator[float]:
    parts = kernel.parts
    yield from (1.0, len(parts), kernel.read_bytes, kernel.made_bytes)
    for near in NEAR_BYTES:
        yield max(0, kernel.read_bytes + kernel.made_bytes - near)
    read = {at for one in parts for at in one.reads}
    yield sum(one.made_bytes for at, one in enumerate(parts) if one.kept and at in read)
    yield sum(one.kept for one in parts)
    fresh = [one for one in parts if one.kind == "reduced" and one.reads != (OUTSIDE,)]
    yield sum(map(_work, fresh))
    yield sum(_work(one) for one in fresh if any(parts[at].kept for at in one.reads if at >= 0))
    yield sum(one.made_bytes for one in parts)
    yield max(one.made_bytes for one in parts)
    yield depth_of(kernel)
    yield min((one.minor for one in parts if one.flops), default=1)
    yield max((one.flops / max(1, one.made_bytes) for one in parts), default=0.0)
    for kind in KINDS:
        mine = [one for one in parts if one.kind == kind]
        yield sum(map(_work, mine))
        yield sum(_work(one) * (one.minor % LANES) / one.minor for one in mine)
        yield sum(_work(one) for one in mine if one.strided)
        yield sum(_work(one) / one.minor for one in mine)
        yield sum(one.read_bytes + one.made_bytes for one in mine)
        yield len(mine)


def _work(part: Part) -> float:
    return float(part.flops or part.made_bytes / 4)


NOT_ADDED = ("largest result", "depth", "smallest minor", "most flops a byte")
WHOLE = (
    *("one", "operations", "read bytes", "made bytes"),
    *(f"bytes beyond {near}" for near in NEAR_BYTES),
    *("kept bytes", "results kept", "fresh reduced", "fresh and kept reduced"),
    "bytes of all results",
    *NOT_ADDED,
)
FEATURES = (
    *WHOLE,
    *(
        f"{what} {kind}"
        for kind in KINDS
        for what in ("work", "left over of", "strided", "rows of", "bytes of", "number of")
    ),
)
"""Names of the counts. All but those that are NOT_ADDED add up over what is done one after another;
``left over``: by rows that are no multiple of LANES; ``fresh``: of what the kernel itself made."""


def depth_of(kernel: Kernel) -> int:
    """The most operations that wait for each other."""
    found: list[int] = []
    for one in kernel.parts:
        found.append(1 + max((found[at] for at in one.reads if at != OUTSIDE), default=0))
    return max(found)
