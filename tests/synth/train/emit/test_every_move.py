"""Every move over three axes, in both runtimes: devices hold the same value as before.

Each case goes from one type of a matrix to another: by one move, of every kind and over every set
and order of axes, or by a cheapest path of several. What the emitted function makes of the parts of
all devices is read by the numpy judge, which knows types and no moves.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

from exhaustive import Sample, sampled
from grammar.tensors.sharding import Kind, Sharding, Type
from moved_parts import RUNNERS, Case, Sizes, cases, differences, text_of
from replicas import cut
from synth.train.resharding import How, path_between

EQUAL = {"a": 2, "b": 2, "c": 2}
SIZES = (EQUAL, {"a": 4, "b": 1, "c": 2})
MORE = ({"a": 2, "b": 3, "c": 2}, {"a": 1, "b": 2, "c": 4})


def drawn(sizes: Sizes, sample: Sample) -> list[Case]:
    """Some of each kind of move."""
    return [case for group in cases(sizes).values() for case in sample(group)]


def spelled(sizes: Sizes) -> str:
    return ",".join(f"{axis}={size}" for axis, size in sizes.items())


@pytest.mark.parametrize("sizes", SIZES, ids=spelled)
@sampled(8, seed=35, parts=12)
def test_moves_in_jax(sample: Sample, sizes: Sizes, tmp_path: Path) -> None:
    assert not differences("jax", drawn(sizes, sample), sizes, tmp_path)


@pytest.mark.parametrize("sizes", SIZES, ids=spelled)
@sampled(16, seed=36, parts=4)
def test_moves_in_torch(sample: Sample, sizes: Sizes, tmp_path: Path) -> None:
    """Ranks are threads: gloo is asked below."""
    assert not differences("torch", drawn(sizes, sample), sizes, tmp_path)


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_moves_of_other_floats(runtime: str, tmp_path: Path) -> None:
    """Of numbers that each of these types has exactly, as it has their sums."""
    some = [
        (Type(dtype, kind.shape), path)
        for dtype, seed in (("bf16", 38), ("f16", 39), ("f64", 40))
        for group in cases(EQUAL).values()
        for kind, path in Sample(3, seed)([case for case in group if case[0].dtype == "i32"])
    ]
    assert not differences(runtime, some, EQUAL, tmp_path)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("sizes", MORE, ids=spelled)
@pytest.mark.parametrize("runtime", ["jax", "torch"])
@pytest.mark.parametrize("sample", [Sample(40, 37)], indirect=True, ids=["40 of each"])
def test_moves_over_other_sizes(runtime: str, sample: Sample, sizes: Sizes, tmp_path: Path) -> None:
    assert not differences(runtime, drawn(sizes, sample), sizes, tmp_path)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("sizes", [*SIZES, MORE[0]], ids=spelled)
@pytest.mark.parametrize("sample", [Sample()], indirect=True, ids=["all"])
def test_moves_by_gloo(sample: Sample, sizes: Sizes, tmp_path: Path) -> None:
    assert not differences("gloo", drawn(sizes, sample), sizes, tmp_path)


@pytest.mark.parametrize("target", [Sharding(((), ())), Sharding((("a",), ()))], ids=str)
def test_sums_of_words_wrap_around_in_torch(target: Sharding, tmp_path: Path) -> None:
    """Words of 32 bits are kept in 64, and parts of a sum are as large as words can be."""
    sizes, kind = {"a": 2}, Type("u32", (4, 2))
    draw = np.random.default_rng(0)
    whole, one = (draw.integers(0, 2**32, kind.shape, np.uint32) for _ in range(2))
    parts = {(0,): one.astype(np.int64), (1,): (whole - one).astype(np.int64)}
    path = path_between(kind, Sharding(((), ()), ((Kind.SUM, "a"),)), target, sizes)
    text = text_of("torch", [(kind, path)], sizes)
    [made] = RUNNERS["torch"](text, [parts], sizes, tmp_path)
    wanted = cut(whole.astype(np.int64), target, sizes, draw)
    assert all(np.array_equal(made[at], wanted[at]) for at in wanted)


def test_all_kinds_of_moves_are_cases() -> None:
    found = cases(EQUAL)
    assert {how.value for how in How} | {"paths"} == found.keys()
    assert all(len(group) > 100 for group in found.values())


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_a_part_in_the_wrong_place_is_found(runtime: str, tmp_path: Path, monkeypatch) -> None:
    """The judge can fail: each device is taken to hold what its neighbour does."""
    some = [case for case in cases(EQUAL)["permute"] if case[1].target.dimensions[0]][:3]

    def shifted(*given):
        return [
            dict(zip(parts, [*parts.values()][1:] + [*parts.values()][:1], strict=True))
            for parts in runner(*given)
        ]

    runner = RUNNERS[runtime]
    monkeypatch.setitem(RUNNERS, runtime, shifted)
    assert len(differences(runtime, some, EQUAL, tmp_path)) == len(some)
