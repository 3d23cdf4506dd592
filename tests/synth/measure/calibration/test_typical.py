from __future__ import annotations

from dataclasses import replace

import pytest

from grammar import Collective, Goal
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    Level,
    Link,
    Reduction,
    System,
    catalogue,
    load,
    placements,
    read,
)
from hierarchies.fabric import roles_of
from hierarchies.files.writing import describe_system
from machines import calibrated, predict
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.price.bound import bound
from synth.collective.price.intervals import OF_A_SHEET
from synth.collective.price.resolution import OTHERS_LINKS, OTHERS_MESSAGES, estimate_price
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.typical import apply_typical, load_typical
from synth.measure.doctor import diagnose
from synth.measure.logs.matching import MatchedLog
from synth.measure.logs.tables import CheckedLog, Table

MIB = 2**20
SIZES = tuple(2**power for power in range(10, 31))


def machine(medium: str, domain: Domain = Domain.SWITCH, rate: float = 25e9) -> System:
    between = Link(domain, rate, 14e-6, medium=medium)
    return System("m", "", Hierarchy((Level("node", 4),)), (between,), 2e12)


def run(system: System, factor: float = 1.0, busy: float = 1.0) -> Measurement:
    """A ring all-reduce as priced, or so many times as long; its links busy for so much longer."""
    count = system.hierarchy.cardinalities
    asked = Measurement(
        "all-reduce", count, count, tuple(Sample(size, 1.0) for size in SIZES), source="made up"
    )
    rows = predict(system, asked)
    samples = tuple(
        Sample(size, factor * (one.price.latency_seconds + busy * _streaming(one.price)))
        for size, one in zip(SIZES, rows, strict=True)
    )
    return replace(asked, samples=samples)


def _streaming(price) -> float:  # type: ignore[no-untyped-def]
    return float(price.seconds - price.latency_seconds)


def short(system: System, measurement: Measurement) -> bool:
    log = CheckedLog(Table("made up", "all-reduce"), "all-reduce", None, 1, None, ())
    [found] = diagnose(system, [MatchedLog(log, measurement)]).runs
    return found.short


def test_machines_of_the_catalogue_follow_their_links_and_those_of_the_paper_their_numbers() -> (
    None
):
    stated = {name for name in catalogue() if apply_typical(load(name)).prices == "stated"}
    assert {name.partition("-")[0] for name in stated} == {"p2", "tpu", "aws"}
    assert {name for name in stated if name.startswith("aws")} == {
        "aws-trn2",
        "aws-trn2-ultraserver",
    }


def test_what_was_measured_here_is_not_replaced() -> None:
    system = calibrated()
    assert apply_typical(system) is system
    assert system.prices == "calibrated"


def test_without_a_known_medium_links_keep_their_numbers() -> None:
    assert apply_typical(machine("")).calibration is None
    mixed = replace(
        load("dgx-h100:2"),
        links=tuple(
            replace(link, medium=m)
            for link, m in zip(load("dgx-h100:2").links, ("", "nvlink"), strict=True)
        ),
    )
    found = apply_typical(mixed).calibration
    assert found is not None
    assert found.fits[0].levels[0].share == 1.0
    assert found.fits[0].levels[0].hop_seconds == mixed.links[0].latency_seconds
    assert found.fits[0].levels[1].share < 1.0


@pytest.mark.parametrize(
    "name", ["dgx-h100:4", "aws-p4d:2", "gb200-nvl72:2", "l40s-pcie:2", "mi300x:2"]
)
def test_the_bound_stays_the_description_s_and_no_price_is_below_it(name: str) -> None:
    stated = load(name)
    system = apply_typical(stated)
    axes = (Axis("data", system.devices),)
    [placement] = placements(system.hierarchy, axes)
    reduction = Reduction(placement, ("data",))
    for goal in Goal:
        for size in (1024, 2**20, 2**30):
            least = bound(system, reduction, size, goal)
            assert least == bound(stated, reduction, size, goal)
            roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
            lines = Simulator(system).lines(Collective(goal.value), roles)
            assert min(line.seconds(size) for line in lines) >= least.seconds


def test_switches_of_blackwell_reduce_at_less_of_their_links() -> None:
    """NCCL's figures are 0.85 for Hopper and 0.74 for Blackwell; rings have none."""

    def share(name: str, way: str) -> float:
        found = apply_typical(load(name)).calibration
        assert found is not None
        return next(fit.levels[1].share for fit in found.fits if fit.algorithm == way)

    assert share("dgx-b200", "in-network") / share("dgx-h100", "in-network") == pytest.approx(
        0.74 / 0.85
    )
    assert share("dgx-b200", "ring") == share("dgx-h100", "ring")


