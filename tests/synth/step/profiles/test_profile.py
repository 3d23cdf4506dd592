"""Profiles: what is kept, what is refused, what is offered instead, and who dies on the way."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.tensors.sharding import Type
from hierarchies import InputError
from hierarchies.devices import Device, device_named
from synth.collective.run.trial import RunError
from synth.step.profiles import (
    MeasuredEvent,
    Profile,
    ProfileEvent,
    ProfileTrial,
    check_dtype,
    check_machine,
    drift_of,
    measure_events,
    profile_text,
    read_profile,
    trial,
)
from synth.step.profiles.measuring import Bench, Work
from synth.step.profiles.profile import FORMAT, LEAST_VERSIONS, ProfileConditions

PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"

TEXT = """
def device_step(values):
    {body}
"""


def event(key: str = "a", body: str = "return (values[0] + 1,)", flops: int = 8) -> ProfileEvent:
    return ProfileEvent(
        key, f"add {key}", TEXT.format(body=body), (Type("f32", (4,)),), 1, flops, 64
    )


def row(key: str, operations: int, flops: int, size: int) -> MeasuredEvent:
    seconds = 1e-6 * operations + 1e-9 * flops + 1e-10 * size
    return MeasuredEvent(key, f"add {key}", operations, flops, size, seconds, 0.02, 15)


ROWS = tuple(row(f"k{n}", n, 1000 * n * n, 10**5 * (7 - n)) for n in range(1, 7))


def kept(**changed: object) -> Profile:
    here = ProfileConditions("EPYC 7763", 8, "cpu", "jax", {"jax": "0.10.2"}, 1, 2)
    whole = Profile(FORMAT, "mlp", "data=2", "f32", "2026-11-23", here, 1e-3, 0.01, ROWS)
    return replace(whole, **changed)


def test_it_is_read_as_it_was_written() -> None:
    assert read_profile(profile_text(kept())) == kept()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"model": 1}'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"my\.profile: not a profile"):
        read_profile(text, "my.profile")
    with pytest.raises(InputError, match="not a profile: bogus"):
        read_profile(profile_text(kept()).replace('"model"', '"bogus": 1, "model"', 1))
    with pytest.raises(InputError, match=r"my\.profile, format: .*'profile 1'; this reads 'prof"):
        read_profile(profile_text(kept(format="profile 1")), "my.profile")


def machine(name: str) -> Device:
    return replace(device_named("H100 SXM5 80 GB"), name=name)


@pytest.mark.parametrize(
    ("named", "holds_on", "not_on"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80 GB", "H200 SXM5 141 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB", "A100 SXM4 80 GB"),
        ("NVIDIA H200", "H200 SXM5 141 GB", "H100 SXM5 80 GB"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2", "TPU v4"),
        ("AMD Instinct MI300X", "MI300X", "EPYC 7763"),
        ("TPU v5 lite", "TPU v5e", "TPU v5p"),
        ("TPU v4", "TPU v4", "TPU v5e"),
        ("cpu", "EPYC 7763", "H100 SXM5 80 GB"),
    ],
)
def test_it_holds_on_what_measured_it_only(named: str, holds_on: str, not_on: str) -> None:
    found = kept(where=replace(kept().where, device=named))
    check_machine(found, machine(holds_on), 2)
    field = "processor" if named == "cpu" else "device"
    measured_on = "EPYC 7763" if named == "cpu" else named
    problem = rf"x, where\.{field}: measured on {measured_on}, and the machine has {not_on}"
    with pytest.raises(InputError, match=problem):
        check_machine(found, machine(not_on), 2, "x")


def test_a_card_of_another_board_is_another_device() -> None:
    with pytest.raises(InputError, match="measured on NVIDIA H100 PCIe"):
        check_machine(
            kept(where=replace(kept().where, device="NVIDIA H100 PCIe")),
            machine("H100 SXM5 80 GB"),
            2,
        )


def test_no_more_processes_measure_than_there_are_devices() -> None:
    check_machine(kept(), machine("EPYC 7763"), 2)
    with pytest.raises(
        InputError, match=r"where\.processes: 2 processes measured at once, on 1 dev"
    ):
        check_machine(kept(), machine("EPYC 7763"), 1)


@pytest.mark.parametrize("found", ["0.9.9", "none"])
def test_versions_that_files_are_not_written_for_are_refused(found: str) -> None:
    old = kept(where=replace(kept().where, versions={"jax": found}))
    problem = rf"where\.versions\.jax: measured with jax {found}; .* for jax 0\.10 or later"
    with pytest.raises(InputError, match=problem):
        check_machine(old, machine("EPYC 7763"), 2)


def test_the_least_versions_are_those_of_the_package() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {name: f"{name}>={least}" for name, least in LEAST_VERSIONS.items()} == {
        name: one for name in LEAST_VERSIONS for one in extras[name]
    }


def test_another_type_is_refused() -> None:
    check_dtype(kept(), "f32")
    with pytest.raises(
        InputError, match="x, dtype: measured in f32, and the step multiplies in bf1"
    ):
        check_dtype(kept(), "bf16", "x")


def test_what_drifted_is_not_called_measured() -> None:
    read_profile(profile_text(kept(drift=0.0999)))
    with pytest.raises(InputError, match="drifted by 11%"):
        read_profile(profile_text(kept(drift=0.11)))


@given(st.lists(st.floats(0.9, 1.1), min_size=9, max_size=30), st.floats(0.5, 2.0))
def test_drift_is_that_of_thirds_and_knows_no_unit(samples: list[float], scale: float) -> None:
    found = drift_of(samples)
    assert 0 <= found <= 0.25
    assert drift_of([one * scale for one in samples]) == pytest.approx(found)
    third = len(samples) // 3
    assert drift_of([1.0] * third + [1.0] * (len(samples) - 2 * third) + [1.5] * third) > 0.3
    assert drift_of([1.0] * (len(samples) - 1) + [9.0]) == 0


def test_an_event_has_the_seconds_that_were_measured_of_it_or_none() -> None:
    profile, other = kept(), event("new")
    assert profile.estimate(other) is None
    found = profile.estimate(replace(other, key="k2"))
    assert found
    assert (found.seconds, found.how) == (ROWS[1].seconds, "measured")
    assert found.low < found.seconds < found.high


class Clock:
    """A runtime whose machine is slower and slower."""

    def __init__(self, paces: Iterator[float]) -> None:
        self._paces = paces

    def work(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> Work:
        return lambda: float(text)

    def reference(self) -> Work:
        return lambda: 1.0

    def seconds(self, work: Work) -> tuple[float, object]:
        return float(str(work())) * next(self._paces), None


def test_a_machine_that_gets_slower_is_taken_out() -> None:
    paces = (1 + 0.002 * at for at in range(10**6))
    bench = Bench(Clock(paces), {"two": ("2.0", ()), "seven": ("7.0", ())})
    for _ in range(40):
        bench.round()
    found = bench.samples.steady()
    for key, ratio in (("two", 2.0), ("seven", 7.0)):
        usual = sorted(bench.samples.reference)[len(bench.samples.reference) // 2]
        assert max(found[key]) / min(found[key]) < 1.02
        assert found[key][20] == pytest.approx(ratio * usual, rel=0.02)
    assert drift_of(bench.samples.reference) > 0.1


def test_mismatching_input_is_refused() -> None:
    large = replace(event(), inputs=(Type("f32", (2**32,)),))
    with pytest.raises(InputError, match="the inputs of the events take"):
        measure_events([large], ProfileTrial("jax"), "m", "p", "f32")


@pytest.mark.slow
def test_events_are_measured_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    monkeypatch.setattr(trial, "check_drift", lambda *_: None)
    header = "import torch\n"
    two = [replace(event(key), text=header + event(key).text) for key in ("a", "b", "a")]
    found = measure_events(
        two, ProfileTrial("torch", processes=2, rounds=5), "mlp", "data=2", "f32"
    )
    assert [one.key for one in found.events] == ["a", "b"]
    assert {one.samples for one in found.events} == {10}
    assert all(0 < one.seconds < 1 for one in found.events)
    assert found.where.processes == 2
    steady = replace(found, drift=0.0)
    assert read_profile(profile_text(steady)) == steady


@pytest.mark.slow
def test_the_last_output_of_a_dead_process_is_reported() -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    dying = event(body="raise RuntimeError('no memory left for it')")
    with pytest.raises(RunError, match=r"process 0 ended with code 1.*no memory left for it"):
        measure_events([dying], ProfileTrial("torch", rounds=5), "mlp", "data=2", "f32")
