"""A device's step on the clock: what it does, what waits, what is in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type
from hierarchies import Axis, InputError, Placement, load
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.semantics.programs import Language
from synth.compute import flops_of
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.sharding import LocalOperation, Plan, StepProgram, apply, parse_recipe, plan_of
from synth.step.sharding.plan import replicate_all
from synth.step.simulation import BufferKind, DeviceTimeline, Overlap, simulate, write_device
from synth.step.simulation.device import RedistributionSeconds, SectionSeconds, grouping_of
from synth.step.simulation.groups import OperationGrouping
from synth.step.work import peak_bytes, work_of
from traced_steps import step

PLANS = (
    "data=2; batch over data",
    "data=4; batch over data; zero=1",
    "data=2; batch over data; zero=3",
    "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=2",
)
OVERLAPS = (Overlap(), Overlap(sends=True), Overlap(sends=True, prefetch=1), Overlap(prefetch=0))
DATA = PLANS[0]
STATE = (BufferKind.PARAMETERS, BufferKind.GRADIENTS, BufferKind.MOMENTS)


def computing(operation: Operation) -> float:
    return 1e-6 + flops_of(operation) * 1e-9


def sending(kind: Type, source: Sharding, target: Sharding) -> float:
    return 2e-6 + kind.bytes * 1e-9


@cache
def planned(
    model: str, changes: tuple[tuple[str, int], ...], text: str
) -> tuple[Plan, StepProgram]:
    one = step(model, changes)
    plan = plan_of(one, parse_recipe(text))
    return plan, apply(one, plan)


def flat(plan: Plan, overlap: Overlap) -> tuple[Overlap, OperationGrouping]:
    """Every operation a task of its own."""
    return overlap, grouping_of(plan, overlap, whole=False)


def by_operation(computing: Callable[[Operation], float]) -> SectionSeconds:
    """What a section takes whose operations take so long, one after the other."""
    return lambda section: sum(map(computing, section.operations))


def run(
    model: str,
    text: str,
    overlap: Overlap,
    computing: Callable[[Operation], float] = computing,
    sending: RedistributionSeconds = sending,
    **changes: int,
) -> DeviceTimeline:
    """The step of a tiny model by a recipe."""
    sizes = tuple(changes.items())
    plan, program = planned(model, sizes, text)
    each = by_operation(computing)
    return simulate(
        write_device(step(model, sizes), plan, program, each, sending, *flat(plan, overlap))
    )


def a_byte(kind: Type, source: Sharding, target: Sharding) -> float:
    return kind.bytes * 2.0**-20


def free(kind: Type, source: Sharding, target: Sharding) -> float:
    return 0.0


def a_second(operation: Operation) -> float:
    return 1.0


def alone(one: Step) -> DeviceTimeline:
    plan = Plan((), replicate_all(one.graph))
    return simulate(
        write_device(
            one, plan, apply(one, plan), by_operation(a_second), sending, *flat(plan, Overlap())
        )
    )


@pytest.mark.parametrize("model", ["gpt2-tiny", "lstm-tiny", "mlp-tiny"])
def test_every_operation_is_done_as_often_as_it_is_repeated(model: str) -> None:
    """Counted apart, by what a step computes; one after the other on one device."""
    one = step(model)
    found = alone(one)
    done = Counter(task.name.split()[0] for task in found.device.tasks)
    assert done == {work.primitive: work.times for work in work_of(one)}
    assert found.seconds == found.compute_seconds == len(found.device.tasks)


def moves(program: StepProgram, sizes: dict[str, int], times: int = 1) -> int:
    found = 0
    for one in program.instructions:
        if isinstance(one, LocalOperation):
            if one.body is not None:
                length = int(str(one.operation.parameter["length"]))
                found += moves(one.body, sizes, times * length)
        elif one.path.requests(sizes):
            found += times
    return found


@pytest.mark.parametrize("overlap", OVERLAPS, ids=str)
@pytest.mark.parametrize("text", PLANS)
def test_laws_of_a_step(text: str, overlap: Overlap) -> None:
    """Compute and what is exposed are all of it; never below the busiest stream; rows in turn."""
    found = run("gpt2-tiny", text, overlap)
    exposed = sum(one.exposed_seconds for one in found.sent)
    assert found.seconds == pytest.approx(found.compute_seconds + exposed)
    assert found.seconds >= max(found.busy_seconds.values()) * (1 - 1e-9)
    rows = list(found.rows())
    for first, second in pairwise(rows):
        if first.stream == second.stream:
            assert first.end_seconds <= second.begin_seconds
    assert len(rows) == len(found.device.tasks)
    in_line = run("gpt2-tiny", text, Overlap())
    if len(found.device.tasks) == len(in_line.device.tasks):
        assert found.seconds <= in_line.seconds
    assert in_line.seconds == pytest.approx(sum(one.seconds for one in in_line.device.tasks))


@pytest.mark.parametrize("text", PLANS)
def test_sent_values_match_the_program(text: str) -> None:
    """As often as it stands there; what two layers stacked, gradients, slice by slice."""
    one = step("gpt2-tiny")
    plan, program = planned("gpt2-tiny", (), text)
    found = run("gpt2-tiny", text, Overlap())
    looped = {v.name for o in one.graph.operations if o.body is not None for v in o.results}
    sent = [m for m in program.instructions if not isinstance(m, LocalOperation)]
    stacks = sum(bool(m.path.requests(plan.sizes)) for m in sent if m.value.name in looped)
    assert sum(one.times for one in found.sent) == moves(program, dict(plan.sizes)) + stacks


@pytest.mark.parametrize("overlap", OVERLAPS, ids=str)
def test_free_communication_takes_no_time(overlap: Overlap) -> None:
    found = run("gpt2-tiny", PLANS[2], overlap, sending=free)
    assert found.seconds == pytest.approx(found.compute_seconds)


def test_gradients_are_sent_while_the_layers_before_compute() -> None:
    """Compute is slow: all is hidden but what is made last, and nothing is if it is in line."""
    found, in_line = (
        run("gpt2-tiny", PLANS[0], how, a_second, lambda *how: 0.5, layers=4)
        for how in (Overlap(sends=True), Overlap())
    )
    [sent], [all_] = found.sent, in_line.sent
    assert all_.exposed_seconds == all_.seconds == sent.seconds
    assert sent.exposed_seconds <= 1.0


@pytest.mark.parametrize("text", PLANS)
def test_communication_that_takes_cores_slows_compute(text: str) -> None:
    """Never below what takes none; in line nothing goes on beside; the parts add up as before."""
    for overlap in OVERLAPS:
        free = run("gpt2-tiny", text, overlap)
        found = simulate(free.device, taken=0.25)
        assert found.seconds >= free.seconds * (1 - 1e-9)
        exposed = sum(one.exposed_seconds for one in found.sent)
        assert found.seconds == pytest.approx(found.compute_seconds + exposed)
        beside = len(found.device.streams) > 1
        alone = sum(task.seconds for task in free.device.tasks if not task.request)
        assert (found.compute_seconds > alone + 1e-9) is beside
        assert free.compute_seconds == pytest.approx(alone, abs=1e-9)
        assert all(-1e-9 <= one.hidden <= 1 for one in found.sent)


def test_seconds_of_redistributions_are_the_planner_s() -> None:
    """Where compute is free, and all in line, the step takes what its redistributions do."""
    system = load("dgx-h100:1")
    placement = Placement(system.hierarchy, (Axis("data", 4), Axis("tensor", 2)), ((1, 4), (1, 2)))
    programs = ProgramPrices(system, language=Language(2), segments=(1,), stripes=False)
    planner = NetworkPrices(programs, placement)
    asked: list[float] = []

    def planned_seconds(kind: Type, source: Sharding, target: Sharding) -> float:
        asked.append(planner.redistribution(kind, source, target).seconds)
        return asked[-1]

    text = "data=4 tensor=2; batch over data; weights over tensor as Megatron"
    found = run("gpt2-tiny", text, Overlap(), lambda op: 0.0, planned_seconds)
    assert found.seconds == pytest.approx(sum(one.seconds for one in found.sent))
    assert {task.seconds for task in found.device.tasks if task.request} == set(asked)
    assert min(asked) > 0


def test_a_part_of_the_cores_is_a_part() -> None:
    with pytest.raises(InputError, match=r"1\.5 of the cores; a share"):
        simulate(run("gpt2-tiny", PLANS[0], Overlap()).device, taken=1.5)


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_parameters_are_gathered_so_many_layers_ahead(prefetch: int) -> None:
    """Of each of a layer's parameters so many copies are in memory, and the one that is read."""
    how = Overlap(sends=True, prefetch=prefetch)
    found = run("gpt2-tiny", PLANS[2], how, a_second, lambda *how: 1e-3, layers=6)
    gathered = [b for b in found.device.buffers if b.kind is BufferKind.GATHERED]
    names = Counter(one.name for one in gathered)
    most: Counter[str] = Counter()
    for moment in (found.begins[one.maker] for one in gathered):
        live = Counter(found.device.buffers[n].name for n in found.lives.at(moment))
        most |= Counter({name: live[name] for name, times in names.items() if times == 6})
    assert max(most.values()) == prefetch + 1


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize(
    ("zero", "per_parameter"),
    [
        (0, lambda n: 16),
        (1, lambda n: 8 + 8 / n),
        (2, lambda n: 4 + 12 / n),
        (3, lambda n: 16 / n),
    ],
)
def test_bytes_per_parameter_and_device(
    zero: int, per_parameter: Callable[[int], float], parts: int
) -> None:
    """All float32, when all gradients are made: design of the step, section 6."""
    one = step("mlp-tiny", (("layers", 3),))
    text = f"data={parts}; batch over data" + f"; zero={zero}" * bool(zero)
    how = Overlap(sends=True, prefetch=1)
    found = run("mlp-tiny", text, how, a_second, lambda *how: 1e-6, layers=3)
    buffers, tasks = found.device.buffers, found.device.tasks
    update = next(
        begin
        for task, begin in zip(tasks, found.begins, strict=True)
        if any(buffers[n].kind is BufferKind.MOMENTS for n in task.reads)
    )
    held = dict(found.memory_at(update + 0.5).by_kind)
    count = sum(
        value.type.elements
        for value, role in zip(one.graph.inputs, one.roles, strict=True)
        if role == "parameter"
    )
    assert sum(held[kind] for kind in STATE) == per_parameter(parts) * count
    assert not held.get(BufferKind.GATHERED)


