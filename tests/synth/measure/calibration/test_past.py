"""A log beside an earlier one of the same test: what moved, by which level, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from exhaustive import examples
from hierarchies import InputError, System, load
from hierarchies.units import format_bytes
from log_writer import Written, text
from synth.cli.app import app
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.typical import apply_typical
from synth.measure.doctor import Diagnosis, diagnose, explain_missing
from synth.measure.doctor.changes import estimate_changes
from synth.measure.doctor.moved import describe_past
from synth.measure.logs.matching import MatchedLog
from synth.measure.logs.tables import CheckedLog, LogRow, Table, Timing

SYSTEM = load("dgx-a100:4")
SIZES = tuple(2**power for power in range(10, 33, 2))
FACTORS = st.floats(1.2, 8.0)


def slowed(node: float = 1.0, gpu: float = 1.0) -> System:
    """The machine with the bandwidth of its levels at a share of what is described."""
    links = tuple(
        replace(link, bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * share)
        for share, link in zip((node, gpu), SYSTEM.links, strict=True)
    )
    return replace(SYSTEM, links=links)


def run(
    system: System,
    members: tuple[int, ...] = (4, 8),
    name: str = "new",
    *,
    collective: str = "all-gather",
    sizes: tuple[int, ...] = SIZES,
    busy: tuple[int, ...] | None = None,
    kind: str = "float",
    version: str = "",
    forced: str | None = "ring",
    noise: tuple[float, ...] = (),
) -> MatchedLog:
    """A run on a machine that may be another than the one described."""
    bare = Measurement(collective, members, busy or members, (), forced, "simple", name)
    there = Predictor(system, bare)
    noises = noise or (1.0,) * len(sizes)
    samples = tuple(
        Sample(size, there.at(size).seconds * factor)
        for size, factor in zip(sizes, noises, strict=True)
    )
    rows = tuple(
        LogRow(s.size_bytes, -1, kind, None, None, Timing(s.seconds, 0, 0), None) for s in samples
    )
    log = CheckedLog(Table(name, collective, rows, version=version), collective, 1, 1, 1, rows)
    return MatchedLog(log, replace(bare, samples=samples))


def kinds(found: Diagnosis) -> list[str]:
    return [finding.kind for finding in found.findings]


def named(found: Diagnosis) -> set[tuple[str, str]]:
    return {(f.source, f.level) for f in found.findings if f.kind == "level-slower"}


@given(FACTORS, FACTORS, st.lists(st.floats(-0.02, 0.02), min_size=9, max_size=9))
def test_factors_on_latency_and_on_bandwidth_are_found_again(
    latency: float, bandwidth: float, noise: list[float]
) -> None:
    """Of rows of known shares of latency, each with noise of 2 %."""
    shares = [1.0, 0.99, 0.97, 0.95, 0.5, 0.03, 0.02, 0.01, 0.0]
    ratios = [
        log(latency * share + bandwidth * (1 - share)) + more
        for share, more in zip(shares, noise, strict=True)
    ]
    found = estimate_changes(shares, ratios)
    assert found.latency is not None
    assert found.bandwidth is not None
    assert found.middle is not None
    assert found.latency.factor == pytest.approx(latency, rel=0.06)
    assert found.bandwidth.factor == pytest.approx(bandwidth, rel=0.06)
    assert not found.middle.moved


@given(st.lists(st.floats(-0.01, 0.01), min_size=12, max_size=12), st.integers(0, 11))
def test_noise_and_one_row_that_strays_are_no_change(noise: list[float], at: int) -> None:
    ratios = [*noise[:at], 1.0, *noise[at + 1 :]]
    shares = [1.0] * 4 + [0.5] * 4 + [0.0] * 4
    found = estimate_changes(shares, ratios)
    assert not any(c and c.moved for c in (found.latency, found.middle, found.bandwidth))


def test_rows_that_stay_while_others_become_faster_are_not_slow() -> None:
    found = estimate_changes([1.0] * 3 + [0.5] * 3 + [0.0] * 9, [0.0] * 9 + [log(0.4)] * 6)
    assert found.bandwidth is not None
    assert found.bandwidth.factor == pytest.approx(0.4)
    assert found.faster
    assert not found.stray


def test_a_change_without_rows_that_determine_it_is_not_reported() -> None:
    found = estimate_changes([0.0, 0.01], [log(2), log(2)])
    assert found.latency is None
    assert found.middle is None
    assert found.bandwidth is not None
    assert found.bandwidth.low < 2 < found.bandwidth.high
    more = estimate_changes([0.0] * 8, [log(2)] * 8).bandwidth
    assert more is not None
    assert more.error < found.bandwidth.error


@examples(5, 25)
@given(st.lists(st.floats(0.99, 1.01), min_size=len(SIZES), max_size=len(SIZES)))
def test_a_second_run_is_as_before_whatever_prices_say(noise: list[float]) -> None:
    """Also on a machine far below its description, which would fall short without the baseline."""
    there = slowed(node=0.2)
    found = diagnose(SYSTEM, [run(there, noise=tuple(noise))], [run(there, name="old")])
    assert found.runs[0].short
    assert found.healthy
    assert kinds(found) == ["as-before", "short"]


@examples(5, 25)
@given(st.floats(0.1, 0.85))
def test_a_level_is_named_where_another_run_clears_the_other(share: float) -> None:
    shapes = {"one": (1, 8), "all": (4, 8)}
    old = [run(SYSTEM, members, name) for name, members in shapes.items()]
    new = [run(slowed(node=share), members, name) for name, members in shapes.items()]
    found = diagnose(SYSTEM, new, old)
    assert named(found) == {("all", "node")}
    [blamed] = [f for f in found.findings if f.kind == "level-slower"]
    assert blamed.share == pytest.approx(share, rel=0.03)
    assert blamed.then
    assert not found.healthy
    ports = [n for n in range(1, 8) if abs(share - n / 8) < 0.005]
    assert all(f"as if {n} of its 8 ports carried" in blamed.text for n in ports)


@examples(5, 25)
@given(st.floats(0.1, 0.45))
def test_a_slow_inside_is_named_by_one_node_and_explains_several(share: float) -> None:
    shapes = {"one": (1, 8), "all": (4, 8)}
    old = [run(SYSTEM, members, name) for name, members in shapes.items()]
    new = [run(slowed(gpu=share), members, name) for name, members in shapes.items()]
    found = diagnose(SYSTEM, new, old)
    assert named(found) == {("one", "gpu")}
    short = [past.changes.slower for past in found.past if past]
    told = [f for f in found.findings if f.kind == "explained"]
    assert [f.level for f in told] == ["gpu"] * (sum(short) - 1)


@examples(5, 25)
@given(st.floats(0.1, 0.85))
def test_one_log_over_two_levels_names_none_and_lists_deciding_tests(share: float) -> None:
    found = diagnose(SYSTEM, [run(slowed(node=share))], [run(SYSTEM, name="old")])
    assert not named(found)
    [opened] = [f for f in found.findings if f.kind == "open"]
    assert set(opened.suspects) == {"node", "gpu"}
    assert opened.level == "node"
    assert opened.tests == (
        "node-alone-all-reduce-ring-simple",
        "gpu-alone-all-reduce-ring-simple",
    )


def test_slow_messages_are_distinguished_from_slow_links() -> None:
    slow = replace(
        SYSTEM, links=tuple(replace(k, latency_seconds=k.latency_seconds * 3) for k in SYSTEM.links)
    )
    found = diagnose(SYSTEM, [run(slow)], [run(SYSTEM, name="old")])
    assert kinds(found)[:2] == ["slower", "latency"]
    [told] = [f for f in found.findings if f.kind == "latency"]
    assert "links are as before" in told.text


def test_middle_sizes_that_took_another_way_are_neither() -> None:
    """As NCCL 2.21 beside 2.18 on Polaris, where only sizes in between take longer."""
    noise = tuple(2.0 if 2**16 <= size <= 2**20 else 1.0 for size in SIZES)
    new = run(SYSTEM, noise=noise, version="2.21")
    found = diagnose(SYSTEM, [new], [run(SYSTEM, name="old", version="2.18")])
    assert kinds(found)[:3] == ["other-settings", "slower", "middle"]
    assert "NCCL was 2.18 in old and is 2.21" in found.findings[0].text
    assert "another algorithm or protocol" in found.findings[2].text


def test_a_faster_run_is_reported_and_is_no_fault() -> None:
    found = diagnose(SYSTEM, [run(SYSTEM)], [run(slowed(node=0.5), name="old")])
    assert kinds(found)[0] == "faster"
    assert found.healthy


def test_a_baseline_with_the_same_settings_is_preferred_and_differences_are_listed() -> None:
    tree = run(SYSTEM, name="tree", collective="all-reduce", forced="tree")
    ring = run(SYSTEM, name="ring", collective="all-reduce")
    new = run(SYSTEM, collective="all-reduce")
    both = diagnose(SYSTEM, [new], [tree, ring])
    assert both.past[0] is not None
    assert both.past[0].sources == ("ring",)
    assert "other-settings" not in kinds(both)
    other = diagnose(SYSTEM, [new], [tree])
    assert "the algorithm was tree in tree and is ring" in other.findings[0].text


def test_of_several_baselines_the_median_counts() -> None:
    old = [run(slowed(node=share), name=f"old{share}") for share in (0.5, 1.0, 1.0)]
    found = diagnose(SYSTEM, [run(SYSTEM)], old)
    assert kinds(found)[0] == "as-before"
    assert found.past[0] is not None
    assert len(found.past[0].sources) == 2


def test_a_run_without_a_baseline_is_compared_with_the_prediction() -> None:
    runs = [run(slowed(node=0.5), (1, 8), "one"), run(slowed(node=0.5), name="all")]
    found = diagnose(SYSTEM, runs, [run(SYSTEM, (1, 8), "old")])
    assert [past is None for past in found.past] == [False, True]
    assert not found.healthy
    assert "as-before" in kinds(found)
    assert "short" in kinds(found)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (
            run(SYSTEM, name="old", collective="all-reduce"),
            "old has all-reduce of 4 x 8; and new has all-gather of 4 x 8",
        ),
        (
            run(SYSTEM, (2, 8), "old"),
            "old has all-gather of 2 x 8; and new has all-gather of 4 x 8",
        ),
        (
            run(SYSTEM, (4, 1), "old", busy=(4, 8)),
            "old has all-gather of 4 x 1 in groups, among 4 x 8; and new has all-gather of 4 x 8",
        ),
        (
            run(SYSTEM, name="old", kind="half"),
            "old has all-gather of 4 x 8 of type half; and new has all-gather of 4 x 8 of type fl",
        ),
        (
            run(SYSTEM, name="old", sizes=(3 * 2**10, 3 * 2**20)),
            "new has sizes from 1 KiB to 4 GiB, out of place, old sizes from 3 KiB to 3 MiB",
        ),
    ],
)
def test_a_baseline_of_another_test_is_refused_with_both(old: MatchedLog, said: str) -> None:
    with pytest.raises(InputError) as refused:
        diagnose(SYSTEM, [run(SYSTEM)], [old])
    assert refused.value.where == "--baseline"
    assert refused.value.hint
    assert said in refused.value.problem


def test_a_row_below_its_bound_is_a_contradiction_with_or_without_a_baseline() -> None:
    fast = tuple(0.1 for _ in SIZES)
    found = diagnose(SYSTEM, [run(SYSTEM, noise=fast)], [run(SYSTEM, name="old", noise=fast)])
    assert found.contradictions
    assert not found.healthy


def test_without_a_baseline_it_is_said_what_would_go_unnoticed() -> None:
    typical = apply_typical(SYSTEM)
    found = diagnose(typical, [run(typical)])
    [told] = [f for f in found.findings if f.kind == "unnoticed"]
    assert told.share is not None
    beyond = run(typical, noise=(1.02 / told.share,) * len(SIZES))
    assert "short" in kinds(diagnose(typical, [beyond]))
    assert not [f for f in diagnose(SYSTEM, [run(SYSTEM)]).findings if f.kind == "unnoticed"]


def ask(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["doctor", "dgx-h100:2", *words])
    return done.exit_code, done.stdout, done.stderr


def written(
    path: Path,
    times: float,
    test: str = "all_reduce",
    latency: float = 1.0,
    powers: range = range(13, 31),
) -> str:
    sizes = [2**power for power in powers]
    rows = tuple((n, t, t) for n in sizes for t in [40.0 * latency + times * n / 250e3])
    path.write_text("\n".join(text(Written(test, 16, 2, rows))))
    return str(path)


def test_the_command_compares_and_exits_by_the_comparison(tmp_path: Path) -> None:
    old, new = written(tmp_path / "old.txt", 1.0), written(tmp_path / "new.txt", 1.15)
    code, out, _ = ask(new, "--baseline", old)
    assert code == 1
    assert "Level 'gpu' is most likely slower: 1 of 1 run slower than before" in out
    assert "before" in out
    assert "1.15x" in out
    code, out, _ = ask(old, "--baseline", old)
    assert code == 0
    assert "As before: 1 run" in out
    code, out, _ = ask(new, "--baseline", old, "--json")
    [told] = json.loads(out)["runs"]
    bandwidth = told["past"]["bandwidth"]
    assert bandwidth["moved"]
    assert bandwidth["times"] == pytest.approx(1.15, abs=0.02)
    assert bandwidth["low"] < 1.15 < bandwidth["high"]
    assert told["past"]["sources"] == ["old.txt"]
    assert all(row["before_seconds"] < row["seconds"] for row in told["rows"])


def test_slow_messages_are_in_headline_and_next_steps(tmp_path: Path) -> None:
    old = written(tmp_path / "old.txt", 1.0)
    new = written(tmp_path / "new.txt", 1.0, latency=3.0)
    code, out, _ = ask(new, "--baseline", old)
    said = " ".join(out.split())
    assert code == 1
    assert "Messages take longer: 1 of 1 run slower than before" in said
    assert "takes 3.0x as long, 80 us more a call, and links are as before" in said
    assert "next: NCCL_DEBUG=INFO" in said
    assert "None" not in said


def test_rows_slower_by_factors_that_differ_are_a_change() -> None:
    """As all-reduce on p5 in a repeat by other settings: 1.0 to 2.2 times as long."""
    found = estimate_changes([0.5] + [0.1] * 5, [log(t) for t in (1.66, 2.22, 2.05, 1.4, 1.4, 1.0)])
    assert found.uneven == (0, 1, 2, 3, 4)
    assert found.slower
    assert found.bandwidth is not None
    assert not found.bandwidth.moved


def test_fewer_than_half_of_the_rows_slower_is_noise() -> None:
    found = estimate_changes([0.0] * 6, [log(t) for t in (1.0, 1.3, 1.0, 1.4, 1.0, 1.0)])
    assert not found.uneven
    assert not found.slower


def test_rows_that_slow_messages_explain_are_not_uneven() -> None:
    shares = [1.0] * 4 + [0.25, 0.2, 0.15, 0.1]
    found = estimate_changes(shares, [log(3 * share + 1 - share) for share in shares])
    assert found.latency is not None
    assert found.latency.slower
    assert not found.uneven


def test_a_factor_without_remaining_rows_is_not_reported() -> None:
    """Messages 7.4 times as long: .15 of the rows' time explains more than they took."""
    found = estimate_changes([1.0] * 4 + [0.15] * 4, [log(7.4)] * 4 + [0.0] * 4)
    assert found.bandwidth is None
    assert found.undetermined == {"links": (4, 5, 6, 7)}
    assert found.latency is not None
    assert found.latency.factor == pytest.approx(7.4)


