"""Graphs whose seconds are learned: random ones by family, and pieces of the steps of the zoo.

A piece is convex: a run of a step's operations, and of that what hangs together. So it could be
one task of a plan. Everything follows from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import jax
import jax.numpy as jnp
from jax import Array, lax

from grammar.tensors.operations import Graph, Operation, Step, Value
from synth.train.jaxpr.pruning import pruned
from synth.train.jaxpr.reading import read_jaxpr
from synth.train.learned.kernels import is_plain
from synth.train.models import Spelling, zoo_step

MODELS: Mapping[str, tuple[Mapping[str, int], int]] = {
    "mlp": ({"width": 384}, 96),
    "gpt2-tiny": ({"width": 192, "sequence": 96, "vocabulary": 1024}, 4),
    "llama3-tiny": ({"width": 128, "hidden": 384, "sequence": 128, "vocabulary": 768}, 3),
    "mixtral-tiny": ({"width": 96, "hidden": 256, "sequence": 64, "vocabulary": 512}, 4),
    "bert-tiny": ({"width": 160, "sequence": 112, "vocabulary": 900}, 4),
    "resnet-tiny": ({"width": 12, "image": 48}, 8),
    "lstm-tiny": ({"width": 192, "sequence": 24, "vocabulary": 1000}, 16),
    "vit-tiny": ({"width": 144, "image": 64, "patch": 8}, 16),
}
"""Sizes and batches at which their operations take microseconds to milliseconds on one core."""

LONGEST = 14
MOST_FLOPS = 10**9
MOST_ELEMENTS = 2**21
LEAST_ELEMENTS = 2**11


@dataclass(frozen=True)
class Piece:
    """A graph, and which of a family or of a model it is."""

    group: str
    number: int
    step: Step


def drawn_pieces(group: str, count: int, seed: int) -> Iterator[Piece]:
    """So many graphs of a family or of a model of the zoo; the same for the same seed."""
    draw = random.Random(f"{seed} {group}")
    if group in FAMILIES:
        for number in range(count):
            yield Piece(group, number, _traced(FAMILIES[group](draw)))
    else:
        changes, batch = MODELS[group]
        step = zoo_step(group, changes, Spelling(batch=batch))
        graphs = [step.graph, *(one.body for one in step.graph.everywhere() if one.body)]
        for number in range(count):
            yield Piece(group, number, as_step(_cut(graphs, draw)))


def as_step(graph: Graph) -> Step:
    """A graph whose inputs are all of a batch."""
    names = tuple(one.name for one in graph.inputs)
    return Step("piece", graph, ("batch",) * len(names), names)


def _cut(graphs: Sequence[Graph], draw: random.Random) -> Graph:
    """Of one of the graphs, as likely as it is long, a run that could be one kernel."""
    while True:
        [graph] = draw.choices(graphs, [len(one.operations) for one in graphs])
        begin = draw.randrange(len(graph.operations))
        run = graph.operations[begin : begin + draw.randint(1, LONGEST)]
        found = piece_of(graph, run)
        if found is not None and _size(found) >= LEAST_ELEMENTS:
            return found


def _size(graph: Graph) -> int:
    return max(one.type.elements for one in graph.values.values())


def piece_of(graph: Graph, run: Sequence[Operation]) -> Graph | None:
    """What hangs together with the first of a run's largest part; None with loops or keys in it."""
    if not run or not all(map(is_plain, run)):
        return None
    some = _largest(run)
    made = {value.name for one in some for value in one.results}
    inside = set(map(id, some))
    later = {str(out) for out in graph.outputs}
    later |= {str(v) for one in graph.operations if id(one) not in inside for v in one.operands}
    inputs = {
        value.name: value
        for one in some
        for value in one.operands
        if isinstance(value, Value) and value.name not in made
    }
    outputs = tuple(value for one in some for value in one.results if value.name in later)
    return Graph(tuple(inputs.values()), tuple(some), outputs) if outputs and inputs else None


