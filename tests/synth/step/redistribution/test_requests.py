"""Redistributions on machines: the planner's programs, as handed out, do what moves mean."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import permutations

import numpy as np
import pytest

from exhaustive import Sample, sampled
from forking import FLEET, torch_python
from grammar.tensors.sharding import ReductionKind, Sharding, Type, replicated_sharding, shardings
from hierarchies import Axis, Hierarchy, InputError, Placement
from replicas import Array, Coordinates, Parts, cut, mismatch, move_parts
from strategies import switches
from synth.collective.emit.document.writing import (
    document,
    document_to_text,
    read_stripes,
    striped_document,
)
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.emit.source import EmitOptions, EmitSource
from synth.collective.emit.targets import emit
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, Request
from synth.collective.run import BACKENDS, TrialRequest, run
from synth.collective.run.processes import Command, supervise
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.point_to_point import (
    PointToPoint,
    TransferKind,
    coordinates,
    stage_transfer,
)
from synth.collective.semantics.schedule import Schedule
from synth.collective.verify.replay import replay_stripes
from synth.collective.verify.symbolic import Proved
from synth.step.redistribution import MoveKind, RedistributionPath, find_path
from synth.step.redistribution.requests import (
    Communication,
    Rearrangement,
    list_communications,
)

AXES = (Axis("data", 4), Axis("model", 3))
SIZES = {axis.name: axis.size for axis in AXES}
MATRIX = Type("f32", (24, 36))
NESTED = Placement(Hierarchy.of(node=2, gpu=6), AXES, ((2, 2), (1, 3)))
"""Each axis inside a node next to the other; ``data`` on both levels."""
DEEP = Placement(Hierarchy.of(rack=2, node=3, gpu=2), AXES, ((2, 1, 2), (1, 3, 1)))
"""``model`` between the two factors of ``data``."""


def device_coordinates(placement: Placement, device: int) -> Coordinates:
    """Read from the matrix digit by digit: a way of its own."""
    found = [0] * len(placement.axes)
    digits = placement.hierarchy.digits(device)
    for level, digit in enumerate(digits):
        left, each = digit, []
        for row in reversed(placement.matrix):
            left, rest = divmod(left, row[level])
            each.append(rest)
        for axis, (row, own) in enumerate(zip(placement.matrix, reversed(each), strict=True)):
            found[axis] = found[axis] * row[level] + own
    return tuple(found)


@cache
def answered(request: Request, placement: Placement) -> Answer:
    quick = replace(request, k=1, segments=(1,), language=replace(request.language, max_steps=3))
    [best] = answers(switches(placement.hierarchy), quick).answers
    return best


def handed_out(answer: Answer, kind: ReductionKind) -> Sequence[Schedule]:
    """The programs of an answer, written as a JSON document and read again."""
    found = answer.candidate
    schedules = [
        replace(lower(part.derivation, found.reduction, part.size_bytes, part.segments), op=kind)
        for part in found.parts
    ]
    made = document(schedules[0]) if len(schedules) == 1 else striped_document(schedules)
    return read_stripes(document_to_text(made))


def rearranged(how: Rearrangement, array: Array) -> Array:
    return array.reshape(how.shape).transpose(how.order).reshape(how.result)


def on_devices(one: Communication, parts: Parts, placement: Placement) -> Parts:
    """What a request makes of the parts: rearranged, carried out by its program, rearranged."""
    where = [device_coordinates(placement, d) for d in range(placement.hierarchy.devices)]
    given = np.stack([rearranged(one.given, parts[at]).reshape(-1) for at in where])
    if isinstance(one.request, PointToPoint):
        got: Array = given[one.request.senders]
    else:
        answer = answered(one.request, placement)
        assert isinstance(answer.verdict, Proved)
        found = replay_stripes(handed_out(answer, one.kind), given)
        assert isinstance(found, np.ndarray), found
        got = found
    return {at: rearranged(one.got, got[device]) for device, at in enumerate(where)}


def carried_out(
    path: RedistributionPath, value: Type, placement: Placement, seed: int = 0
) -> str | None:
    """What is wrong after a path of which every request is its program's."""
    draw = np.random.default_rng(seed)
    whole = (draw.integers(-99, 100, value.shape) / 8).astype(np.float32)
    parts = cut(whole, path.source, SIZES, draw)
    waiting = list(list_communications(path, value, placement))
    sent = path.requests(SIZES)
    for move in path.moves:
        if move in sent:
            parts = on_devices(waiting.pop(0), parts, placement)
        else:
            parts = move_parts(move, parts, SIZES)
    assert waiting == []
    return mismatch(parts, whole, path.target, SIZES)