def test_a_factor_with_an_error_above_one_half_is_not_reported() -> None:
    found = estimate_changes([1.0] * 3 + [0.0] * 3, [log(t) for t in (0.2, 1, 5, 1, 1, 1)])
    assert found.latency is None
    assert found.undetermined == {"messages": (0, 1, 2)}
    assert found.bandwidth is not None


def test_a_uniform_speed_up_leaves_nothing_in_between() -> None:
    found = estimate_changes([1.0] * 3 + [0.5] * 3 + [0.0] * 3, [log(0.5)] * 9)
    assert found.middle is not None
    assert found.middle.factor == pytest.approx(1.0)
    assert not found.middle.moved
    assert found.faster


def test_the_factor_of_sizes_in_between_is_that_of_the_table() -> None:
    """Messages three times as slow, and sizes in between as before: they print 1.00x."""
    times = tuple(3.0 if size <= 2**22 else 1.0 for size in SIZES)
    found = diagnose(SYSTEM, [run(SYSTEM, noise=times)], [run(SYSTEM, name="old")])
    [past] = found.past
    assert past is not None
    assert past.changes.middle is not None
    assert past.changes.middle.factor < 0.9
    sizes = [format_bytes(past.sizes[row]) for row in past.changes.middle.rows]
    assert f"{sizes[0]} to {sizes[-1]} 1.00x the time" in found.findings[0].text