def _largest(run: Sequence[Operation]) -> list[Operation]:
    """The most operations of a run of which each reads or is read by another of them."""
    groups: list[tuple[set[str], list[int]]] = []
    for at, one in enumerate(run):
        names = {value.name for value in one.results}
        read = {value.name for value in one.operands if isinstance(value, Value)}
        mine = [group for group in groups if group[0] & read]
        groups = [group for group in groups if not group[0] & read]
        joined = names.union(*(group[0] for group in mine))
        groups.append((joined, sorted([at, *(place for group in mine for place in group[1])])))
    _, places = max(groups, key=lambda group: len(group[1]))
    return [run[at] for at in places]


Written = tuple[Callable[..., object], tuple[jax.ShapeDtypeStruct, ...]]
"""A function for JAX, and what it is called with."""


def _traced(written: Written) -> Step:
    function, given = written
    names = [f"x{at}" for at in range(len(given))]
    graph, _ = read_jaxpr(jax.make_jaxpr(function)(*given), names)
    return as_step(pruned(graph))


def _array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def _matrix(draw: random.Random, most: int = MOST_ELEMENTS) -> tuple[int, int]:
    """A shape: the elements by their logarithm, and of these the columns likewise."""
    elements = 2 ** draw.uniform(12, most.bit_length() - 1)
    columns = int(min(2 ** draw.uniform(3, 11), elements))
    return max(1, int(elements / columns)), columns


_UNARY: tuple[Callable[[Array], Array], ...] = (
    jnp.exp,
    jnp.tanh,
    lax.logistic,
    jnp.sqrt,
    lambda x: -x,
    jnp.square,
    lambda x: jnp.maximum(x, 0.0),
    jnp.log,
    lax.erf,
    lax.rsqrt,
    lambda x: jnp.where(x > 1.0, x, 0.1 * x),
)
_BINARY: tuple[Callable[[Array, Array], Array], ...] = (
    jnp.add,
    jnp.multiply,
    jnp.subtract,
    jnp.maximum,
    jnp.divide,
)


def _chained(draw: random.Random, x: Array, others: Sequence[Array], most: int) -> Array:
    for _ in range(draw.randint(1, most)):
        if others and draw.random() < 0.5:
            x = draw.choice(_BINARY)(x, draw.choice(others))
        else:
            x = draw.choice(_UNARY)(x)
    return x


