"""Estimators of kernels: on truths that are known, and files that are refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from grammar.tensors.parser import parse_step
from hierarchies import InputError
from synth.cli.app import app
from synth.train.learned.estimator import (
    FORMAT,
    Estimator,
    check_machine,
    estimate,
    estimator_text,
    read_estimator,
    trained,
)
from synth.train.learned.judging import coverage, ends, error_of, held_out, noise, simplest
from synth.train.learned.kernels import FEATURES, KINDS, Kernel, Part, counts, features, kernel_of
from synth.train.learned.rungs import Tree, fit_parts, fit_rates
from synth.train.learned.samples import (
    Machine,
    Sample,
    Samples,
    check_enough,
    read_samples,
    samples_text,
)

HERE = Machine("xla", "a processor", 2, {"python": "3", "jax": "1"})


def kernel(draw: random.Random) -> Kernel:
    parts = []
    for at in range(draw.randint(1, 9)):
        made = 4 * draw.randint(2**10, 2**18)
        kind = draw.choice(KINDS)
        flops = 0 if kind in ("view", "transpose") else made // 4 * draw.choice((1, 1, 64))
        reads = (draw.randrange(at),) if at else (-1,)
        parts.append(Part(kind, reads, flops, made, made, 64, kind == "transpose", False))
    return Kernel(tuple(parts), parts[0].read_bytes, parts[-1].made_bytes)


def linear(one: Kernel) -> float:
    """A truth: a launch, bytes that go in and out, and products."""
    products = sum(part.flops for part in one.parts if part.kind == "product")
    return 5e-6 + (one.read_bytes + one.made_bytes) / 8e9 + products / 4e10


def samples(count: int, noise: float = 0.0, groups: int = 6) -> tuple[Sample, ...]:
    draw = random.Random(7)
    found = []
    for at in range(count):
        one = kernel(draw)
        seconds = linear(one) * draw.lognormvariate(0.0, noise)
        found.append(Sample(f"group{at % groups}", at, one, (seconds,)))
    return tuple(found)


def several(count: int = 240, noise: float = 0.0) -> Samples:
    return Samples(HERE, "2026-01-01", 0, {"drifted": 3}, samples(count, noise))


_NAMES = (("x", "y", "a", "b", "c"), ("late", "x", "y", "zeta", "b"))


def test_names_of_values_and_lines_are_no_part_of_a_kernel() -> None:
    text = """
    step s
    in {x}: f32[8,4] batch
    in {y}: f32[4,6] batch
    {a}: f32[8,6] = dot_general({x}, {y}) dimension_numbers=(((1),(0)),((),())) @{x}.py:1
    {b}: f32[8,6] = exp({a}) @{x}.py:2
    {c}: f32[8] = reduce_sum({b}) axes=(1)
    out {c}
    """
    text, other = (text.format(**dict(zip("xyabc", names, strict=True))) for names in _NAMES)
    found = kernel_of(parse_step(text).graph)
    assert found == kernel_of(parse_step(other).graph)
    assert len(features(found)) == len(FEATURES)
    assert [one.kind for one in found.parts] == ["product", "series", "reduced"]


def test_of_a_table_no_more_is_read_than_what_is_looked_up() -> None:
    text = """
    step s
    in x: f32[1000,8] batch
    in i: i32[5,1] batch
    a: f32[5,8] = gather(x, i) dimension_numbers=((1),(0),(0),(),()) slice_sizes=(1,8)
    b: f32[5,8] = rsqrt(a)
    out b
    """
    found = kernel_of(parse_step(text).graph)
    assert (found.read_bytes, found.made_bytes) == (5 * 8 * 4 + 5 * 4, 5 * 8 * 4)
    assert [(one.kind, one.minor) for one in found.parts] == [("gather", 8), ("rsqrt", 8)]
    told = dict(zip(FEATURES, counts(found), strict=True))
    assert told["left over of rsqrt"] == told["work rsqrt"] == 40
    assert told["rows of rsqrt"] == 5


@pytest.mark.parametrize(
    ("left", "right", "numbers", "turned"),
    [
        ("8,4", "4,6", "((1),(0)),((),())", False),
        ("4,8", "4,6", "((0),(0)),((),())", False),
        ("8,4", "6,4", "((1),(1)),((),())", False),
        ("3,8,4", "3,4,6", "((2),(1)),((0),(0))", False),
        ("8,3,4", "3,4,6", "((2),(1)),((1),(0))", True),  # the batch is not first
        ("4,8,5", "4,5,6", "((0,2),(0,1)),((),())", True),  # what is contracted lies apart
    ],
)
def test_a_product_says_whether_an_operand_is_turned_first(
    left: str, right: str, numbers: str, turned: bool
) -> None:
    batch = "3," if left.count(",") > 1 and "4,8" not in left else ""
    text = f"""
    step s
    in x: f32[{left}] batch
    in y: f32[{right}] batch
    a: f32[{batch}8,6] = dot_general(x, y) dimension_numbers=({numbers})
    out a
    """
    [part] = kernel_of(parse_step(text).graph).parts
    assert part.strided == turned


def test_to_divide_by_one_number_is_no_division() -> None:
    text = """
    step s
    in x: f32[8,4] batch
    in y: f32[] batch
    a: f32[8,4] = div(x, y)
    b: f32[8,4] = div(a, 3:f32)
    c: f32[8,4] = div(a, b)
    out c
    """
    found = kernel_of(parse_step(text).graph)
    assert [one.kind for one in found.parts] == ["cheap", "cheap", "divided"]


def test_what_kernels_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="no operations"):
        kernel_of(parse_step("step s\nin x: f32[8] batch\nout x").graph)


def test_rates_find_a_truth_that_is_one_of_theirs() -> None:
    found = held_out(samples(240), fit_rates)
    for one in found.values():
        assert error_of(one).p90 < 0.01


def test_parts_are_never_slower_than_the_rates_that_were_reached() -> None:
    some = samples(60)
    fitted = fit_parts(some)
    for one in some:
        assert sum(p.flops for p in one.kernel.parts) <= fitted.flops_per_second * one.seconds
    assert fitted.launch_seconds == min(one.seconds for one in some)


def test_the_ladder_stops_at_the_simplest_that_is_not_beaten() -> None:
    right = {f"g{at}": np.full(9, 0.10 + 0.01 * at) for at in range(5)}
    wrong = {group: 5 * one for group, one in right.items()}
    slightly = {group: one - 0.001 * (-1) ** at for at, (group, one) in enumerate(right.items())}
    assert simplest({"parts": wrong, "rates": right, "trees": slightly}, list(right)) == "rates"
    assert simplest({"parts": right, "rates": wrong}, list(right)) == "parts"


def test_noise_is_how_far_one_process_is_off_the_others() -> None:
    some = [replace(one, each=(1.2e-3, 1e-3, 1e-3)) for one in samples(9)]
    found = noise(some)
    assert found is not None
    assert found.kernels == 9
    assert found.median == pytest.approx(0.2)
    assert noise(samples(9)) is None


def test_intervals_hold_nine_of_ten_of_groups_that_are_like_each_other() -> None:
    some = samples(1200, noise=0.3)
    found = coverage(some, fit_rates, [f"group{at}" for at in range(6)])
    assert 0.85 <= np.mean(list(found.values())) <= 0.95


def test_a_group_unlike_all_others_is_not_held() -> None:
    """So the law can fail: intervals know groups that they saw."""
    some = [
        replace(one, each=(9 * one.seconds,)) if one.group == "group0" else one
        for one in samples(240, noise=0.1)
    ]
    assert coverage(some, fit_rates, ["group0"])["group0"] < 0.2


def test_ends_are_a_rank_further_out() -> None:
    low, high = ends({"g": np.arange(1.0, 101.0)})
    assert (low, high) == (5.0, 96.0)


def test_samples_come_back_as_they_were_written() -> None:
    found = several(24)
    read = read_samples(samples_text(found))
    assert [one.kernel for one in read.samples] == [one.kernel for one in found.samples]
    assert samples_text(read) == samples_text(found)
    for one, other in zip(read.samples, found.samples, strict=True):
        assert abs(log(one.seconds / other.seconds)) < 1e-3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"rows":[', '"rows":7,"x":['),
        ("[[", "[[-1,"),
        ("[[", "[[99,"),
        ('"machine"', '"engine"'),
        ("]}", ""),
    ],
)
def test_damaged_samples_are_refused(old: str, new: str) -> None:
    text = samples_text(several(3)).replace(old, new, 1)
    with pytest.raises(InputError, match="no samples"):
        read_samples(text)


def test_too_few_samples_say_how_many_more() -> None:
    with pytest.raises(InputError, match="60 more"):
        check_enough(samples(40))
    with pytest.raises(InputError, match="of 1 more"):
        check_enough(samples(120, groups=2))


def fitted() -> Estimator:
    return trained(several(noise=0.1), upper=False)


def test_an_estimator_comes_back_as_it_was_written() -> None:
    one = fitted()
    assert one.fitted.rung == "rates"
    assert read_estimator(estimator_text(one)) == one


@pytest.mark.parametrize(
    "change",
    [
        {"fitted": {"rung": "pickle", "data": "gASV"}},
        {"least": [1.0]},
        {"low": 2.0, "high": 1.0},
        {"low": "nan"},
        {"more": 1},
        {"samples": "many"},
    ],
)
def test_a_damaged_estimator_is_refused(change: dict[str, object]) -> None:
    content = json.loads(estimator_text(fitted())) | change
    with pytest.raises(InputError, match="no estimator"):
        read_estimator(json.dumps(content))


def test_what_is_no_json_or_of_another_format_is_refused() -> None:
    with pytest.raises(InputError, match="no estimator"):
        read_estimator("\x80\x04K\x01.")
    text = estimator_text(fitted()).replace(FORMAT, "collsynth estimator 9")
    with pytest.raises(InputError, match="estimator 9"):
        read_estimator(text)


def test_a_tree_that_would_never_end_is_refused() -> None:
    with pytest.raises(ValueError, match="children"):
        Tree((0, 0), (0.0, 0.0), (1, 0), (1, 1), (0.0, 0.0))


@pytest.mark.parametrize(
    ("here", "named"),
    [
        (replace(HERE, processor="another"), "processor"),
        (replace(HERE, cores=4), "cores"),
        (replace(HERE, versions={"python": "3", "jax": "2"}), "jax"),
        (replace(HERE, versions={"python": "3", "jax": "1", "jaxlib": "1"}), "jaxlib"),
    ],
)
def test_an_estimator_of_another_machine_or_version_is_refused(here: Machine, named: str) -> None:
    one = fitted()
    check_machine(one, HERE)
    with pytest.raises(InputError, match=named):
        check_machine(one, here)


def test_out_of_range_is_said_and_widens() -> None:
    one = fitted()
    usual = samples(1)[0].kernel
    inside = estimate(one, usual)
    assert (inside.how, inside.extrapolated) == ("fitted", ())
    assert inside.low < inside.seconds < inside.high
    far = replace(usual, read_bytes=2**40)
    outside = estimate(one, far)
    assert outside.how == "extrapolated"
    assert "read bytes" in outside.extrapolated
    assert outside.high / outside.low > 4 * inside.high / inside.low


def test_trees_are_the_same_numbers_as_those_of_scikit_learn() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn, of the extra 'learn'")
    from sklearn.ensemble import ExtraTreesRegressor

    from synth.train.learned.forest import HOW, fit_trees
    from synth.train.learned.rungs import tree_rows

    some = samples(150, noise=0.2)
    kernels = [one.kernel for one in some]
    ours = fit_trees(some)
    rates = ours.rates.seconds(kernels)
    off = np.log(np.array([one.seconds for one in some]) / rates)
    theirs = ExtraTreesRegressor(**HOW).fit(tree_rows(ours.rates, kernels), off)
    said = rates * np.exp(theirs.predict(tree_rows(ours.rates, kernels)))
    assert np.allclose(ours.seconds(kernels), said, rtol=1e-3)


def test_a_network_learns_what_rates_cannot_say() -> None:
    pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    from synth.train.learned.network import fit_network

    some = [
        replace(one, each=(one.seconds * (3 if len(one.kernel.parts) > 4 else 1),))
        for one in samples(160)
    ]
    kernels = [one.kernel for one in some]
    taken = np.array([one.seconds for one in some])
    net, rates = fit_network(some), fit_rates(some)
    off, before = (np.median(np.abs(np.log(f.seconds(kernels) / taken))) for f in (net, rates))
    assert off < before / 1.5


def asked(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["estimate", *words])
    return found.exit_code, found.output


def test_the_command_shows_an_estimator_and_refuses_one_of_another_machine(tmp_path: Path) -> None:
    file = tmp_path / "an.json"
    file.write_text(estimator_text(fitted()), encoding="utf-8")
    code, said = asked("show", str(file))
    assert code == 0
    assert said.startswith("rates, of 240 kernels")
    assert json.loads(asked("show", str(file), "--json")[1])["rung"] == "rates"
    code, said = asked("check", str(file))
    assert code == 2
    assert "a processor" in said
    assert "train here" in said


def test_the_command_refuses_what_is_no_file_of_its_own(tmp_path: Path) -> None:
    few = tmp_path / "few.json"
    few.write_text(samples_text(several(12)), encoding="utf-8")
    assert asked("show", str(few))[0] == 2
    assert asked("show", str(tmp_path / "none.json"))[0] == 2
    code, said = asked("train", "--samples", str(few), "-o", str(tmp_path / "out.json"))
    assert code == 2
    assert "88 more" in said
    assert not (tmp_path / "out.json").exists()


def test_who_reads_an_estimator_loads_no_extra() -> None:
    code = (
        "import sys, synth.train.learned.estimator, synth.cli.commands;"
        "print([one for one in ('jax', 'sklearn', 'torch', 'joblib') if one in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
