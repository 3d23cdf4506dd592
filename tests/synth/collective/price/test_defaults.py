from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective, Goal
from hierarchies import Axis, Placement, Reduction, System, load, placements
from hierarchies.fabric import roles_of
from results.bounds import optimum
from strategies import reductions, smart_systems
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.bound import bound
from synth.collective.price.defaults import RuntimeDefaults, defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import TICKS_PER_SECOND

GB = 1e9
ALGORITHMS = {
    "ring": Algorithm.RING,
    "tree": Algorithm.TREE,
    "nvls": Algorithm.IN_NETWORK,
    "nvls_tree": Algorithm.IN_NETWORK,
    "direct": Algorithm.DIRECT,
}


def whole(system: System) -> Reduction:
    [placement] = placements(system.hierarchy, (Axis("data", system.devices),))
    return Reduction(placement, ("data",))


def all_of(name: str, payload_bytes: float = GB, goal: Goal = Goal.ALL_REDUCE) -> RuntimeDefaults:
    system = load(name)
    return defaults(Simulator(system), whole(system), payload_bytes, goal)


CASES = (smart_systems(32), st.data(), st.sampled_from(Goal), st.floats(1, 1e11))


@given(*CASES)
@examples(25, 200)
def test_none_is_below_the_bound(
    system: System, data: st.DataObject, goal: Goal, payload: float
) -> None:
    reduction = data.draw(reductions(system.hierarchy))
    least = bound(system, reduction, payload, goal).seconds
    for seconds in defaults(Simulator(system), reduction, payload, goal).seconds.values():
        assert seconds >= least * (1 - 1e-9)


@given(*CASES)
@examples(25, 200)
def test_the_plain_step_of_a_program_is_never_dearer(
    system: System, data: st.DataObject, goal: Goal, payload: float
) -> None:
    """Same engine, same algorithms and protocols: whatever the runtime chooses, so can a step."""
    reduction = data.draw(reductions(system.hierarchy))
    assume(reduction.tree.digits)
    free = tuple(range(len(reduction.tree.digits)))
    simulator, collective = Simulator(system), Collective(goal.value)
    roles = roles_of(reduction, free, ())
    step = simulator.exchange(collective, roles, payload)
    found = defaults(simulator, reduction, payload, goal)
    lines = simulator.lines(collective, roles)
    assert found.chosen in found.options
    xla = found.options.get("xla", ())
    assert [price.what for price in xla] in ([], *_in_all_dimensions(goal))
    for name, (price,) in ((n, p) for n, p in found.options.items() if n != "xla"):
        assert price.algorithm is ALGORITHMS[name]
        assert step.seconds <= price.seconds
        assert found.seconds[name] == price.ticks / TICKS_PER_SECOND
        known = {(line.algorithm, line.protocol): line for line in lines}
        assert known[price.algorithm, price.protocol].seconds(payload) == price.seconds
        assert price.what == goal.value


def _in_all_dimensions(goal: Goal) -> list[list[str]]:
    """The phases of XLA's own way, over two dimensions of a torus and over more."""
    stages = {
        Goal.ALL_REDUCE: ["reduce-scatter", "all-gather"],
        Goal.REDUCE_SCATTER: ["reduce-scatter"],
        Goal.ALL_GATHER: ["all-gather"],
        Goal.ALL_TO_ALL: ["all-to-all"],
    }.get(goal, [])
    return [[what for what in stages for _ in range(many)] for many in (2, 3, 4) if stages]


@given(*CASES)
@settings(max_examples=100, deadline=None)
def test_the_algorithms_of_programs_leave_the_default_alone(
    system: System, data: st.DataObject, goal: Goal, payload: float
) -> None:
    """``--algorithm`` is about steps of programs: the runtime chooses as ever."""
    reduction = data.draw(reductions(system.hierarchy))
    free = defaults(Simulator(system), reduction, payload, goal)
    for choice in Choice:
        assert defaults(Simulator(system, choice), reduction, payload, goal) == free


def test_rings_in_all_dimensions_share_the_memory() -> None:
    """Two dimensions at once, by memory that is slower than both: it is never busy for longer."""
    system = replace(load("tpu-v5e-slice:4x4"), memory_bytes_per_second=GB)
    for goal in (Goal.ALL_REDUCE, Goal.ALL_GATHER, Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL):
        for price in defaults(Simulator(system), whole(system), GB, goal).options["xla"]:
            assert dict(price.busy_seconds)["memory"] <= price.seconds
            assert price.busiest == "memory"