def test_gradients_are_summed_where_they_are() -> None:
    """An all-reduce needs no second buffer: gradients are never more than those of all parameters,
    and of one that is being transposed.

    And a parameter's new value is written over the old one.
    """
    found = run("mlp-tiny", PLANS[0], Overlap(), a_second, lambda *how: 1.0, layers=3)
    sizes = [b.size_bytes for b in found.device.buffers if b.kind is BufferKind.PARAMETERS]
    parameters = sum(sizes)
    held = [dict(found.memory_at(moment).by_kind) for moment in found.begins]
    most = max(one.get(BufferKind.GRADIENTS, 0) for one in held)
    assert most - parameters in (0, *sizes)
    inputs = sum(part for kind, part in held[0].items() if kind is not BufferKind.ACTIVATIONS)
    last = found.memory_at(found.seconds - 0.5).size_bytes
    assert inputs <= last < inputs + parameters


@pytest.mark.parametrize("bucket", ["", "; buckets of 25 MB"])
def test_no_memory_is_needed_for_the_results_of_all_reduces(bucket: str) -> None:
    """Alone and in buckets: gradients are there until the update, and no second time."""
    found = run("mlp-tiny", PLANS[0] + bucket, Overlap(), a_second, lambda *how: 1.0, layers=3)
    summed = {at for at, task in enumerate(found.device.tasks) if "all-reduce" in task.request}
    buffers = found.device.buffers
    assert summed
    assert summed.isdisjoint(one.maker for one in buffers)
    sent = {n for at in summed for n in found.device.tasks[at].reads}
    gradients = [buffers[n].size_bytes for n in sent if buffers[n].kind is BufferKind.GRADIENTS]
    assert sum(gradients) == sum(b.size_bytes for b in buffers if b.kind is BufferKind.PARAMETERS)