def test_named_sizes_do_not_overlap() -> None:
    """Shares of latency are not monotone in the size where the protocol changes."""
    base = diagnose(SYSTEM, [run(SYSTEM)], [run(SYSTEM, name="old")]).past[0]
    assert base is not None
    shares = [1.0, 1.0, 1.0, 0.1, 0.5, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1][: len(base.sizes)]
    past = replace(base, changes=estimate_changes(shares, [0.0] * len(shares)))
    [[told, *_]] = describe_past(SYSTEM, [past])
    assert "256 KiB and 4 MiB 1.00x the time" in told.text
    assert "links (by 64 KiB and 1 MiB and 16 MiB to 4 GiB)" in told.text


def test_one_run_without_a_common_row_does_not_stop_the_others() -> None:
    runs = [run(SYSTEM, (1, 8), "one"), run(SYSTEM, name="all")]
    apart = run(SYSTEM, (1, 8), "apart", sizes=(3 * 2**10, 3 * 2**20))
    old = [apart, run(SYSTEM, name="old")]
    found = diagnose(SYSTEM, runs, old)
    assert [past is None for past in found.past] == [True, False]
    assert "no row is in both logs: one has sizes" in explain_missing(runs[0], old)
    assert explain_missing(run(SYSTEM, (2, 8)), old) == "no baseline is of this test"


