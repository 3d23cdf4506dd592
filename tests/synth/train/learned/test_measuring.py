"""How kernels are compiled and measured: by compilers of this machine, and by one that is not."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from hierarchies import InputError
from synth.train.learned.collecting import (
    PROCESSES,
    Collection,
    collected,
    samples_of,
    unlike,
)
from synth.train.learned.measuring import MOST_TIMES, Event, Often, _compiled, _measured, _pin
from synth.train.learned.samples import RUNTIMES, machine_here


class Counting:
    """A compiler whose kernels take as long as their text says, and whose clock is theirs."""

    def __init__(self) -> None:
        self.calls, self.compiled, self.forgotten = 0, 0, 0

    def work(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> object:
        if text == "broken":
            raise RuntimeError("no words for it")
        self.compiled += 1
        return lambda: float(text)

    def seconds(self, work: object) -> tuple[float, object]:
        self.calls += 1
        taken = work()  # type: ignore[operator]
        return taken, taken

    def reference(self) -> object:
        return lambda: 1e-3

    def forget(self) -> None:
        self.forgotten += 1


def test_a_short_kernel_is_called_often_enough_to_be_seen() -> None:
    compiler = Counting()
    often = Often(compiler)  # type: ignore[arg-type]
    work = often.work("1e-4", [])
    assert often.seconds(work)[0] == pytest.approx(1e-4)
    before = compiler.calls
    assert often.seconds(work)[0] == pytest.approx(1e-4)
    assert compiler.calls - before == 20  # 2 ms
    shorter = often.work("1e-9", [])
    often.seconds(shorter)
    before = compiler.calls
    often.seconds(shorter)
    assert compiler.calls - before == MOST_TIMES


def test_what_was_compiled_is_kept_until_it_is_forgotten_and_the_reference_for_ever() -> None:
    compiler = Counting()
    often = Often(compiler)  # type: ignore[arg-type]
    assert often.work("1", []) is often.work("1", [])
    assert compiler.compiled == 1
    first = often.reference()
    often.forget()
    assert often.reference() is first
    often.work("1", [])
    assert (compiler.compiled, compiler.forgotten) == (2, 1)


def test_a_kernel_that_does_not_compile_is_skipped_and_counted() -> None:
    refused: dict[str, str] = {}
    given: dict[str, Event] = {"good": ("1e-4", []), "bad": ("broken", [])}
    found = dict(_compiled(Often(Counting()), given, refused))  # type: ignore[arg-type]
    assert list(found) == ["good"]
    assert refused == {"bad": "did not compile"}


def test_a_process_that_measures_sees_one_core() -> None:
    """Else XLA cuts loops for all cores, and the clock counts threads that wait."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("only Linux says on which cores a process runs")
    before = os.sched_getaffinity(0)
    try:
        _pin()
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        os.sched_setaffinity(0, before)


def test_seconds_are_as_measured() -> None:
    given: dict[str, Event] = {"one": ("1e-4", []), "other": ("2e-4", [])}
    found = _measured(Often(Counting()), given)  # type: ignore[arg-type]
    assert found == pytest.approx({"one": 1e-4, "other": 2e-4})


def test_samples_are_the_middle_of_several_processes_or_are_refused() -> None:
    asked = Collection(("chains",), 6)
    pieces, refused = unlike(asked)
    assert not refused["equal to another"]
    keys = list(pieces)
    each = (
        (0.9e-4, 1e-4, 9e-4),  # one process far off says nothing
        (1e-4, 1e-4),
        (1e-4,),
        (1e-4, 2e-4, 3e-4),
        (1e-6,) * 3,
        (),
    )
    reports = [
        {
            "found": {key: one[at] for key, one in zip(keys, each, strict=True) if at < len(one)},
            "refused": {
                key: "did not compile" if key == keys[5] else "no time left"
                for key, one in zip(keys, each, strict=True)
                if at >= len(one)
            },
        }
        for at in range(PROCESSES)
    ]
    found = list(samples_of(pieces, reports, refused))
    assert [(one.number, one.seconds) for one in found] == [(0, 1e-4), (1, 1e-4)]
    assert found[0].spread == pytest.approx(0.1)
    del refused["equal to another"]
    assert refused == {
        "no time left": 1,
        "spread too far": 1,
        "shorter than 5 us": 1,
        "did not compile": 1,
    }


@pytest.mark.slow
@pytest.mark.parametrize("compiler", list(RUNTIMES))
def test_kernels_are_measured_by_each_compiler(compiler: str) -> None:
    pytest.importorskip(RUNTIMES[compiler], reason=f"{compiler} is not installed")
    found = collected(Collection(("products",), 3, most_seconds=60.0, compiler=compiler))
    assert len(found.samples) + sum(found.refused.values()) == 3
    assert found.machine == machine_here(compiler)
    for one in found.samples:
        assert 5e-6 < one.seconds < 1.0
        assert 3 <= len(one.each) <= PROCESSES
        assert any(part.kind == "product" for part in one.kernel.parts)


def test_an_unknown_compiler_is_named() -> None:
    with pytest.raises(InputError, match="no compiler 'gcc'"):
        machine_here("gcc")