def test_overlapped_transfers_start_in_order_of_readiness() -> None:
    """Gradients while earlier layers' parameters are still gathered, on one stream."""
    how = Overlap(sends=True, prefetch=1)
    found = run("gpt2-tiny", PLANS[2], how, a_second, lambda *how: 1e-3, layers=6)
    for number, task in enumerate(found.device.tasks):
        if task.request:
            ready = max((found.ends[one] for one in task.before), default=0.0)
            assert found.begins[number] - ready < 0.5


TOKENS = (
    "data=1 tensor=2; tokens over tensor; weights over tensor as Megatron",
    "data=1 tensor=2; tokens over tensor; weights over tensor as Megatron; 2 microbatches",
)


@pytest.mark.parametrize("text", TOKENS)
def test_what_a_layer_kept_is_gathered_again_beside_the_task_before_its_reader(text: str) -> None:
    """Its tokens, for the gradients of weights: never on the compute stream, never early."""
    one = run("llama3-tiny", text, Overlap(sends=True), layers=4).device
    own: dict[int, list[int]] = {}
    again = 0
    for number, task in enumerate(one.tasks):
        if task.stream == "compute":
            own.setdefault(task.place.stage, []).append(number)
            assert not task.request
        makers = [one.tasks[maker] for maker in task.before if one.tasks[maker].request == ""]
        if task.layer < 0 or "all-gather" not in task.request or len(makers) < 2:
            continue
        again += 1
        [before] = own[task.place.stage][task.issue - 1 : task.issue]
        assert before in task.before
        read = next(at for at, each in enumerate(one.tasks) if number in each.before)
        assert one.tasks[read].issue - task.issue <= 1
        assert one.tasks[read].layer == task.layer
    assert again >= 2 * 4 - 2