@pytest.mark.parametrize(
    "name", ["tpu-v4-pod-slice:1", "tpu-v4-pod-slice:4", "tpu-v5e-slice:2", "tpu-v5e-slice"]
)
def test_an_all_to_all_on_a_torus_is_what_its_middle_lets_through(name: str) -> None:
    """Half of what half of a line or ring of k has goes across its middle, over one link or two:
    k/4 buffers, or k/8; not once around all devices.
    """
    system = load(name)
    least = max(
        children / 4 * GB / link.bandwidth_bytes_per_second / (2 if link.wraps else 1)
        for children, link in zip(system.hierarchy.cardinalities, system.links, strict=True)
        if children > 1
    )
    found = defaults(Simulator(system), whole(system), GB, Goal.ALL_TO_ALL)
    assert found.chosen == "xla"
    assert least <= found.seconds["xla"] * (1 + 1e-9) < 1.01 * least
    if optimum.applies(system) and system.devices <= 64:
        assert least == pytest.approx(optimum.least_seconds(system, Goal.ALL_TO_ALL, GB))


def test_a_flat_ring_on_all_rails() -> None:
    """4.8 ms a GB for 32 GPUs: 2 (31/32) buffers through eight NICs of 50 GB/s, and the waits."""
    [ring] = all_of("dgx-h100:4").options["ring"]
    assert ring.seconds - ring.latency_seconds == pytest.approx(2 * 31 / 32 / 400)
    assert ring.latency_seconds == pytest.approx(
        8.4e-6 + 2 * (28 * 3.4e-6 + 4 * 14e-6) - 2 * 3.4e-6
    )
    assert ring.protocol is Protocol.SIMPLE


def test_inside_a_node_and_over_two() -> None:
    """An NVSwitch moves 9/8 buffers where a ring moves 14/8; the trees across two nodes one."""
    one, two = all_of("dgx-h100:1").options, all_of("dgx-h100:2").options
    assert one["nvls"][0].seconds == pytest.approx(9 / 8 / 450 + 3 * 3.4e-6 + 8.4e-6)
    assert one["ring"][0].seconds == pytest.approx(14 / 8 / 450 + 14 * 3.4e-6 + 8.4e-6)
    assert two["nvls_tree"][0].seconds == pytest.approx(1 / 400 + 3 * 3.4e-6 + 2 * 14e-6 + 8.4e-6)


@pytest.mark.parametrize(
    ("name", "placement", "goal", "names"),
    [
        ("dgx-h100:4", ((4, 8),), Goal.ALL_REDUCE, ["ring", "tree", "nvls_tree"]),
        ("dgx-h100:4", ((1, 8), (4, 1)), Goal.ALL_REDUCE, ["ring", "tree", "nvls"]),
        ("dgx-h100:4", ((4, 1), (1, 8)), Goal.ALL_REDUCE, ["ring", "tree"]),
        ("dgx-h100:4", ((4, 2), (1, 4)), Goal.ALL_REDUCE, ["ring", "tree"]),
        ("dgx-h100:4", ((2, 4), (2, 2)), Goal.ALL_REDUCE, ["ring", "tree", "nvls_tree"]),
        ("dgx-h100:4", ((1, 2), (4, 4)), Goal.ALL_GATHER, ["ring"]),
        ("dgx-h100:4", ((1, 8), (4, 1)), Goal.ALL_GATHER, ["ring", "nvls"]),
        ("dgx-h100:4", ((1, 8), (4, 1)), Goal.REDUCE_SCATTER, ["ring", "nvls"]),
        ("dgx-h100:4", ((4, 8),), Goal.ALL_GATHER, ["ring"]),
        ("dgx-h100:4", ((1, 8), (4, 1)), Goal.BROADCAST, ["ring"]),
        ("dgx-h100:4", ((4, 8),), Goal.REDUCE, ["ring"]),
        ("dgx-h100:4", ((4, 8),), Goal.ALL_TO_ALL, ["direct"]),
        ("dgx-a100:4", ((4, 8),), Goal.ALL_REDUCE, ["ring", "tree"]),
        ("dgx-a100:4", ((1, 8), (4, 1)), Goal.ALL_GATHER, ["ring"]),
        ("tpu-v4-pod-slice", ((4, 4, 4),), Goal.ALL_TO_ALL, ["ring", "xla"]),
        ("tpu-v4-pod-slice", ((4, 1, 1), (1, 4, 4)), Goal.ALL_TO_ALL, ["direct"]),
    ],
)
def test_which_there_are(
    name: str, placement: tuple[tuple[int, ...], ...], goal: Goal, names: list[str]
) -> None:
    """NVLS inside one NVSwitch, NVLS-tree over several nodes; what NCCL has for each collective."""
    system = load(name)
    axes = tuple(
        Axis(label, int(size))
        for label, size in zip(("data", "model"), map(product, placement), strict=False)
    )
    reduction = Reduction(Placement(system.hierarchy, axes, placement), ("data",))
    assert list(defaults(Simulator(system), reduction, GB, goal).options) == names


