"""The JAX file: every program exact on fake devices, its groups in compiled HLO, its gradients."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exhaustive import Sample, in_turn, sampled
from forking import FLEET, jax_python
from grammar import Collective, Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis, Hierarchy, Level, Placement, Reduction
from patience import PATIENCE_SECONDS
from strategies import all_valid, reducing, source, spelled, striped
from synth.collective.emit.jax import write, write_flat
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import CannotExpressError, EmitSource, Files
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import Exchange, Transpose

NAME = "collsynth_jax.py"
Write = Callable[[EmitSource], Files]
needs_jax = pytest.mark.skipif(
    find_spec("jax") is None, reason="needs JAX: pip install collsynth[jax]"
)
HIERARCHICAL = (
    "reduce-scatter level0 inside; all-reduce level0 parallel(root); all-gather level0 inside"
)
BESIDE = [goal for goal in Goal if goal is not Goal.ALL_REDUCE]
BOTH = pytest.mark.parametrize("writer", [write, write_flat])


def only(files: Files) -> str:
    """The text of the one file that there is."""
    [text] = files.values()
    return str(text)


LOAD = """
import importlib.util, json, sys
import numpy as np
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

def load(path):
    spec = importlib.util.spec_from_file_location("collsynth_jax", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

asked = json.loads(sys.stdin.read())
"""

SUMS = """
wrong = []
for path, groups in asked:
    fast = load(path)
    for elements in (1, 2, 7, 101) if hasattr(fast, "STRIPES") else (7,):
        rows = np.random.default_rng(1).integers(-(10**6), 10**6, (fast.WORLD, elements), np.int32)
        wanted = np.empty_like(rows)
        for group in groups:
            wanted[group] = rows[group].sum(axis=0)
        found = fast.all_reduce_rows(fast.mesh(jax.devices()[:fast.WORLD]))(rows)
        if not np.array_equal(found, wanted):
            wrong.append(path)
print(json.dumps(wrong))
"""

REQUESTED = """
sys.path.insert(0, fleet)
import payloads
jax.config.update("jax_enable_x64", True)
wrong = []
for path, job in asked:
    fast = load(path)
    rows = getattr(fast, job["request"].replace("-", "_") + "_rows")(fast.mesh())
    for elements, kind, most in ((3, "int64", 1009), (101, "bfloat16", 16)):
        given = [payloads.given(job, rank, elements, most) for rank in range(fast.WORLD)]
        found = np.asarray(rows(np.stack(given).astype(jnp.dtype(kind))))
        for rank in range(fast.WORLD):
            wanted = payloads.wanted(job, rank, elements, most)
            if wanted is not None and found[rank][: len(wanted)].tolist() != wanted.tolist():
                wrong.append([path, rank, elements, kind])
    report = fast.selfcheck(101, jnp.float32)
    if not (report["equal"] and report["bitwise_equal"]):
        wrong.append([path, report])
print(json.dumps(wrong))
"""

COMPILED = """
import re
found = []
for path in asked:
    fast = load(path)
    over = fast.mesh(jax.devices()[::-1])
    rows = jax.ShapeDtypeStruct((fast.WORLD, 2 * fast.PIECES), jnp.float32)
    text = fast.all_reduce_rows(over).lower(rows).compile().as_text()
    seen = re.findall(r"(all-reduce|reduce-scatter|all-gather)\\(.*?replica_groups=(\\S+?), ", text)
    found.append([seen, [device.id for device in over.devices.flat]])
print(json.dumps(found))
"""


def run(script: str, devices: int, asked: Any = None, *arguments: str) -> Any:
    """What a script, given a question on its standard input, prints as JSON."""
    what = [script] if script.endswith(".py") else ["-c", script]
    done = subprocess.run(
        [*jax_python(), *what, *arguments],
        input=json.dumps(asked),
        env=environment(devices),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def environment(devices: int) -> dict[str, str]:
    """Of so many virtual devices; their machine code need not be fast, as it runs once or twice."""
    fake = f"--xla_force_host_platform_device_count={devices}"
    flags = f"{fake} --xla_backend_optimization_level=0"
    return os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


def ranks(given: EmitSource) -> list[list[int]]:
    """The reduction groups."""
    found: list[list[int]] = given.mesh.ranks(given.schedule.reduction.grid()).tolist()
    return found


def check_sums(sources: Iterable[EmitSource], folder: Path, writer: Write = write) -> None:
    """Run the files of all sources on whole numbers, in one process."""
    asked, world = [], 1
    for number, given in enumerate(sources):
        path = folder / f"program{number}.py"
        path.write_text(only(writer(given)))
        asked.append((str(path), ranks(given)))
        world = max(world, given.schedule.devices)
    wrong = run(LOAD + SUMS, world, asked)
    assert not wrong, [Path(path).read_text()[:900] for path in wrong[:3]]


def sources(reduction: Reduction, some: int | None = None) -> list[EmitSource]:
    """Every valid program of a reduction, or a sample."""
    steps = list(all_valid(len(reduction.tree.digits)))
    chosen = steps if some is None else random.Random(7).sample(steps, some)
    return [source(spelled(program, reduction.tree), reduction) for program in chosen]


def ordered(given: EmitSource, order: RankOrder) -> EmitSource:
    return replace(given, options=replace(given.options, rank_order=order))


def cluster(
    levels: Sequence[int], matrix: tuple[tuple[int, ...], ...], over: tuple[str, ...]
) -> Reduction:
    """Axes data, model and pipe on levels pod, node and gpu."""
    names = ("pod", "node", "gpu")[-len(levels) :]
    hierarchy = Hierarchy(tuple(map(Level, names, levels)))
    axes = tuple(
        Axis(name, int(np.prod(row)))
        for name, row in zip(("data", "model", "pipe"), matrix, strict=False)
    )
    return Reduction(Placement(hierarchy, axes, matrix), over)


@needs_jax
@pytest.mark.parametrize(
    ("sizes", "some"),
    [
        *[((2, 2), 8), ((2, 3, 2), 3), ((2, 2, 2, 2), 3)],
        *(
            pytest.param(sizes, some, marks=pytest.mark.slow)
            for sizes, some in [((2, 2), None), ((2, 3, 2), 25), ((2, 2, 2, 2), 25)]
        ),
    ],
)
def test_programs_are_exact(sizes: tuple[int, ...], some: int | None, tmp_path: Path) -> None:
    check_sums(sources(Reduction.plain(*sizes), some), tmp_path)


@pytest.mark.slow
@needs_jax
@BOTH
@pytest.mark.parametrize(
    ("sizes", "some"),
    [((2, 2), None), ((2, 4), None), ((2, 2, 2), 150), ((2, 3, 2), 150), ((2, 2, 2, 2), 150)],
)
@sampled(40, seed=40)
def test_many_programs_are_exact(
    sizes: tuple[int, ...], some: int | None, writer: Write, sample: Sample, tmp_path: Path
) -> None:
    check_sums(sample(sources(Reduction.plain(*sizes), some)), tmp_path, writer)


REPLICAS = [
    cluster((2, 4), ((2, 2), (1, 2)), ("data",)),
    cluster((2, 2, 4), ((2, 1, 2), (1, 2, 2)), ("data",)),
    cluster((2, 4, 4), ((2, 2, 1), (1, 1, 4), (1, 2, 1)), ("data", "pipe")),
    cluster((4, 16), ((4, 4), (1, 4)), ("data",)),
]


def check_requests(sources: Sequence[EmitSource], folder: Path, writer: Write) -> None:
    """Run files for any request: bit for bit what plain arithmetic gives."""
    asked = []
    for number, given in enumerate(sources):
        path = folder / f"program{number}.py"
        path.write_text(only(writer(given)))
        op = given.schedule.op.value
        job = {"request": given.schedule.goal.value, "op": op, "groups": ranks(given)}
        asked.append((str(path), job))
    script = LOAD + f"fleet = {str(FLEET)!r}\n" + REQUESTED
    wrong = run(script, sources[0].schedule.devices, asked)
    assert not wrong, wrong[:3]


def requested(goal: Goal, reduction: Reduction, some: int) -> list[EmitSource]:
    """Programs for a request: with barriers, in segments, and side by side."""
    listed = all_valid(len(reduction.tree.digits), Language(3, goal=goal))
    chosen = random.Random(7).sample(listed, min(some, len(listed)))
    programs = [spelled(steps, reduction.tree) for steps in chosen]
    return [
        *(source(program, reduction, 64, 1, goal) for program in programs),
        source(programs[-1], reduction, 3, 3, goal),
        striped([(programs[0], 40, 2), (programs[-1], 30, 1)], reduction, goal),
    ]


@needs_jax
@pytest.mark.parametrize("goal", [Goal.ALL_GATHER, Goal.ALL_TO_ALL])
def test_a_few_programs_for_other_requests_are_exact(goal: Goal, tmp_path: Path) -> None:
    check_requests(requested(goal, Reduction.plain(2, 2), 1), tmp_path, write)


@pytest.mark.slow
@needs_jax
@BOTH
@pytest.mark.parametrize(("goal", "order"), in_turn(BESIDE, RankOrder))
def test_every_request_is_exact(
    goal: Goal, order: RankOrder, writer: Write, tmp_path: Path
) -> None:
    """Eight devices, two axes of which over both levels; ranks in both orders."""
    reduction = cluster((2, 4), ((2, 2), (1, 2)), ("data", "model"))
    given = [ordered(one, order) for one in requested(goal, reduction, 3)]
    beside = cluster((2, 4), ((2, 2), (1, 2)), ("data",))
    given += [ordered(one, order) for one in requested(goal, beside, 1)]
    check_requests(given, tmp_path, writer)


@needs_jax
@pytest.mark.parametrize(
    "op", [ReductionKind.MAX, pytest.param(ReductionKind.MIN, marks=pytest.mark.slow)]
)
def test_maxima_and_minima_are_exact(op: ReductionKind, tmp_path: Path) -> None:
    """Of numbers of which half are below zero, by axes of the mesh and by explicit groups."""
    goals = [goal for goal in Goal if goal.reduces]
    given = [reducing(requested(goal, Reduction.plain(2, 2), 1)[0], op) for goal in goals]
    rooted = "reduce level0 inside; all-reduce level0 master(root); broadcast level0 inside"
    for program, goal in (
        (HIERARCHICAL, Goal.ALL_REDUCE),
        (rooted, Goal.ALL_REDUCE),
        ("reduce-scatter level0 parallel(root); reduce-scatter level0 inside", Goal.REDUCE_SCATTER),
    ):
        one = source(program, Reduction.plain(2, 2), 3, 1, goal)
        given.append(reducing(one, op))
    (tmp_path / "flat").mkdir()
    check_requests(given, tmp_path, write)
    check_requests(given, tmp_path / "flat", write_flat)


@needs_jax
def test_explicit_groups_ask_for_no_check_of_types(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(only(write_flat(source(HIERARCHICAL, Reduction.plain(2, 2)))))
    script = LOAD + UNCHECKED
    assert "check_vma=False" in run(script, 4, str(tmp_path / NAME))


UNCHECKED = """
fast = load(asked)
call = jax.shard_map(fast.all_reduce, mesh=fast.mesh(), in_specs=fast.ROWS, out_specs=P())
try:
    call(jnp.ones((4, 8)))
except TypeError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.slow
@needs_jax
@BOTH
@pytest.mark.parametrize("order", [RankOrder.MACHINE, RankOrder.AXES])
def test_replicas_sum_apart(order: RankOrder, writer: Write, tmp_path: Path) -> None:
    found = [ordered(s, order) for reduction in REPLICAS for s in sources(reduction, 6)]
    check_sums(found, tmp_path, writer)


UNREAD = (
    "all-reduce level1 inside; reduce-scatter level1 master(level0); "
    "reduce-scatter level0 parallel(root); all-gather level1 master(root); broadcast root inside"
)


@needs_jax
def test_unread_values_are_not_reordered(tmp_path: Path) -> None:
    """Its shape may then be another than the schedule's: bystanders did as the others did."""
    given = source(UNREAD, Reduction.plain(2, 3, 2))
    assert "nobody needs" in only(write(given))
    check_sums([given], tmp_path)


def test_every_program_of_two_digits_can_be_written() -> None:
    """93 by groups of ranks; 68 of them by mesh axes too."""
    texts = [only(write(given)) for given in sources(Reduction.plain(2, 4))]
    assert len(texts) == 93
    assert sum("check_vma=False)\n    def gradients" not in text for text in texts) == 68
    assert sum("# emulated" in text for text in texts) == 73
    assert sum("# every device takes part" in text for text in texts) == 29


def at(given: EmitSource, *phases: Exchange | Transpose) -> EmitSource:
    """The source with other phases, whatever they amount to."""
    return replace(given, schedule=replace(given.schedule, phases=phases))


def side_by_side(reduction: Reduction, many: int, count: int) -> list[EmitSource]:
    """Programs of which as many run side by side, with unequal shares and segments."""
    draw = random.Random(many)
    steps = list(all_valid(len(reduction.tree.digits)))
    return [
        striped(
            [
                (spelled(program, reduction.tree), draw.randint(1, 400), draw.choice([1, 2, 5]))
                for program in draw.sample(steps, many)
            ],
            reduction,
        )
        for _ in range(count)
    ]


@needs_jax
@BOTH
@pytest.mark.parametrize("many", [2, 3])
@pytest.mark.parametrize("drawn", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_stripes_are_exact(many: int, drawn: int, writer: Write, tmp_path: Path) -> None:
    rings = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
    turned = "reduce-scatter node parallel(root); all-reduce node inside; all-gather node parallel"
    some = cluster((2, 4), ((2, 2), (1, 2)), ("data",))
    nested = striped([(rings, 3000, 3), (turned, 1001, 2), (rings, 501, 1)][:many], some)
    check_sums([nested, *side_by_side(Reduction.plain(2, 3), many, drawn)], tmp_path, writer)


def test_an_inexpressible_stripe_is_named() -> None:
    given = source("all-reduce root inside", Reduction.plain(2, 2))
    scatter = Exchange(Collective.REDUCE_SCATTER, np.array([[0, 1]]), 4)
    gather = Exchange(Collective.ALL_GATHER, np.array([[0, 1]]), 4)
    broken = at(given, *given.schedule.phases, scatter, gather)
    with pytest.raises(CannotExpressError) as caught:
        write(replace(given, beside=(given, broken)))
    assert caught.value.where == "stripe 3, step 2"


@BOTH
def test_unlike_sizes_are_refused_by_step(writer: Write) -> None:
    given = source("all-reduce root inside", Reduction.plain(2, 2))
    pair = np.array([[0, 1]])
    scatter = Exchange(Collective.REDUCE_SCATTER, pair, 4)
    gather = Exchange(Collective.ALL_GATHER, pair, 4)
    with pytest.raises(CannotExpressError) as caught:
        writer(at(given, *given.schedule.phases, scatter, gather))
    assert caught.value.where == "step 2"
    assert caught.value.problem == (
        "reduce-scatter: some devices need all of the payload after it and others 1/2, "
        "but in JAX all buffers have one shape at a time"
    )


@BOTH
def test_half_a_transpose_is_refused(writer: Write) -> None:
    given = source("all-reduce root inside", Reduction.plain(2, 2))
    turn = Transpose(np.array([0, 1]), (2, 2), (1, 0), 4)
    with pytest.raises(CannotExpressError, match="only some of the devices") as caught:
        writer(at(given, *given.schedule.phases, turn))
    assert caught.value.where == "step 1"


def read_groups(text: str) -> list[tuple[int, ...]]:
    """The groups of ranks of an HLO instruction, listed or as a transposed range."""
    if text.startswith("{"):
        return [tuple(group) for group in json.loads(text.translate(str.maketrans("{}", "[]")))]
    found = re.fullmatch(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    assert found, text
    shape, start, axes = (
        [int(number) for number in part.split(",")] if part else [] for part in found.groups()
    )
    ids = np.arange(np.prod(start)).reshape(start).transpose(axes or None).reshape(shape)
    return [tuple(group) for group in ids.tolist()]


LARGE = [
    cluster((4, 16, 8), ((4, 16, 1), (1, 1, 8)), ("data",)),
    cluster((4, 16, 8), ((2, 16, 4), (2, 1, 2)), ("data",)),
    cluster((64, 8), ((16, 4), (4, 2)), ("data",)),
    cluster((4, 16, 8), ((2, 4, 1), (1, 2, 8), (2, 2, 1)), ("data", "pipe")),
]


@needs_jax
@BOTH
@pytest.mark.parametrize("order", [RankOrder.MACHINE, RankOrder.AXES])
@pytest.mark.parametrize("some", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_compiled_groups_are_the_schedule_s(
    some: int, order: RankOrder, writer: Write, tmp_path: Path
) -> None:
    """On 512 devices, listed backwards: who is in a group with whom, in member order."""
    given = [ordered(s, order) for reduction in LARGE for s in sources(reduction, some)]
    check_compiled(given, writer, tmp_path)


@pytest.mark.slow
@needs_jax
@BOTH
@sampled(24, seed=512)
def test_compiled_groups_of_every_program(writer: Write, sample: Sample, tmp_path: Path) -> None:
    check_compiled(sample(sources(LARGE[2])), writer, tmp_path)


def check_compiled(given: list[EmitSource], writer: Write, folder: Path) -> None:
    paths = [folder / f"program{number}.py" for number in range(len(given))]
    for path, one in zip(paths, given, strict=True):
        path.write_text(only(writer(one)))
    answers = run(LOAD + COMPILED, 512, [str(path) for path in paths])
    for one, (seen, ids) in zip(given, answers, strict=True):
        assert_compiled_as_scheduled(one, seen, ids)


def assert_compiled_as_scheduled(
    given: EmitSource, seen: list[tuple[str, str]], ids: list[int]
) -> None:
    """Whether the collectives of an HLO are the schedule's; `ids`: of the device of each rank."""
    exchanges = [phase for phase in given.schedule.phases if isinstance(phase, Exchange)]
    assert len(seen) == len(exchanges), given.schedule.program
    for (name, text), phase in zip(seen, exchanges, strict=True):
        emulated = (Collective.REDUCE, Collective.BROADCAST)
        assert name == ("all-reduce" if phase.collective in emulated else phase.collective.value)
        compiled = {tuple(ids[rank] for rank in group) for group in read_groups(text)}
        members = given.mesh.ranks(phase.groups).tolist()
        must = {tuple(ids[rank] for rank in group) for group in members}
        assert must <= compiled
        assert sorted(device for group in compiled for device in group) == sorted(ids)
        if name == "all-reduce":
            assert {len(group) for group in compiled - must} <= {1}


SHAPES = """
fast = load(asked["path"])
over = fast.mesh()
vma = {"check_vma": False} if asked["flat"] else {}
def total(x, given=fast.ROWS):
    add = jax.shard_map(fast.all_reduce, mesh=over, in_specs=given, out_specs=P(), **vma)
    return jax.jit(add)(x)
for shape, dtype in asked["cases"]:
    rows = np.random.default_rng(2).integers(-9, 9, (8, *shape), np.int32)
    given = jnp.asarray(rows, dtype)
    found = total(given)
    assert found.shape == (1, *shape) and found.dtype == given.dtype, (shape, dtype, found)
    wanted = np.asarray(given).sum(axis=0, dtype=given.dtype)
    assert np.array_equal(np.asarray(found)[0], wanted), (shape, dtype)
# the rest of a tree: booleans are counted, replicated values and scalars count for each device
tree = {"yes": np.ones((8, 3), bool), "no": [np.zeros((8, 1), np.float32)]}
found = total(tree)
assert found["yes"].dtype == jnp.int32 and (found["yes"] == 8).all()
assert found["no"][0].shape == (1, 1)
assert total(np.float32(2.5), P()) == 20
assert (total(np.arange(5), P()) == 8 * np.arange(5)).all()
print(json.dumps("done"))
"""


SHAPES_GIVEN = [(3,), (1,), (2, 5, 3), (0,), (4, 0)]
DTYPES_GIVEN = ["int32", "float32", "bfloat16", "float16", "complex64", "uint8"]


@needs_jax
@BOTH
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(
            [((3,), dtype) for dtype in DTYPES_GIVEN]
            + [(shape, "int32") for shape in SHAPES_GIVEN[1:]],
            id="each",
        ),
        pytest.param(list(product(SHAPES_GIVEN, DTYPES_GIVEN)), id="all", marks=pytest.mark.slow),
    ],
)
def test_any_shape_and_dtype(
    cases: list[tuple[tuple[int, ...], str]], writer: Write, tmp_path: Path
) -> None:
    path = tmp_path / NAME
    path.write_text(only(writer(source(HIERARCHICAL, Reduction.plain(2, 4)))))
    asked = {"path": str(path), "flat": writer is write_flat, "cases": cases}
    assert run(LOAD + SHAPES, 8, asked) == "done"


GRADIENTS = """
fast = load(asked["path"])
over = fast.mesh()
flat = asked["flat"]
vma = {"check_vma": False} if flat else {}
model = fast.AXES["model"]
numbers = np.random.default_rng(3)
weights = numbers.standard_normal((6, 4)).astype(np.float32)
inputs = numbers.standard_normal((8, 6)).astype(np.float32)
targets = numbers.standard_normal((8, 4)).astype(np.float32)

def loss(weights, inputs, targets):
    return jnp.sum((jnp.tanh(inputs @ weights) - targets) ** 2)

def step(weights, inputs, targets):
    return fast.all_reduce(jax.grad(loss)(fast.varying(weights), inputs, targets))

columns = P(None, model)
cut = jax.jit(jax.shard_map(
    step, mesh=over, in_specs=(columns, P(fast.REDUCED), P(fast.REDUCED, model)), out_specs=columns,
    **vma,
))
found = cut(weights, inputs, targets)
wanted = jax.grad(loss)(weights, inputs, targets)
assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5), (found, wanted)
import re
text = cut.lower(weights, inputs, targets).compile().as_text()
seen = re.findall(r"(all-reduce|reduce-scatter|all-gather)\\(.*?replica_groups=(\\S+?), ", text)

if not flat:
    # what is replicated over the model axis too: jax.grad sums over that axis by itself
    def scaled(scale, weights, inputs, targets):
        return loss(scale * weights, inputs, targets)

    def scale_step(scale, weights, inputs, targets):
        return fast.all_reduce(jax.grad(scaled)(fast.varying(scale), weights, inputs, targets))

    found = jax.jit(jax.shard_map(
        scale_step, mesh=over,
        in_specs=(P(), columns, P(fast.REDUCED), P(fast.REDUCED, model)), out_specs=P(),
    ))(np.float32(1.5), weights, inputs, targets)
    wanted = jax.grad(scaled)(np.float32(1.5), weights, inputs, targets)
    assert np.allclose(found, wanted, rtol=1e-4), (found, wanted)

    # an all-reduce can be differentiated: every row is in the sums of its group
    def total(rows):
        return jnp.sum(fast.all_reduce_rows(over)(rows) * 3)
    assert (jax.grad(total)(np.ones((8, 3), np.float32)) == 3 * fast.MEMBERS).all()
print(json.dumps(seen))
"""


@needs_jax
@BOTH
@pytest.mark.parametrize("program", ["hierarchical", "rooted"])
def test_a_gradient_is_summed_by_the_program_alone(
    program: str, writer: Write, tmp_path: Path
) -> None:
    text = {
        "hierarchical": HIERARCHICAL.replace("level0", "node"),
        "rooted": "reduce node inside; all-reduce node master(root); broadcast node inside",
    }[program]
    given = source(text, cluster((2, 4), ((2, 2), (1, 2)), ("data",)))
    path = tmp_path / NAME
    path.write_text(only(writer(given)))
    explicit = "check_vma=False)\n    def gradients" in path.read_text()
    seen = run(LOAD + GRADIENTS, 8, {"path": str(path), "flat": explicit})
    assert_compiled_as_scheduled(given, seen, list(range(8)))


EXAMPLE = """
import pathlib, textwrap
sys.path.insert(0, str(pathlib.Path(asked).parent))
emitted = load(asked)

def loss(weights, batch):
    return jnp.sum((batch @ weights) ** 2)

code = emitted.__doc__[emitted.__doc__.index("    import jax"):]
names = {"loss": loss}
exec(textwrap.dedent(code[:code.index("Try it")]), names)
batch = np.random.default_rng(4).standard_normal((16, 3)).astype(np.float32)
weights = np.ones(3, np.float32)
assert np.allclose(names["gradients"](weights, batch), jax.grad(loss)(weights, batch), rtol=1e-4)
print(json.dumps("done"))
"""


@needs_jax
@BOTH
def test_the_example_in_the_file_works(writer: Write, tmp_path: Path) -> None:
    given = source(HIERARCHICAL.replace("level0", "node"), REPLICAS[0])
    [(name, text)] = writer(given).items()
    (tmp_path / name).write_text(str(text))
    assert run(LOAD + EXAMPLE, 8, str(tmp_path / name)) == "done"


BROADCAST = """
fast = load(asked)
rows = np.full((8, 5), np.nan, np.float32)
rows[[0, 4]] = [[1], [2]]
found = np.asarray(fast.all_reduce_rows(fast.mesh())(rows))
assert (found[:4] == 1).all() and (found[4:] == 2).all(), found
print(json.dumps("done"))
"""


@needs_jax
@BOTH
def test_a_broadcast_hides_what_others_hold(writer: Write, tmp_path: Path) -> None:
    """Not-a-number is not multiplied by 0."""
    given = source("all-reduce root inside", Reduction.plain(2, 4))
    halves = np.arange(8).reshape(2, 4)
    path = tmp_path / NAME
    path.write_text(only(writer(at(given, Exchange(Collective.BROADCAST, halves, 4)))))
    assert run(LOAD + BROADCAST, 8, str(path)) == "done"


FLAT_MESH = """
from functools import partial
fast = load(asked)
line = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
add = partial(fast.all_reduce, ranks=("x",))
rows = np.arange(24).reshape(8, 3)
add = jax.shard_map(add, mesh=line, in_specs=P("x"), out_specs=P("x"), check_vma=False)
found = jax.jit(add)(rows)
assert (np.asarray(found) == rows.sum(axis=0)).all()
print(json.dumps("done"))
"""


@needs_jax
def test_groups_of_ranks_work_on_a_flat_mesh(tmp_path: Path) -> None:
    path = tmp_path / NAME
    rooted = "reduce level0 inside; all-reduce level0 master(root); broadcast level0 inside"
    path.write_text(only(write_flat(source(rooted, Reduction.plain(2, 4)))))
    assert run(LOAD + FLAT_MESH, 8, str(path)) == "done"


@needs_jax
def test_a_wrong_number_of_devices_is_reported(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(only(write(source(HIERARCHICAL, Reduction.plain(2, 4)))))
    done = subprocess.run(
        [*jax_python(), str(path)], env=environment(4), capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "this program is for 8 devices, not 4" in done.stderr
    assert "--xla_force_host_platform_device_count=8" in done.stderr


KEYS = {"world", "bytes", "dtype", "seconds", "plain_seconds"}


@needs_jax
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "float64"])
def test_the_file_checks_and_times_itself(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(only(write(source(HIERARCHICAL, Reduction.plain(2, 2)))))
    flags = ("--bytes", "4004", "--dtype", dtype, "--repeat", "2")
    found = run(str(path), 4, None, *flags, "--check")
    assert found.keys() == KEYS | {"equal", "error", "bitwise_equal"}
    assert (found["world"], found["dtype"]) == (4, dtype)
    assert found["bytes"] == {"bfloat16": 4004, "float32": 4004}.get(dtype, 4000)
    assert found["equal"] is True
    assert found["bitwise_equal"] is True
    assert 0 <= found["error"] <= 1


@needs_jax
def test_without_check_it_only_times(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(only(write(source("", Reduction.plain(1)))))
    assert run(str(path), 1, None, "--bytes", "64").keys() == KEYS


@pytest.mark.slow
@needs_jax
@BOTH
def test_several_processes_share_a_job(writer: Write, tmp_path: Path) -> None:
    """Two processes of two devices each, found by what Open MPI tells its processes."""
    path = tmp_path / NAME
    rooted = "reduce level0 inside; all-reduce level0 master(root); broadcast level0 inside"
    path.write_text(only(writer(source(rooted, Reduction.plain(2, 2)))))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {
        "OMPI_MCA_orte_hnp_uri": "1234567890.0;tcp://127.0.0.1:1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(path), "--distributed", "--check", "--bytes", "64"],
            env=environment(2) | told | {"OMPI_COMM_WORLD_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    reports = [
        [json.loads(line) for line in out.splitlines() if line.startswith("{")] for out, _ in said
    ]
    assert reports[1] == []
    assert reports[0][0]["equal"] is True


def house() -> list[EmitSource]:
    """Sources whose files look different, with many and with no mesh axes among them."""
    names = ("superpod", "rack", "node", "accelerator")
    hierarchy = Hierarchy(tuple(Level(name, 8) for name in names))
    axes = (Axis("data", 16), Axis("model", 16), Axis("pipeline", 16))
    many = Reduction(Placement(hierarchy, axes, ((2, 2, 2, 2),) * 3), ("data", "pipeline"))
    return [
        *(
            source("reduce root inside; broadcast root inside", reduction)
            for reduction in (many, Reduction.plain(3))
        ),
        source("", Reduction.plain(1)),
        source("", cluster((2, 2), ((1, 1), (2, 2)), ("data",))),
        source(UNREAD, Reduction.plain(2, 3, 2)),
        *sources(Reduction.plain(2, 4), 15),
        *sources(LARGE[3], 4),
        *side_by_side(Reduction.plain(2, 4), 2, 3),
        *side_by_side(Reduction.plain(2, 3, 2), 3, 2),
    ]


def test_files_are_formatted_and_linted(tmp_path: Path) -> None:
    write_house(tmp_path)
    for command in (["check"], ["format", "--line-length", "100", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", str(tmp_path)]
        done = subprocess.run(ruff, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_jax
def test_files_are_typed(tmp_path: Path) -> None:
    """As strictly as JAX, some of whose functions are not typed, lets them be."""
    write_house(tmp_path)
    flags = ["--strict", "--allow-untyped-calls", "--config-file", os.devnull]
    flags += ["--cache-dir", str(tmp_path / "cache")]
    paths = sorted(str(path) for path in tmp_path.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, *paths], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def write_house(folder: Path) -> None:
    for number, given in enumerate(house()):
        for writer in (write, write_flat):
            name = f"{writer.__name__}{number}.py"
            (folder / name).write_text(only(writer(given)))