def test_the_first_operation_may_wait_for_what_it_reads() -> None:
    """A product with a parameter that is cut: gathered, and its gradient scattered."""
    x, w = Value("x", Type("f32", (8, 4))), Value("w", Type("f32", (4,)))
    y, g, new = Value("y", Type("f32", (8,))), Value("g", w.type), Value("new", w.type)
    told, back = ((("dimension_numbers", (((at,), (0,)), ((), ()))),) for at in (1, 0))
    products = (
        Operation("dot_general", (x, w), (y,), told),
        Operation("dot_general", (x, y), (g,), back),
    )
    graph = Graph((x, w), (*products, Operation("sub", (w, g), (new,))), (new,))
    one = Step("line", graph, ("batch", "parameter"), ("x", "w"), ((0, 1),))
    plan = plan_of(one, parse_recipe("data=2; batch over data; zero=3"))
    for overlap in OVERLAPS:
        made = (one, plan, apply(one, plan), by_operation(a_second), lambda *how: 0.25)
        found = simulate(write_device(*made, *flat(plan, overlap)))
        assert found.seconds == 3.5
        assert sum(one.exposed_seconds for one in found.sent) == 0.5


@pytest.mark.parametrize("model", ["resnet-tiny", "gpt2-tiny", "mlp-tiny"])
def test_memory_in_program_order(model: str) -> None:
    """As counted apart, by the text of the step, where no loop stacks."""
    one = step(model, unrolled=True)
    found = alone(one)
    inputs = sum(value.type.bytes for value in one.graph.inputs)
    assert found.largest_moment.size_bytes == inputs + peak_bytes(one)
    assert found.largest_moment.size_bytes == sum(n for _, n in found.largest_moment.by_kind)