def test_two_gpus_of_a_node_have_no_nvls_before_later_versions_of_nccl() -> None:
    """Neither in the default nor in a step of a program; forced by name it has its price."""
    system = load("dgx-h100:4")
    axes = (Axis("data", 8), Axis("model", 4))
    pairs = Reduction(Placement(system.hierarchy, axes, ((4, 2), (1, 4))), ("data",))
    found = defaults(Simulator(system), pairs, GB)
    assert found.later
    assert (found.chosen, found.later.chosen) == ("ring", "nvls_tree")
    assert found.later.options["ring"] == found.options["ring"]
    four = Reduction(Placement(system.hierarchy, axes, ((2, 4), (2, 2))), ("data",))
    assert defaults(Simulator(system), four, GB).later is None
    for reduction, has in ((pairs, False), (four, True)):
        whole_group = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
        lines = Simulator(system).lines(Collective.ALL_REDUCE, whole_group)
        assert any(line.algorithm is Algorithm.IN_NETWORK for line in lines) == has
        linked = Simulator(system, Choice.IN_NETWORK).lines(Collective.ALL_REDUCE, whole_group)
        assert {line.algorithm for line in linked} == {Algorithm.IN_NETWORK}


def product(row: tuple[int, ...]) -> int:
    found = 1
    for factor in row:
        found *= factor
    return found


def test_a_network_that_reduces_too_is_no_tree() -> None:
    """SHARP in the leaves and NVLS in the nodes: NCCL's NVLS over several nodes."""
    system = load("dgx-h100:4")
    links = tuple(replace(link, reduces=True) for link in system.links)
    smart = replace(system, links=links)
    assert "nvls" in defaults(Simulator(smart), whole(smart), GB).options


@pytest.mark.parametrize(
    ("name", "payload_bytes", "goal", "chosen", "protocol"),
    [
        ("dgx-h100:4", 8, Goal.ALL_REDUCE, "tree", Protocol.LL),
        ("dgx-h100:4", 2**20, Goal.ALL_REDUCE, "tree", Protocol.LL128),
        ("dgx-h100:4", GB, Goal.ALL_REDUCE, "nvls_tree", Protocol.SIMPLE),
        ("dgx-h100:1", 8, Goal.ALL_REDUCE, "ring", Protocol.LL),
        ("dgx-h100:1", GB, Goal.ALL_REDUCE, "nvls", Protocol.SIMPLE),
        ("dgx-h100:1", GB, Goal.ALL_GATHER, "ring", Protocol.SIMPLE),
        ("dgx-a100:4", 2**20, Goal.ALL_REDUCE, "tree", Protocol.LL128),
        ("dgx-a100:4", GB, Goal.ALL_REDUCE, "ring", Protocol.SIMPLE),
        ("l40s-pcie:1", 2**20, Goal.ALL_REDUCE, "ring", Protocol.LL),
        ("dgx-h100:4", 2**19, Goal.ALL_TO_ALL, "direct", Protocol.LL),
        ("dgx-h100:4", 2**20, Goal.ALL_TO_ALL, "direct", Protocol.SIMPLE),
        ("mi300x:2", 8, Goal.ALL_REDUCE, "tree", Protocol.SIMPLE),
    ],
)
def test_what_is_chosen(
    name: str, payload_bytes: float, goal: Goal, chosen: str, protocol: Protocol
) -> None:
    """Small: trees by LL; larger: LL128; large: the NVSwitch, and rings where there is none."""
    found = all_of(name, payload_bytes, goal)
    assert (found.chosen, found.protocol) == (chosen, protocol)
    assert found.baseline == found.options[chosen]


def test_trees_are_chosen_on_two_nodes_with_few_nics_and_rings_with_many() -> None:
    """One NIC of 25 GB/s for eight H100, or eight of 50."""
    system = load("dgx-h100:2")
    nics, inside = system.links[0], replace(system.links[1], reduces=False)
    for ports, rate, chosen in ((1, 25e9, "tree"), (nics.ports, 50e9, "ring")):
        link = replace(nics, ports=ports, bandwidth_bytes_per_second=rate)
        one = replace(system, links=(link, inside))
        found = defaults(Simulator(one), whole(one), GB / 4)
        assert found.chosen == chosen


def test_nothing_to_do() -> None:
    for goal in Goal:
        system = load("dgx-h100:1")
        axes = (Axis("data", 1), Axis("model", 8))
        [placement] = placements(system.hierarchy, axes)
        found = defaults(Simulator(system), Reduction(placement, ("data",)), GB, goal)
        assert (found.options, found.chosen, found.baseline) == ({"ring": ()}, "ring", ())
        assert found.seconds == {"ring": 0.0}
        assert found.protocol is Protocol.SIMPLE
