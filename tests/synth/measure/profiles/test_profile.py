"""Profiles: what is kept, what is refused, what is offered instead, and who dies on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.collective.run.trial import RunError
from synth.measure.profiles import (
    MeasuredEvent,
    Profile,
    ProfileEvent,
    ProfileTrial,
    check_here,
    drift_of,
    measure_events,
    profile_text,
    read_profile,
    trial,
)
from synth.measure.profiles.measuring import Bench, Work
from synth.measure.profiles.profile import ProfileConditions, processor_name, versions_of

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
    here = ProfileConditions(
        processor_name(), __import__("os").cpu_count() or 1, "cpu", "jax", {}, 1, 1
    )
    here = replace(here, versions=versions_of("jax"))
    return replace(Profile("mlp", "data=2", "2026-11-23", here, 1e-3, 0.01, ROWS), **changed)


def test_it_is_read_as_it_was_written() -> None:
    assert read_profile(profile_text(kept())) == kept()
    check_here(kept())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"model": 1}'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"my\.profile: no profile"):
        read_profile(text, "my.profile")
    with pytest.raises(InputError, match="no profile: bogus"):
        read_profile(profile_text(kept()).replace('"model"', '"bogus": 1, "model"', 1))


def test_it_holds_where_it_was_measured_only() -> None:
    there = kept().where
    for changed, said in (
        (replace(there, processor="Z80"), "processor Z80"),
        (replace(there, cores=999), "cores 999"),
        (replace(there, versions={**there.versions, "jax": "0.0.1"}), "jax 0.0.1"),
        (replace(there, versions={**there.versions, "python": "2.7"}), "python 2.7"),
    ):
        with pytest.raises(InputError, match=said):
            check_here(kept(where=changed))


def test_what_drifted_is_not_called_measured() -> None:
    check_here(kept(drift=0.0999))
    with pytest.raises(InputError, match="drifted by 11%"):
        check_here(kept(drift=0.11))


@given(st.lists(st.floats(0.9, 1.1), min_size=9, max_size=30), st.floats(0.5, 2.0))
def test_drift_is_that_of_thirds_and_knows_no_unit(samples: list[float], scale: float) -> None:
    found = drift_of(samples)
    assert 0 <= found <= 0.25
    assert drift_of([one * scale for one in samples]) == pytest.approx(found)
    third = len(samples) // 3
    assert drift_of([1.0] * third + [1.0] * (len(samples) - 2 * third) + [1.5] * third) > 0.3
    assert drift_of([1.0] * (len(samples) - 1) + [9.0]) == 0


def test_an_event_nobody_measured_is_named_and_has_an_estimate() -> None:
    profile, other = kept(), replace(event("new", flops=9000), operations=3, moved_bytes=200000)
    found = profile.estimate(other)
    assert found.how == "fitted"
    assert found.seconds == pytest.approx(3e-6 + 9e-6 + 2e-5, rel=1e-3)
    assert found.low <= found.seconds <= found.high
    with pytest.raises(InputError, match=r"nobody measured add new.*fitted to others about 32 us"):
        profile.seconds(other)
    known = replace(other, key="k2")
    assert profile.estimate(known).how == "measured"
    assert profile.seconds(known) == ROWS[1].seconds
    with pytest.raises(InputError, match="too few"):
        kept(events=ROWS[:2]).estimate(other)


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


def test_what_does_not_fit_is_refused() -> None:
    large = replace(event(), inputs=(Type("f32", (2**32,)),))
    with pytest.raises(InputError, match="what the events read takes"):
        measure_events([large], ProfileTrial("jax"), "m", "p")


@pytest.mark.slow
def test_events_are_measured_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    monkeypatch.setattr(trial, "check_drift", lambda *_: None)
    header = "import torch\n"
    two = [replace(event(key), text=header + event(key).text) for key in ("a", "b", "a")]
    found = measure_events(two, ProfileTrial("torch", processes=2, rounds=5), "mlp", "data=2")
    assert [one.key for one in found.events] == ["a", "b"]
    assert {one.samples for one in found.events} == {10}
    assert all(0 < one.seconds < 1 for one in found.events)
    assert found.where.processes == 2
    assert read_profile(profile_text(found)) == found


@pytest.mark.slow
def test_a_process_that_dies_says_its_last_words() -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    dying = event(body="raise RuntimeError('no memory left for it')")
    with pytest.raises(RunError, match=r"process 0 ended with code 1.*no memory left for it"):
        measure_events([dying], ProfileTrial("torch", rounds=5), "mlp", "data=2")