def test_uneven_rows_are_named_and_make_the_exit_code_1(tmp_path: Path) -> None:
    """At sizes that links limit: smaller ones mostly wait for messages, which would be slower."""
    old = written(tmp_path / "old.txt", 1.0, powers=range(13, 33))
    sizes = [2**power for power in range(27, 33)]
    pairs = zip(sizes, (1.66, 2.22, 2.05, 1.4, 1.4, 1.0), strict=True)
    rows = tuple((n, t, t) for n, times in pairs for t in [times * (40 + n / 250e3)])
    new = tmp_path / "new.txt"
    new.write_text("\n".join(text(Written("all_reduce", 16, 2, rows))))
    code, out, _ = ask(str(new), "--baseline", old)
    said = " ".join(out.split())
    assert code == 1
    assert "slower than before, unevenly (old.txt): 128 MiB 1.66x, 256 MiB 2.22x" in said
    assert "4 GiB 1." not in said.split("unevenly")[1].split("explains")[0]


def test_an_unusable_baseline_is_reported_beside_a_usable_one(tmp_path: Path) -> None:
    new, good = written(tmp_path / "new.txt", 1.0), written(tmp_path / "good.txt", 1.0)
    other = tmp_path / "other.txt"
    sizes = (2**20, 2**21)
    rows = tuple((n, 50.0, 50.0) for n in sizes)
    other.write_text("\n".join(text(Written("all_reduce", 128, 16, rows))))
    code, out, _ = ask(new, "--baseline", good, "--baseline", str(other), "--json")
    assert code == 0
    [told] = json.loads(out)["left_out"]
    assert told.startswith("baseline other.txt is left out: ")


def test_mistakes_are_reported_in_one_line(tmp_path: Path) -> None:
    new = written(tmp_path / "new.txt", 1.0)
    other = written(tmp_path / "other.txt", 1.0, "all_gather")
    code, _, error = ask(new, "--baseline", other)
    assert code == 2
    assert error.count("\n") == 1
    assert "--baseline: the baseline is of another test" in error
    code, _, error = ask(new, "--baseline", "kept")
    assert code == 2
    assert error.count("\n") == 1
