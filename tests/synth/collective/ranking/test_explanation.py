"""Reasons in words: every figure in them is a price, and the advice follows the times."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import Axis, System, load
from strategies import systems
from synth.collective.price.resolution import FINEST, OTHERS_LINKS
from synth.collective.price.segments import SEGMENTS
from synth.collective.ranking.explanation import explain_answer
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, Request
from synth.collective.semantics.programs import Language


def ranked(system: System, payload: int, segments: tuple[int, ...]) -> tuple[Answer, ...]:
    axes = (Axis("data", system.devices),)
    request = Request(axes, ("data",), payload, 6, Language(3), segments=segments, stripes=False)
    return answers(system, request).answers


@given(systems(12), st.integers(1, 10**9), st.sampled_from([(1,), SEGMENTS]))
@examples(10, 25)
def test_the_advice_follows_the_times(
    system: System, payload: int, segments: tuple[int, ...]
) -> None:
    assume(len(system.hierarchy.levels) <= 3)
    for answer in ranked(system, payload, segments):
        words = explain_answer(answer)
        faster = answer.gains
        assert ("times as fast" in words[-1]) == faster
        assert not faster or answer.baseline_seconds > (1 + OTHERS_LINKS) * answer.runtime_seconds
        unavailable = "no runtime offers this" in words[-1]
        kept = not faster and not unavailable and bool(answer.prices)
        assert ("keep the default" in words[-1]) == kept
        if unavailable:
            assert answer.baseline_seconds > answer.candidate.seconds * (1 + FINEST) or faster
        assert all(int(share) <= 100 for share in re.findall(r"(\d+)%", " ".join(words)))
        overlap = any("overlap in" in line for line in words)
        assert overlap == (answer.candidate.segments > 1)


def test_the_reasons_on_a_machine_with_a_nic_for_each_device() -> None:
    first, *_, last = ranked(load("dgx-h100:4"), 2**30, SEGMENTS)
    plain, ours, overlap, calls, *_, verdict = explain_answer(first)
    assert calls.startswith("its price takes ")
    assert plain.startswith(
        "the default (nvls_tree, simple) takes 5.44 ms, of which node is busy 99%"
    )
    assert "gpu is busy" in ours
    assert "(1.75 GiB a port)" in ours  # 7/8 of the payload inwards, and as much outwards
    assert overlap.startswith("its steps overlap in")
    assert verdict == "tie with the default (within prediction error): keep the default"
    assert "keep the default" in explain_answer(last)[-1]


def test_what_the_calls_of_a_switch_leave_is_told() -> None:
    """Nine eighths of the payload each way, where the bound counts one; of ports of 450 GB/s.

    The hundredth that is left is the launch, and the messages waited for.
    """
    answer, *_ = ranked(load("dgx-h100:1"), 2**30, (1,))
    [told] = [line for line in explain_answer(answer) if "two calls" in line]
    assert told.endswith("so nothing takes less than 2.68 ms (99%)")
    assert not any(
        "two calls" in line for line in explain_answer(ranked(load("dgx-a100:1"), 2**30, (1,))[0])
    )


def test_stripes_are_told_with_what_each_keeps_busy() -> None:
    request = Request((Axis("data", 256),), ("data",), 2**30, 1)
    [answer] = answers(load("tpu-v5e-slice"), request).answers
    assert len(answer.stripes) == 2
    _, ours, one, other, shared, verdict = explain_answer(answer)
    assert ours.startswith("the payload split over 2 programs side by side takes 10.7 ms")
    assert one.startswith("stripe 1, 50% of the payload, keeps busy: y 94%, x 6%")
    assert other.startswith("stripe 2, 50% of the payload, keeps busy: x 94%, y 6%")
    assert "wait for nothing of each other" in shared
    assert verdict == "tie with the default (within prediction error): keep the default"


def test_the_default_is_told_to_be_the_default() -> None:
    found = {
        str(a.candidate.program): explain_answer(a) for a in ranked(load("dgx-a100:4"), 2**30, (1,))
    }
    words = found["all-reduce root inside"]
    assert words[-1] == "this is what the runtime would do: keep the default"
    assert len(words) == 2


def test_nothing_to_do_is_said() -> None:
    request = Request((Axis("data", 1), Axis("model", 8)), ("data",), k=1)
    [answer] = answers(load("dgx-h100:1"), request).answers
    assert explain_answer(answer) == ["there is nothing to do: a reduction group is one device"]
