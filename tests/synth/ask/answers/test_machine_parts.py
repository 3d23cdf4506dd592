"""A machine in an answer states the numbers of its file, and is read again as the same machine."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from pydantic import ValidationError

import hierarchies
from each import each
from hierarchies import (
    Machine,
    System,
    UndeterminedLevels,
    catalogue,
    describe_system,
    load,
    parse_fault,
    read,
)
from hierarchies.calibration import MeasuredRange, Residual, TableResidual
from hierarchies.files.schema import EARLIER
from machines import bare, calibration
from strategies import smart_systems
from synth.ask.answers.machine_parts import MachineInFull
from synth.ask.answers.parts import Json, to_json
from synth.measure.calibration.typical import apply_typical
from synth.show.terminal.style import slow_kind_text

FOLDER = Path(hierarchies.__file__).parent / "catalogue"
NUMBERS = ("bandwidth_GB_per_s", "latency_us", "ll_latency_us", "ll128_latency_us", "ports")


def answer_of(system: System) -> Json:
    return to_json(MachineInFull.of(system))


@each("name", catalogue())
def test_an_answer_states_the_numbers_of_the_file(name: str) -> None:
    file = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    answer = answer_of(load(name))
    assert answer["device"]["memory_GB_per_s"] == file["device"]["memory_GB_per_s"]
    for level, table in zip(answer["levels"], file["level"], strict=True):
        usual = {"ports": 1}
        assert [level[key] for key in NUMBERS] == [
            table.get(key, usual.get(key)) for key in NUMBERS
        ]


def expected(system: System) -> System:
    """The machine without what an answer lacks: the device's name, and whether sources are none."""
    links = tuple(replace(link, sources=link.sources or {}) for link in system.links)
    return replace(system, device="", links=links)


def read_again(answer: Json) -> System:
    return Machine.model_validate(answer, context=EARLIER).system()


@given(smart_systems(most_devices=8))
def test_a_machine_of_an_answer_is_read_as_the_same(drawn: System) -> None:
    system = read(describe_system(drawn))
    assert read_again(answer_of(system)) == expected(system)


def test_faults_and_measurements_of_an_answer_are_read_as_the_same() -> None:
    system = bare()
    names = system.hierarchy.names
    known = replace(
        calibration(),
        sources=("a log",),
        families=2,
        measured=(MeasuredRange("all-reduce", (2, 4), (("ring", "simple"),), 8, 1024, True),),
        strays=(TableResidual(0, 3, 0.8, 1.3, "all-to-all"),),
        machines=(Residual(0, 3, 0.5, 1.0, 2.0),),
        undetermined_levels=(UndeterminedLevels(names, names[0]),),
    )
    faults = [
        parse_fault(f"{names[0]}0/{names[1]}1", system.hierarchy, source="a probe"),
        parse_fault(f"{names[0]}1", system.hierarchy, 0.5),
    ]
    measured = replace(system, calibration=known).with_faults(faults)
    assert read_again(answer_of(measured)) == expected(measured)


def test_only_an_earlier_answer_may_have_more_keys() -> None:
    answer = answer_of(bare())
    answer["levels"][0]["colour"] = "red"
    assert read_again(answer) == expected(bare())
    with pytest.raises(ValidationError):
        MachineInFull.model_validate(answer)


def test_an_answer_says_how_many_machines_with_such_links_are_slow() -> None:
    """Only of typical prices, and of media with machines of two kinds."""
    stated = load("mi355x:2")
    [kind] = MachineInFull.of(apply_typical(stated)).slow_kinds
    assert (kind.level, kind.medium) == ("node", "roce")
    assert 0 < kind.slow < kind.machines
    low, high = kind.slow_share
    assert low <= high < kind.share
    text = slow_kind_text(kind)
    assert f"{kind.slow} of {kind.machines} measured RoCE machines reached only {low:.2f}" in text
    assert "collsynth doctor" in text
    for other in (stated, apply_typical(load("dgx-h100:2")), bare()):
        assert not MachineInFull.of(other).slow_kinds
        assert "slow_kinds" not in answer_of(other)