@pytest.mark.parametrize("placement", [NESTED, DEEP], ids=["nested", "deep"])
@sampled(25, seed=5, parts=2)
def test_emitted_programs_do_what_moves_mean(placement: Placement, sample: Sample) -> None:
    pairs = list(permutations(shardings(2, tuple(SIZES), [ReductionKind.SUM]), 2))
    for number, pair in enumerate(sample(pairs)):
        path = find_path(MATRIX, *pair, SIZES)
        assert carried_out(path, MATRIX, placement, number) is None, path


@pytest.mark.parametrize("kind", [ReductionKind.MAX, ReductionKind.MIN])
@sampled(8, seed=6, parts=1)
def test_emitted_programs_put_maxima_together_as_sums(kind: ReductionKind, sample: Sample) -> None:
    """What is proved to add each part once takes the maximum of each part."""
    every = permutations(shardings(2, tuple(SIZES), [kind]), 2)
    for number, pair in enumerate(sample([one for one in every if one[0].partial])):
        path = find_path(MATRIX, *pair, SIZES)
        assert carried_out(path, MATRIX, NESTED, number) is None, path


BOTH = ((ReductionKind.SUM, "data"), (ReductionKind.SUM, "model"))
LARGEST = ((ReductionKind.MAX, "data"), (ReductionKind.MAX, "model"))
SINGLE = [
    (Sharding((("model", "data"), ())), replicated_sharding(2), MoveKind.ALL_GATHER),
    (Sharding(((), ("data", "model"))), replicated_sharding(2), MoveKind.ALL_GATHER),
    (Sharding(((), ()), BOTH), Sharding(((), ("model", "data"))), MoveKind.REDUCE_SCATTER),
    (Sharding((("model", "data"), ())), Sharding(((), ("data", "model"))), MoveKind.ALL_TO_ALL),
    (Sharding((("data", "model"), ())), Sharding((("model", "data"), ())), MoveKind.PERMUTE),
    (Sharding(((), ()), BOTH), replicated_sharding(2), MoveKind.ALL_REDUCE),
    (Sharding(((), ()), LARGEST), replicated_sharding(2), MoveKind.ALL_REDUCE),
    (Sharding(((), ()), LARGEST), Sharding(((), ("model", "data"))), MoveKind.REDUCE_SCATTER),
]
"""Redistributions of one request each, over both axes."""

COLLECTIVES = [one for one in SINGLE if one[-1] is not MoveKind.PERMUTE]


@pytest.mark.parametrize("placement", [NESTED, DEEP], ids=["nested", "deep"])
@pytest.mark.parametrize(("source", "target", "how"), SINGLE)
def test_one_request_over_both_axes(
    source: Sharding, target: Sharding, how: MoveKind, placement: Placement
) -> None:
    path = find_path(MATRIX, source, target, SIZES)
    assert [move.how for move in path.requests(SIZES)] == [how]
    assert carried_out(path, MATRIX, placement) is None


def emitted(
    one: Communication, placement: Placement, order: RankOrder, target: str = "torch"
) -> str:
    """The file of a target for a communication."""
    [text] = emit(target, handed(one, placement, EmitOptions(rank_order=order))).values()
    return str(text)


