"""The machine as a mesh: groups told by mesh axes are the groups of the schedule, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Axis, Hierarchy, Level, Placement, Reduction
from strategies import placed, reductions, source, valid_programs
from synth.collective.emit.buffers import follow_buffers
from synth.collective.emit.mesh import MeshGroups, RankOrder, expand_groups, find_mesh_axes, mesh
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.schedule import Exchange

ORDERS = st.sampled_from([RankOrder.MACHINE, RankOrder.AXES])


@given(placed(), ORDERS)
def test_a_mesh_names_every_device_once(placement: Placement, order: RankOrder) -> None:
    made = mesh(placement, order)
    assert sorted(made.devices.tolist()) == list(range(placement.hierarchy.devices))
    assert len(set(made.named(tuple(range(len(made.axes)))))) == len(made.axes)
    assert (made.ranks(made.devices) == np.arange(len(made.devices))).all()


@given(placed())
def test_machine_order_is_the_numbering_of_devices(placement: Placement) -> None:
    devices = mesh(placement, RankOrder.MACHINE).devices
    assert (devices == np.arange(len(devices))).all()


def test_axes_order_counts_the_last_axis_fastest() -> None:
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    axes = (Axis("data", 4), Axis("model", 2))
    made = mesh(Placement(hierarchy, axes, ((2, 2), (1, 2))), RankOrder.AXES)
    assert made.devices.reshape(4, 2).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    other = mesh(Placement(hierarchy, axes, ((1, 4), (2, 1))), RankOrder.AXES)
    assert other.devices.reshape(4, 2).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


@given(st.data(), reductions(), ORDERS)
def test_every_group_of_every_schedule_reads_on_the_mesh(
    data: st.DataObject, reduction: Reduction, order: RankOrder
) -> None:
    if len(reduction.tree.digits) > 3:
        return
    derivation = derive(data.draw(valid_programs(reduction.tree)), reduction.tree)
    assert isinstance(derivation, Derivation)
    made = mesh(reduction.placement, order)
    for phase in lower(derivation, reduction, 720).phases:
        if isinstance(phase, Exchange):
            found = find_mesh_axes(phase.groups, made)
            assert found is not None
            groups = {tuple(group) for group in expand_groups(found, made).tolist()}
            assert groups == {tuple(group) for group in phase.groups.tolist()}


def test_groups_that_are_no_product_of_mesh_axes_do_not_read() -> None:
    made = mesh(Reduction.plain(2, 4).placement)
    assert find_mesh_axes(np.array([[0, 1], [2, 3], [4, 5], [6, 7]]), made) is None
    assert find_mesh_axes(np.array([[1, 0, 2, 3], [4, 5, 6, 7]]), made) is None
    assert find_mesh_axes(np.array([[0, 4]]), made) == MeshGroups((0,), (1,))


@pytest.mark.parametrize(
    ("program", "held"),
    [
        ("reduce root inside; broadcast root inside", [[1] * 4, [1, 0, 0, 0], [1] * 4]),
        ("reduce-scatter root inside; all-gather root inside", [[1] * 4, [4] * 4, [1] * 4]),
    ],
)
def test_buffers_follow_sizes(program: str, held: list[list[int]]) -> None:
    assert follow_buffers(source(program, Reduction.plain(2, 2)).schedule).parts.tolist() == held