def _chains(draw: random.Random) -> Written:
    rows, columns = _matrix(draw)
    shapes = [_array(rows, columns) for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.5:
        shapes.append(_array(columns))
    seed = draw.random()
    return lambda x, *more: _chained(random.Random(seed), x, more, 10), tuple(shapes)


def _softmax(x: Array) -> Array:
    return jax.nn.softmax(x, axis=-1)


def _norm(x: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def _rms(x: Array) -> Array:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def _reductions(draw: random.Random) -> Written:
    shape = _matrix(draw, 2**20)
    seed = draw.random()
    axis = draw.choice((0, 1, None))
    last = draw.choice(
        (
            _softmax,
            _norm,
            _rms,
            lambda x: jax.nn.logsumexp(x, axis=axis),
            lambda x: x.sum(axis),
            lambda x: x.max(axis),
            lambda x: (x * x).mean(axis),
        )
    )
    return lambda x: last(_chained(random.Random(seed), x, (), 3)), (_array(*shape),)


def _products(draw: random.Random) -> Written:
    while True:
        rows, deep, columns = (int(2 ** draw.uniform(4, 10)) for _ in range(3))
        heads = draw.choice((1, 1, 1, 2, 4, 8))
        if 2 * heads * rows * deep * columns < MOST_FLOPS // 4:
            break
    seed, turned = draw.random(), draw.random() < 0.3
    left = _array(heads, rows, deep) if heads > 1 else _array(rows, deep)
    sides = (columns, deep) if turned else (deep, columns)
    right = _array(heads, *sides) if heads > 1 else _array(*sides)

    def function(x: Array, y: Array, bias: Array) -> Array:
        made = x @ (jnp.swapaxes(y, -1, -2) if turned else y)
        return _chained(random.Random(seed), made + bias, (), 5)

    return function, (left, right, _array(columns))


def _lookups(draw: random.Random) -> Written:
    rows, columns = _matrix(draw, 2**20)
    count = int(2 ** draw.uniform(5, 12))
    if count * columns > MOST_ELEMENTS:
        count = max(1, MOST_ELEMENTS // columns)
    seed = draw.random()
    table, at = _array(rows, columns), _array(count, dtype="int32")
    if draw.random() < 0.5:
        return lambda x, i: _chained(random.Random(seed), x[i], (), 4), (table, at)

    def added(x: Array, i: Array, y: Array) -> Array:
        return x.at[i].add(_chained(random.Random(seed), y, (), 3))

    return added, (table, at, _array(count, columns))


def _layouts(draw: random.Random) -> Written:
    shape: tuple[int, ...] = (0, 0, 0)
    while not LEAST_ELEMENTS <= prod(shape) <= MOST_ELEMENTS:
        shape = tuple(int(2 ** draw.uniform(1.5, 8)) for _ in range(3))
    order = draw.choice(((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)))
    seed, way = draw.random(), draw.randrange(4)

    def function(x: Array) -> Array:
        x = _chained(random.Random(seed), x, (), 3)
        turned = jnp.transpose(x, order)
        if way == 0:
            return turned
        if way == 1:
            return jnp.concatenate([turned, 2.0 * turned], axis=-1)
        if way == 2:
            return jnp.pad(turned, ((1, 1), (0, 0), (1, 1))) + 1.0
        return turned.reshape(turned.shape[0], -1)[:, ::2] * 0.5

    return function, (_array(*shape),)


def _convolutions(draw: random.Random) -> Written:
    """Forward, or the gradient of the images or of the windows, as a step has all three."""
    while True:
        batch, side = draw.choice((1, 2, 4, 8)), int(2 ** draw.uniform(2, 6))
        inside, outside = (int(2 ** draw.uniform(1.5, 7)) for _ in range(2))
        window, stride = draw.choice((1, 2, 3, 3, 5)), draw.choice((1, 1, 2))
        if 2 * batch * side**2 * inside * outside * window**2 < MOST_FLOPS // 8:
            break
    seed, way = draw.random(), draw.randrange(3)

    def forward(images: Array, windows: Array) -> Array:
        return lax.conv_general_dilated(
            images, windows, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def function(images: Array, windows: Array, more: Array) -> Array:
        if way == 0:
            return _chained(random.Random(seed), forward(images, windows) + more, (), 3)
        _, back = jax.vjp(forward, images, windows)
        found: Array = back(more)[way - 1]
        return found

    small = -(-side // stride)
    shapes = ((batch, side, side, inside), (window, window, inside, outside))
    return function, (*(_array(*one) for one in shapes), _array(batch, small, small, outside))


def _windows(draw: random.Random) -> Written:
    """Pools and their gradients, running sums, and what is sorted."""
    way = draw.randrange(4)
    if way > 1:
        rows, columns = _matrix(draw, 2**18)
        if way == 2:
            return lambda x: jnp.sort(x, axis=-1), (_array(rows, columns),)
        axis = draw.randrange(2)
        return lambda x: jnp.cumsum(x, axis=axis), (_array(rows, columns),)
    batch, side = draw.choice((1, 2, 4, 8)), int(2 ** draw.uniform(3, 6))
    channels, wide = int(2 ** draw.uniform(2, 6)), draw.choice((2, 3))
    window, strides = (1, wide, wide, 1), (1, 2, 2, 1)

    def pooled(images: Array) -> Array:
        made: Array = lax.reduce_window(images, -jnp.inf, lax.max, window, strides, "SAME")
        return made

    images, small = (_array(batch, one, one, channels) for one in (side, -(-side // 2)))
    if way == 0:
        return pooled, (images,)
    return lambda x, more: jax.vjp(pooled, x)[1](more)[0], (images, small)


FAMILIES: Mapping[str, Callable[[random.Random], Written]] = {
    "chains": _chains,
    "reductions": _reductions,
    "products": _products,
    "lookups": _lookups,
    "layouts": _layouts,
    "convolutions": _convolutions,
    "windows": _windows,
}
"""What draws a function of each family of random graphs."""