def handed(one: Communication, placement: Placement, options: EmitOptions) -> EmitSource:
    """What is emitted and run for a communication."""
    system = switches(placement.hierarchy)
    assert isinstance(one.request, Request)
    answer = answered(one.request, placement)
    [stripe] = answer.stripes
    part, verdict = stripe.part, stripe.verdict
    assert isinstance(verdict, Proved)
    schedule = lower(part.derivation, answer.candidate.reduction, part.size_bytes, part.segments)
    schedule = replace(schedule, op=one.kind)
    return EmitSource(schedule, system, stripe.prices, verdict, options)


@pytest.mark.parametrize("target", ["json", "trace"])
def test_documents_and_timelines_are_made_of_every_request(target: str) -> None:
    for source, target_, _ in COLLECTIVES:
        path = find_path(MATRIX, source, target_, SIZES)
        [one] = list_communications(path, MATRIX, NESTED)
        said = json.loads(emitted(one, NESTED, RankOrder.MACHINE, target))
        assert isinstance(one.request, Request)
        if target == "json":
            assert said.get("request", "all-reduce") == one.request.goal.value
            assert said.get("op", "sum") == one.kind.value


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "mpi"])
def test_every_request_runs_and_is_equal_to_the_runtime_s_own(backend: str) -> None:
    """PyTorch's are run below, as parts of redistributions."""
    sizes = {"data": 2, "model": 2}
    axes = tuple(Axis(*axis) for axis in sizes.items())
    placement = Placement(Hierarchy.of(node=2, gpu=2), axes, ((2, 1), (1, 2)))
    if find_spec(BACKENDS[backend].needs[0]) is None:
        pytest.skip(f"needs the extra {backend}")
    for source, target, _ in COLLECTIVES:
        path = find_path(MATRIX, source, target, sizes)
        [one] = list_communications(path, MATRIX, placement)
        given, trial = (
            handed(one, placement, EmitOptions()),
            TrialRequest(4 * 144, "float32", 1, check=True),
        )
        assert run(backend, given, trial).equal, one.move


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
@pytest.mark.parametrize("order", [RankOrder.MACHINE, RankOrder.AXES])
def test_emitted_files_redistribute_in_real_processes(
    order: RankOrder, tmp_path: pathlib.Path
) -> None:
    """Eight ranks of gloo, by machine or by axes: each holds in the end what its type says."""
    sizes, draw, cases = {"data": 4, "model": 2}, np.random.default_rng(6), []
    axes = tuple(Axis(*axis) for axis in sizes.items())
    placement = Placement(Hierarchy.of(node=2, gpu=4), axes, ((2, 2), (1, 2)))
    value, whole = Type("f32", (16, 24)), np.arange(-200.0, 184.0, dtype=np.float32).reshape(16, 24)
    devices = mesh(placement, order).devices.tolist()
    where = [device_coordinates(placement, device) for device in devices]
    for number, (source, target, how) in enumerate(COLLECTIVES):
        path = find_path(value, source, target, sizes)
        [one] = list_communications(path, value, placement, order)
        before = cut(whole, source, sizes, draw)
        after = move_parts(one.move, before, sizes)
        assert mismatch(after, whole, target, sizes) is None
        np.save(tmp_path / f"before{number}.npy", np.stack([before[at] for at in where]))
        np.save(tmp_path / f"after{number}.npy", np.stack([after[at] for at in where]))
        (tmp_path / f"emitted{number}.py").write_text(emitted(one, placement, order))
        around = {
            name: [part.shape, part.order, part.result]
            for name, part in (("given", one.given), ("got", one.got))
        }
        call = how.value.replace("-", "_")
        cases.append({"file": f"emitted{number}.py", "call": call, "move": str(one.move), **around})
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    words = (str(FLEET / "forked.py"), "8", str(FLEET / "torch_redistribution.py"), str(tmp_path))
    command = Command("the ranks", (*torch_python(), *words), {"OMP_NUM_THREADS": "1"})
    assert json.loads(supervise([command], tmp_path, 600)) == {"done": len(COLLECTIVES)}