def test_remat_holds_less() -> None:
    """Of four layers; what is computed again is not kept."""
    layers = (("layers", 4),)
    kept, again = (alone(step("gpt2-tiny", layers, remat=remat)) for remat in (False, True))
    kinds = [dict(one.largest_moment.by_kind)[BufferKind.ACTIVATIONS] for one in (kept, again)]
    assert kinds[1] < 0.6 * kinds[0]


def test_a_slice_of_a_stack_is_let_go_when_its_layer_is_done() -> None:
    """Backward, layer by layer: less and less is held."""
    one = step("gpt2-tiny", (("layers", 4),))
    found = alone(one)
    stacked = {b.name for b in found.device.buffers if b.kind is BufferKind.ACTIVATIONS}
    assert stacked
    ends = found.lives.ends[[b.name == "v99" for b in found.device.buffers]]
    assert len(set(ends.tolist())) == 4


@pytest.mark.parametrize("overlap", OVERLAPS[:2], ids=str)
@pytest.mark.parametrize("text", ["data=2; batch over data", "data=2; batch over data; zero=2"])
def test_a_bucket_is_one_request_of_all_its_bytes(text: str, overlap: Overlap) -> None:
    """It waits for the last of its members, costs one launch, and they lie as they would alone."""
    launch, per_byte = 1.0, 1e-3

    def priced(kind: Type, source: Sharding, target: Sharding) -> float:
        return launch + per_byte * kind.bytes

    how = (overlap, a_second, priced)
    alone, together = (run("mlp-tiny", f"{text}{more}", *how) for more in ("", "; buckets of 1 MB"))
    _, program = planned("mlp-tiny", (), f"{text}; buckets of 1 MB")
    [members] = program.buckets
    tasks = together.device.tasks
    [bucket] = [at for at, task in enumerate(tasks) if task.name.endswith(" more")]
    names = {program.instructions[at].value.name for at in members}
    apart = [t for t in alone.device.tasks if t.request and t.name.split(": ")[1] in names]
    assert tasks[bucket].seconds == pytest.approx(
        sum(task.seconds for task in apart) - launch * (len(apart) - 1)
    )
    assert len([t for t in tasks if t.request]) == (
        len([t for t in alone.device.tasks if t.request]) - len(apart) + 1
    )
    assert together.begins[bucket] >= max(together.ends[one] for one in tasks[bucket].before)
    assert len(tasks[bucket].before) >= len(names) - 1


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_of_stacks_those_of_some_layers_go_together_when_the_last_is_made(layers: int) -> None:
    """Five layers, from the last on: the first of them that are whole go while others compute."""
    recipe, sizes = f"{DATA}; buckets of {0.052 * layers:.3f} MB", {"layers": 5}
    found = run("gpt2-tiny", recipe, OVERLAPS[1], a_second, a_byte, **sizes)
    alone = run("gpt2-tiny", DATA, OVERLAPS[1], a_second, a_byte, **sizes)
    assert planned("gpt2-tiny", (*sizes.items(),), recipe)[0].bucket_layers == layers
    tasks = found.device.tasks
    sums = [at for at, task in enumerate(tasks) if task.name.endswith(" more") and task.layer >= 0]
    assert [tasks[at].layer for at in sums] == [*range(5 - layers, 0, -layers), 0]
    made = [max(tasks[one].layer for one in tasks[at].before) for at in sums]
    assert made == list(range(4, -1, -layers))
    backward = [found.ends[at] for at, t in enumerate(tasks) if t.layer == 0 and not t.request]
    assert found.ends[sums[0]] < max(backward)
    both = (sum(t.seconds for t in one.device.tasks if t.request) for one in (found, alone))
    assert next(both) == next(both)
    assert found.compute_seconds == alone.compute_seconds