def test_of_tcp_fast_links_reach_a_smaller_share() -> None:
    def share(rate: float) -> float:
        found = apply_typical(machine("tcp", rate=rate)).calibration
        assert found is not None
        return found.fits[0].levels[0].share

    assert share(1e9) > 2 * share(25e9)
    assert share(1e9) * 1e9 < share(25e9) * 25e9


def test_pcie_is_one_medium_where_it_is_described_so() -> None:
    found = [
        apply_typical(machine("pcie", domain)).calibration for domain in (Domain.BUS, Domain.SWITCH)
    ]
    shares = [one.fits[0].levels[0].share for one in found if one]
    assert shares[0] > shares[1]


def test_intervals_are_those_of_the_outermost_medium() -> None:
    system = apply_typical(load("dgx-h100:2"))
    spread = {one.from_bytes: one for one in load_typical().spread if one.medium == "infiniband"}
    assert system.calibration is not None
    for residual in system.calibration.residuals:
        same = spread[residual.smallest_bytes]
        assert (residual.low, residual.high) == (same.low, same.high)
        assert residual.low <= 1 <= residual.high
    count = system.hierarchy.cardinalities
    asked = Measurement("all-reduce", count, count, (Sample(2**30, 1.0),))
    [first] = predict(system, asked)
    assert first.interval is not None
    assert first.interval.among_machines


def told(system: System, step: InstructionPrice, other: InstructionPrice, times: float) -> bool:
    """Whether a step is told from another one that takes so many times as long."""
    least, most = (
        estimate_price(system, round(1e9 * n), [one]) for n, one in ((1, step), (times, other))
    )
    return least.surely_below(most)


def test_errors_of_one_level_cancel_but_for_some_and_those_of_two_do_not() -> None:
    """Intervals overlap by far; by the same links, whichever way, more bytes are more anyway."""
    system = apply_typical(load("dgx-h100:2"))
    asked = Measurement("all-reduce", (2, 1), (2, 1), (Sample(2**30, 1.0),), "ring", "simple")
    [over_nodes] = (one.price for one in predict(system, asked))
    [inside] = (one.price for one in predict(system, replace(asked, members=(1, 8), busy=(1, 8))))
    tree = replace(over_nodes, algorithm=Algorithm.TREE)
    assert (over_nodes.limited_by, inside.limited_by) == ("node", "gpu")
    waits = over_nodes.latency_seconds / over_nodes.seconds
    least = 1 + OTHERS_MESSAGES * waits + OTHERS_LINKS * (1 - waits)
    for other in (over_nodes, tree):
        assert not told(system, over_nodes, other, least - 0.01)
        assert told(system, over_nodes, other, least + 0.01)
    assert not told(system, over_nodes, inside, least + 0.01)
    assert told(system, over_nodes, inside, 100.0)


@pytest.mark.parametrize("name", ["aws-trn2:2", "tpu-v5e-slice:4x4", "p2-a100:2", "dgx-h100:2"])
def test_a_data_sheet_is_no_more_precise_than_measured_media(name: str) -> None:
    """The same links tell as much; two levels' links are off apart, as far as any media's are."""
    system = load(name)
    assert system.prices == "stated"
    every = system.hierarchy.cardinalities
    first = (every[0], *(1 for _ in every[1:]))
    last = (*(1 for _ in every[1:]), every[-1])
    outside, inside = (
        predict(system, Measurement("all-reduce", some, some, (Sample(2**30, 1.0),), "ring"))[0]
        for some in (first, last)
    )
    waits = outside.price.latency_seconds / outside.price.seconds
    least = 1 + OTHERS_MESSAGES * waits + OTHERS_LINKS * (1 - waits)
    assert not told(system, outside.price, outside.price, least - 0.01)
    assert told(system, outside.price, outside.price, least + 0.01)
    assert not told(system, outside.price, inside.price, least + 0.01)
    assert told(system, outside.price, inside.price, 100.0)


def test_data_sheets_err_as_far_as_any_medium_that_was_measured() -> None:
    low, high = OF_A_SHEET
    assert low == 1.0
    shares = [min(1.0, one.share) for one in load_typical().medium]
    assert low == 1 / max(shares)
    assert all(1 / share <= high * 1.001 for share in shares)


def test_it_is_written_and_read_with_its_medium_and_its_families() -> None:
    system = apply_typical(load("dgx-h100:2"))
    again = read(describe_system(system))
    assert again.links == system.links
    assert again.calibration is not None
    assert again.prices == "typical"
    assert again.calibration.families == load_typical().families


@pytest.mark.parametrize("name", ["dgx-h100:4", "dgx-a100:2", "gb200-nvl72:1", "azure-ndv4:2"])
def test_doctor_expects_what_such_links_reach_and_finds_a_link_at_a_third(name: str) -> None:
    """A tenth more is nothing; three times as long on the wire no such link took."""
    system = apply_typical(load(name))
    assert not short(system, run(system))
    assert not short(system, run(system, 1.1))
    assert short(system, run(system, 1.0, 3.0))