def test_payloads_are_what_the_request_counts() -> None:
    """The largest buffer of a device, as ``Goal`` says."""
    partial = Sharding(((), ()), ((ReductionKind.SUM, "data"),))
    cut_by_data = Sharding((("data",), ()))
    whole = MATRIX.bytes

    def asked(source: Sharding, target: Sharding) -> tuple[str, tuple[str, ...], int]:
        [one] = list_communications(find_path(MATRIX, source, target, only), MATRIX, alone)
        assert isinstance(one.request, Request)
        return one.request.goal.value, one.request.over, one.request.payload_bytes

    only = {"data": 4}
    alone = Placement(Hierarchy.of(gpu=4), (Axis("data", 4),), ((4,),))
    assert asked(partial, replicated_sharding(2)) == ("all-reduce", ("data",), whole)
    assert asked(partial, cut_by_data) == ("reduce-scatter", ("data",), whole)
    assert asked(cut_by_data, replicated_sharding(2)) == ("all-gather", ("data",), whole)
    moved = Sharding(((), ("data",)))
    assert asked(cut_by_data, moved) == ("all-to-all", ("data",), whole // 4)


def test_reductions_name_their_operator() -> None:
    partial = Sharding(((), ()), ((ReductionKind.MAX, "data"),))
    path = find_path(MATRIX, partial, Sharding((("data",), ())), {"data": 4})
    [one] = list_communications(path, MATRIX, NESTED)
    assert one.kind is ReductionKind.MAX
    assert one.move.how is MoveKind.REDUCE_SCATTER


def test_gathering_the_major_dimension_needs_no_rearrangement() -> None:
    path = find_path(MATRIX, Sharding((("data",), ())), replicated_sharding(2), SIZES)
    assert [one.got.free for one in list_communications(path, MATRIX, NESTED)] == [True]
    path = find_path(MATRIX, Sharding(((), ("data",))), replicated_sharding(2), SIZES)
    assert [one.got.free for one in list_communications(path, MATRIX, NESTED)] == [False]


def test_pieces_are_in_the_order_of_ranks() -> None:
    """Ranks that count axes have data's factor of the nodes, data's of the GPUs, then model's."""
    path = find_path(MATRIX, Sharding((("model", "data"), ())), replicated_sharding(2), SIZES)
    for order in (RankOrder.MACHINE, RankOrder.AXES):
        [one] = list_communications(path, MATRIX, NESTED, order)
        named = [f"{part.size}" for part in mesh(NESTED, order).axes]
        assert [str(size) for size in one.got.shape[:3]] == named
    assert one.got.shape[:3] == (2, 2, 3)
    assert one.got.order[:3] == (2, 0, 1)


@pytest.mark.parametrize("placement", [NESTED, DEEP], ids=["nested", "deep"])
def test_coordinates_are_those_of_the_matrix(placement: Placement) -> None:
    found = coordinates(placement)
    for device in range(placement.hierarchy.devices):
        at = tuple(int(found[axis.name][device]) for axis in placement.axes)
        assert at == device_coordinates(placement, device)


def test_a_stage_sends_to_the_next() -> None:
    found = stage_transfer(DEEP, "model", 0, 1, 1024)
    assert found.what is TransferKind.SEND_RECEIVE
    assert found.pairs.tolist() == [[0, 2], [1, 3], [6, 8], [7, 9]]
    assert stage_transfer(DEEP, "model", 1, 1, 1024).pairs.tolist() == []


@pytest.mark.parametrize(
    ("axis", "target", "says"), [("pipe", 1, "no axis 'pipe'"), ("model", 3, "no coordinate 3")]
)
def test_a_stage_that_is_not_there_is_refused(axis: str, target: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        stage_transfer(DEEP, axis, 0, target, 1024)
