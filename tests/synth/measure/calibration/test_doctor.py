"""The doctor names the level that was made slow, and none without ground."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from exhaustive import examples
from hierarchies import Calibration, Crossing, Fit, InputError, System, load
from hierarchies.units import format_bytes, format_duration
from log_writer import Written, devices, text
from places import ROOT
from shared import shared
from synth.cli.app import app
from synth.collective.algorithms.nccl_model import SPELLINGS
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.candidates import Predictor, candidates
from synth.measure.calibration.measurements import Measurement, Sample, busy_part
from synth.measure.calibration.slow_level import SHORT
from synth.measure.calibration.typical import apply_typical
from synth.measure.doctor import Diagnosis, diagnose
from synth.measure.doctor.blame import next_steps
from synth.measure.logs.header import ALGORITHMS
from synth.measure.logs.matching import CallerFacts, MatchedLog, match_log
from synth.measure.logs.reading import parse_logs
from synth.measure.logs.tables import CheckedLog, Table
from synth.measure.logs.text import read_log_text
from synth.service.page.views.found import view_of_answer as shown

SYSTEM = load("dgx-a100:4")
SIZES = tuple(2**power for power in range(10, 33, 2))
LOGS = ROOT / "docs" / "logs"


def slowed(system: System, **shares: float) -> System:
    """The machine with the bandwidth of some levels at a share of what is described."""
    links = tuple(
        replace(link, bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * shares[name])
        if name in shares
        else link
        for name, link in zip(system.hierarchy.names, system.links, strict=True)
    )
    return replace(system, links=links)


def measured_on(system: System, members: tuple[int, ...], name: str) -> MatchedLog:
    """A run by rings on a machine that may be another than the one described."""
    bare = Measurement("all-gather", members, members, (), "ring", "simple", name)
    there = Predictor(system, bare)
    samples = tuple(Sample(size, there.at(size).seconds) for size in SIZES)
    log = CheckedLog(Table(name, "all_gather", ()), "all-gather", 1, 1, 1, ())
    return MatchedLog(log, replace(bare, samples=samples))


def named(found: Diagnosis) -> set[tuple[str, str]]:
    return {(f.source, f.level) for f in found.findings if f.kind == "level-short"}


def test_a_machine_that_is_as_described_is_not_blamed() -> None:
    runs = [measured_on(SYSTEM, (1, 8), "one"), measured_on(SYSTEM, (4, 8), "four")]
    found = diagnose(SYSTEM, runs)
    assert [f.kind for f in found.findings] == ["as-predicted", "latency-as-predicted"] * 2
    assert found.healthy
    assert all(run.share == pytest.approx(1) for run in found.runs)


@given(st.floats(0.05, 0.8))
def test_one_node_clears_its_level_and_the_other_is_named(share: float) -> None:
    there = slowed(SYSTEM, node=share)
    found = diagnose(SYSTEM, [measured_on(there, (1, 8), "one"), measured_on(there, (4, 8), "all")])
    assert named(found) == {("all", "node")}
    [blamed] = [f for f in found.findings if f.kind == "level-short"]
    assert blamed.share == pytest.approx(share, rel=0.02)
    ports = any(abs(share - part) < 0.015 for part in (0.125, 0.25, 0.5))
    assert not ports or "of its 8 ports" in blamed.text


def test_half_of_the_ports_are_reported_where_the_arithmetic_fits() -> None:
    for share, said in ((0.5, "4 of its 8 ports"), (0.25, "2 of its 8 ports"), (0.41, "")):
        there = slowed(SYSTEM, node=share)
        runs = [measured_on(there, (1, 8), "one"), measured_on(there, (4, 8), "all")]
        [blamed] = [f for f in diagnose(SYSTEM, runs).findings if f.kind == "level-short"]
        assert ("of its 8 ports" in blamed.text) == bool(said)
        assert said in blamed.text


@given(st.floats(0.05, 0.6))
def test_one_log_over_two_levels_names_neither_and_lists_tests_that_would(share: float) -> None:
    there = slowed(SYSTEM, gpu=share)
    found = diagnose(SYSTEM, [measured_on(there, (4, 8), "all")])
    if not found.runs[0].short:
        return
    assert not named(found)
    [opened] = [f for f in found.findings if f.kind == "open"]
    assert set(opened.suspects) == {"node", "gpu"}
    assert opened.tests == (
        "node-alone-all-reduce-ring-simple",
        "gpu-alone-all-reduce-ring-simple",
    )
    assert "% of what is described: this log cannot distinguish them" in opened.text
    least = opened.share == max(found.runs[0].delivered.values())
    assert least == ("its links are busy longest, so the least fault" in opened.text)
    assert least != ("hardly ever so slow" in opened.text)


@pytest.mark.parametrize(
    ("machine", "level", "said"),
    [
        ("dgx-h100:2", "node", ["ib_write_bw", "nccl-tests on two", "GDRDMA", "INIT,NET,TUNING"]),
        ("dgx-h100:2", "gpu", ["nvidia-smi nvlink -s", "nvbandwidth"]),
        ("aws-p4d:2", "node", ["nccl-tests on two", "GDRDMA"]),
        ("mi300x:2", "node", ["rccl-tests on two", "RCCL say"]),
        ("mi300x:2", "gpu", ["TransferBench a2a"]),
        ("aws-trn2:2", "node", []),
    ],
)
def test_what_to_run_is_of_the_links_of_the_level(
    machine: str, level: str, said: list[str]
) -> None:
    system = load(machine)
    steps = next_steps(system, level if level == "node" else system.hierarchy.names[-1])
    assert all(one in " ".join(steps) for one in said)
    assert bool(said) == bool(steps)
    assert len(steps) <= 2
    assert ("ib_write_bw" in " ".join(steps)) == (
        level == "node" and system.links[0].medium in ("infiniband", "roce") and bool(steps)
    )


@given(st.floats(0.05, 0.8), st.floats(0.05, 0.8))
def test_what_is_named_is_always_slow(node: float, gpu: float) -> None:
    there = slowed(SYSTEM, node=node, gpu=gpu)
    shapes = {"one": (1, 8), "all": (4, 8), "across": (4, 1)}
    found = diagnose(SYSTEM, [measured_on(there, m, name) for name, m in shapes.items()])
    slow = {"node": node, "gpu": gpu}
    for finding in found.findings:
        if finding.kind == "level-short":
            assert finding.share == pytest.approx(slow[finding.level], rel=0.12)


@examples(5, 25)
@given(st.floats(0.05, 1.0), st.floats(0.05, 1.0), st.booleans())
def test_no_level_is_cleared_and_blamed_in_one_answer(node: float, gpu: float, rings: bool) -> None:
    """With logs of all levels, and one over both that ran as predicted, or by rings instead."""
    system = load("dgx-h100:2")
    there = slowed(system, node=node, gpu=gpu)
    bare = Measurement("all-reduce", (2, 8), (2, 8), (), source="all")
    ran = Predictor(there, replace(bare, algorithm="ring" if rings else "nvls_tree"))
    samples = tuple(Sample(size, ran.at(size).seconds) for size in SIZES)
    log = CheckedLog(Table("all", "all_reduce", ()), "all-reduce", 1, 1, 1, ())
    alone = [measured_on(there, (1, 8), "one"), measured_on(there, (2, 1), "across")]
    found = diagnose(system, [MatchedLog(log, replace(bare, samples=samples)), *alone])
    slow = {level for _, level in named(found)}
    cleared = {f.level for f in found.findings if f.text.startswith("not level")}
    assert slow == {name for name, share in (("node", node), ("gpu", gpu)) if share < SHORT}
    assert not slow & cleared
    if found.runs[0].short and slow:
        [why] = [f for f in found.findings if f.kind == "explained"]
        assert rings or "ran, not nvls_tree" not in why.text
        assert "ring" in why.text or "so slow, nvls_tree" in why.text
        assert not any(f.kind in ("unexplained", "open") for f in found.findings)


def test_launches_are_expected_and_only_what_is_above_them_is_found() -> None:
    """Of a run as priced nothing; of messages four times as slow, three more times each."""
    slow = tuple(replace(link, latency_seconds=4 * link.latency_seconds) for link in SYSTEM.links)
    usual = measured_on(SYSTEM, (4, 8), "usual")
    late = measured_on(replace(SYSTEM, links=slow), (4, 8), "late")
    hops = usual.measurement.samples[0].seconds - Protocol.SIMPLE.launch_seconds
    levels = tuple(Crossing(link.latency_seconds, 1.0) for link in SYSTEM.links)
    fit = Fit("simple", levels, Protocol.SIMPLE.launch_seconds)
    for system in (SYSTEM, replace(SYSTEM, calibration=Calibration((fit,), ()))):
        kinds = [one.kind for one in diagnose(system, [usual]).findings]
        assert kinds == ["as-predicted", "latency-as-predicted"]
        found = diagnose(system, [late])
        assert not found.healthy
        [said] = [f.text for f in found.findings if f.kind == "latency"]
        assert found.runs[0].extra_seconds == pytest.approx(3 * hops, rel=1e-3)
        assert said.endswith(f"{format_duration(3 * hops)} more")
    [unlaunched] = diagnose(replace(SYSTEM, launches=False), [usual]).runs
    assert unlaunched.extra_seconds == pytest.approx(Protocol.SIMPLE.launch_seconds, rel=1e-3)


def test_a_log_without_small_sizes_says_nothing_of_latency() -> None:
    """The verdict is of large sizes alone, and says so."""
    run = measured_on(SYSTEM, (1, 8), "large")
    samples = tuple(s for s in run.measurement.samples if s.size_bytes >= 2**28)
    found = diagnose(SYSTEM, [replace(run, measurement=replace(run.measurement, samples=samples))])
    assert [f.kind for f in found.findings] == ["as-predicted", "no-small-sizes"]


def test_rows_of_one_size_that_contradict_each_other_are_named() -> None:
    """Twice the time is no noise; a fifth more may be."""
    run = measured_on(SYSTEM, (1, 8), "twice")
    for factor, named_ in ((2.0, ["contradicting-rows"]), (1.2, [])):
        again = Sample(2**24, factor * run.measurement.samples[7].seconds)
        assert run.measurement.samples[7].size_bytes == 2**24
        inside = tuple(replace(sample, in_place=True) for sample in run.measurement.samples)
        rows = (*run.measurement.samples, again, *inside)
        found = diagnose(SYSTEM, [replace(run, measurement=replace(run.measurement, samples=rows))])
        texts = [f.text for f in found.findings if f.kind == "contradicting-rows"]
        assert [f.kind for f in found.findings if f.kind == "contradicting-rows"] == named_
        assert all("16 MiB by 2.0x" in text for text in texts)


def test_a_log_with_slow_small_sizes_is_not_healthy(tmp_path: Path) -> None:
    """By the prices of other machines: a latency of four times what such links have."""
    for name, latency in (("usual", 40.0), ("late", 160.0)):
        rows = tuple((s, latency + s / 2.4e5, latency + s / 2.4e5) for s in SIZES)
        log = "\n".join(text(Written("all_reduce", 8, 1, rows)))
        (tmp_path / f"{name}.txt").write_text(log + "\n")
        result = CliRunner().invoke(app, ["doctor", "dgx-h100:1", str(tmp_path / f"{name}.txt")])
        assert result.exit_code == (name == "late")
        head = "Small sizes fall short: 1 of 1 run" if name == "late" else "As expected: 1 run"
        assert head in result.stdout
        assert "small sizes (" in result.stdout


def test_runs_faster_than_prediction_and_bound_are_reported() -> None:
    found = diagnose(SYSTEM, [measured_on(slowed(SYSTEM, gpu=4.0), (1, 8), "one")])
    kinds = [f.kind for f in found.findings]
    assert "above-prediction" in kinds
    assert "below-bound" in kinds


def test_a_forced_way_is_predicted_and_a_wrong_one_refused() -> None:
    log = Written("all_reduce", 8, 1, tuple((size, 100.0, 100.0) for size in SIZES))
    for line, way in (("NCCL_ALGO=Tree", "tree"), ("NCCL_ALGO=Ring", "ring")):
        [read] = parse_logs("\n".join([f"export {line}", *text(log)]), "a.txt")
        predictor = Predictor(load("dgx-a100:1"), match_log(load("dgx-a100:1"), read).measurement)
        assert predictor.at(2**20).way == way
    [read] = parse_logs("\n".join(["export NCCL_ALGO=NVLS", *text(log)]), "a.txt")
    one = load("dgx-a100:1")
    with pytest.raises(InputError, match="forced to nvls"):
        diagnose(one, [match_log(one, read)])


@pytest.mark.parametrize("name", [*SPELLINGS])
def test_what_a_log_was_forced_to_is_read_back_as_nccl_spells_it(name: str) -> None:
    for said in (SPELLINGS[name], SPELLINGS[name].upper(), SPELLINGS[name].lower()):
        assert ALGORITHMS[said.lower()] == name
    assert "_" not in SPELLINGS[name]


@pytest.mark.parametrize("told", ["nvls_tree", "NVLSTree", "collnet_direct", "CollnetChain"])
def test_what_users_call_switches_that_reduce_is_accepted(told: str) -> None:
    asked = Measurement("all-reduce", (4, 8), (4, 8), (), told)
    predictor = Predictor(load("dgx-h100:4"), asked)
    assert predictor.at(2**20).way == "nvls_tree"
    assert {one.key[1] for one in candidates(load("dgx-h100:4"), asked)} == {"in-network"}


def test_advice_is_in_words_that_nccl_knows() -> None:
    """Rings where trees over switches were predicted: what is to be set must be known to NCCL."""
    system = load("dgx-h100:2")
    bare = Measurement("all-reduce", (2, 8), (2, 8), (), source="a.txt")
    rings = Predictor(system, replace(bare, algorithm="ring"))
    samples = tuple(Sample(size, rings.at(size).seconds) for size in SIZES)
    log = CheckedLog(Table("a.txt", "all_reduce", ()), "all-reduce", 1, 1, 1, ())
    found = diagnose(system, [MatchedLog(log, replace(bare, samples=samples))])
    [told] = [f.text for f in found.findings if f.kind == "other-algorithm"]
    assert "NCCL_ALGO=NVLSTree " in told


def test_ports_of_idle_devices_do_not_count() -> None:
    measurement = Measurement("all-gather", (4, 1), (4, 1), ())
    part = busy_part(SYSTEM, measurement).system
    node = SYSTEM.hierarchy.index("node")
    assert part.links[node].ports == 1
    assert part.port_bytes_per_second(node) == SYSTEM.port_bytes_per_second(node)


# From logs to devices.


def a_log(ranks: int, hosts: int, groups: list[int] | None = None, members: int = 0) -> CheckedLog:
    told = Written("all_reduce", ranks, hosts, ())
    rows = Written("all_reduce", members or ranks, 1, tuple((s, 50.0, 50.0) for s in SIZES[:6]))
    lines = ["all_reduce_perf", *devices(told, groups=groups), *text(rows, head=False)]
    [log] = parse_logs("\n".join(lines), "a.txt")
    return log


@pytest.mark.parametrize(
    ("ranks", "hosts", "members"),
    [(32, 4, (4, 8)), (16, 2, (2, 8)), (8, 1, (1, 8)), (2, 2, (2, 1)), (4, 1, (1, 4))],
)
def test_hosts_and_ranks_determine_the_devices(
    ranks: int, hosts: int, members: tuple[int, ...]
) -> None:
    found = match_log(SYSTEM, a_log(ranks, hosts)).measurement
    assert (found.members, found.busy) == (members, members)


@pytest.mark.parametrize(
    ("ranks", "hosts", "said"),
    [(64, 8, "64 ranks"), (8, 8, "8 hosts"), (24, 2, "12 devices in a host"), (5, 5, "5 hosts")],
)
def test_what_does_not_fit_is_refused(ranks: int, hosts: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        match_log(SYSTEM, a_log(ranks, hosts))


def test_where_nothing_tells_the_caller_is_asked() -> None:
    told = Written("all_reduce", 16, 2, tuple((size, 50.0, 50.0) for size in SIZES))
    [log] = parse_logs("\n".join(["all_reduce_perf", *text(told, head=False)]), "a.txt")
    with pytest.raises(InputError, match="--hosts"):
        match_log(SYSTEM, log)
    assert match_log(SYSTEM, log, CallerFacts(hosts=2)).measurement.members == (2, 8)
    assert match_log(SYSTEM, log, CallerFacts(members=(4, 4))).measurement.members == (4, 4)
    with pytest.raises(InputError, match="32 ranks"):
        match_log(SYSTEM, log, CallerFacts(members=(4, 8)))


def test_groups_that_are_no_levels_are_refused() -> None:
    crooked = [(rank // 2 + rank % 2) % 16 for rank in range(32)]
    with pytest.raises(InputError, match="no block of levels"):
        match_log(SYSTEM, a_log(32, 4, crooked, 2))


# The verbs.


def ask(*words: str) -> tuple[int, str, str]:
    said = CliRunner().invoke(app, list(words))
    return said.exit_code, said.stdout, said.stderr


def test_the_verb_says_in_json_what_the_table_says() -> None:
    file = str(LOGS / "sophia-all-gather-2x8.csv")
    code, out, _ = ask("doctor", "dgx-a100:2", file, "--json")
    body = json.loads(out)
    [run] = body["runs"]
    assert run["members"] == [2, 8]
    assert code == int(run["share"] < 0.9)
    _, table, _ = ask("doctor", "dgx-a100:2", file)
    assert all(finding["text"] in " ".join(table.split()) for finding in body["findings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["doctor", "dgx-a100:2"], "no log is given"),
        (["doctor", "dgx-a100:2", "none.txt"], "cannot be read"),
        (["doctor", "dgx-a100:2", "README.md"], "no table"),
        (["doctor", "dgx-a100:1", str(LOGS / "sophia-all-gather-2x8.csv")], "16 ranks"),
        (["calibrate", "--plan", "dgx-a100:2", "x.txt"], "needs no logs"),
        (["calibrate", "--plan", "aws-trn2:2"], "nccom-test -r WORKERS -N INSTANCES"),
        (["calibrate", "--plan", "tpu-v5e-slice:4x4"], "time them in JAX"),
        (["calibrate", "dgx-a100:2"], "no log is given"),
    ],
)
def test_mistakes_are_reported_in_one_line(words: list[str], said: str) -> None:
    code, out, error = ask(*words)
    assert (code, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1


def test_the_script_says_what_the_page_says_of_its_time_and_what_comes_next() -> None:
    body = json.loads(ask("calibrate", "--plan", "dgx-a100:2", "--json")[1])
    head = body["files"][0]["text"].split("\n\n")[0]
    page = shown("calibrate", body)
    assert page
    assert page.headline.split(", ")[1] in head
    first, then = (head.index(label) for label, _ in page.onward)
    assert first < then
    assert head.index("collsynth doctor dgx-a100:2 *.txt") < head.index("collsynth calibrate dgx")


def test_the_plan_goes_into_a_file_all_or_nothing(tmp_path: Path) -> None:
    place = tmp_path / "tests.sh"
    assert ask("calibrate", "--plan", "dgx-a100:2", "-o", str(place))[0] == 0
    assert place.read_text().count("mpirun -np 16") > 10
    assert "collsynth calibrate dgx-a100:2 *.txt" in place.read_text()
    before = place.read_text()
    assert ask("calibrate", "--plan", "nowhere", "-o", str(place))[0] == 2
    assert place.read_text() == before
    assert [one.name for one in tmp_path.iterdir()] == ["tests.sh"]


@pytest.mark.parametrize(
    ("ranks", "hosts", "large"), [(64, 8, "dgx-a100:8"), (16, 16, "dgx-a100:16")]
)
def test_a_log_of_more_than_the_machine_has_names_one_that_is_large_enough(
    ranks: int, hosts: int, large: str
) -> None:
    with pytest.raises(InputError) as caught:
        match_log(SYSTEM, a_log(ranks, hosts))
    assert caught.value.hint == f"name the system as large as the one measured: {large}"
    match_log(load(large), a_log(ranks, hosts))


def test_logs_of_different_gpus_are_no_one_machine(tmp_path: Path) -> None:
    files = []
    for model in ("NVIDIA A100", "NVIDIA H100"):
        told = Written("all_reduce", 16, 2, tuple((size, 99.0, 99.0) for size in SIZES))
        lines = ["all_reduce_perf", *devices(told, model), *text(told, head=False)]
        files.append(tmp_path / f"{model[7:]}.txt")
        files[-1].write_text("\n".join(lines))
    code, _, error = ask("doctor", "dgx-a100:2", *map(str, files))
    assert code == 2
    assert "several machines" in error


def test_real_logs_of_a_catalogue_machine_are_diagnosed() -> None:
    folder = shared("nccl-tests-logs")
    system = load("dgx-a100:2")
    runs = [
        match_log(system, log)
        for name in ("sophia-dgxa100-hdr-2x8-allgather-1", "sophia-dgxa100-hdr-2x8-allreduce-1")
        for log in parse_logs(read_log_text(folder / f"{name}.txt"), name)
    ]
    found = diagnose(system, runs)
    assert all(0.8 < (run.share or 0) < 1.0 for run in found.runs)
    assert not named(found)


# Calibrate.


def all_reduces(there: System, members: tuple[int, ...]) -> str:
    """What all_reduce_perf prints on a machine with the links of ``there``."""
    ran = Predictor(there, Measurement("all-reduce", members, members, ()))
    rows = tuple((size, t := ran.at(size).seconds * 1e6, t) for size in SIZES[5:])
    return "\n".join(text(Written("all_reduce", prod(members), members[0], rows)))


@given(st.floats(0.2, 0.7), st.booleans())
def test_sizes_that_are_all_as_short_are_not_short_by_rate_alone(share: float, all_: bool) -> None:
    """Of links at a share of their rate nothing is said; of every time as much longer it is."""
    usual = measured_on(SYSTEM, (4, 8), "usual")
    longer = tuple(replace(s, seconds=s.seconds / share) for s in usual.measurement.samples)
    late = replace(usual, measurement=replace(usual.measurement, samples=longer))
    slow = measured_on(slowed(SYSTEM, node=share, gpu=share), (4, 8), "slow")
    found = diagnose(SYSTEM, [late if all_ else slow])
    assert any("each message waits for" in f.text for f in found.findings) == all_


@pytest.mark.parametrize("alone", [False, True])
def test_logs_of_a_slow_network_warn_that_prices_include_the_fault(
    tmp_path: Path, alone: bool
) -> None:
    """One log of all devices leaves the level likely; one of an inner level alone tells it."""
    stated = load("dgx-h100:4")
    slow = apply_typical(slowed(stated, node=0.3))
    files = {"all.txt": all_reduces(slow, (4, 8))}
    if alone:
        files["node.txt"] = all_reduces(slow, (1, 8))
    for name, said in files.items():
        (tmp_path / name).write_text(said)
    names = [str(tmp_path / name) for name in files]
    machine = "whose level 'node' falls short" if alone else "most likely by level 'node'"
    for verb in ("doctor", "calibrate"):
        page = shown(verb, json.loads(ask(verb, "dgx-h100:4", *names, "--json")[1]))
        assert page
        for lines in (ask(verb, "dgx-h100:4", *names)[1], " ".join(page.lines)):
            assert f"{machine}: prices calibrated with them include that fault" in " ".join(
                lines.split()
            )
        assert verb == "doctor" or machine in page.headline
        assert ("next, for level 'node': ib_write_bw" in " ".join(page.lines)) == (verb == "doctor")
        assert "from now on" not in " ".join(page.lines)


def test_logs_as_expected_are_of_no_fault() -> None:
    for verb in ("doctor", "calibrate"):
        said = ask(verb, "dgx-a100:2", *fixtures())[1]
        assert "fault" not in said
        assert "short" not in said


def fixtures() -> list[str]:
    return [str(LOGS / f"sophia-{name}-2x8.csv") for name in ("all-gather", "all-reduce")]


def test_calibrate_writes_a_description_that_predicts_what_was_measured(tmp_path: Path) -> None:
    place = tmp_path / "my.toml"
    assert ask("calibrate", "dgx-a100:2", *fixtures(), "-o", str(place))[0] == 0
    system = load(str(place))
    assert system.calibration is not None
    logs = [log for file in fixtures() for log in parse_logs(read_log_text(file), file)]
    found = diagnose(system, [match_log(system, log) for log in logs])
    assert all(run.share == pytest.approx(1, abs=0.1) for run in found.runs)
    assert not any(finding.kind in ("short", "level-short") for finding in found.findings)


def test_calibrate_prints_its_errors_and_undetermined_numbers(tmp_path: Path) -> None:
    place = tmp_path / "my.toml"
    code, out, _ = ask("calibrate", "dgx-a100:2", *fixtures(), "-o", str(place))
    body = json.loads(ask("calibrate", "dgx-a100:2", *fixtures(), "--json")[1])
    assert code == 0
    middle, worst = body["median_error"], body["worst"]["times"]
    at = format_bytes(body["worst"]["bytes"])
    off = f"{middle:.1%} off in the median, {worst:.2g} times the price at worst, at {at}"
    assert f"44 measured rows fitted, {off}" in " ".join(out.split())
    assert all(line in " ".join(out.split()) for line in body["undetermined"])
    assert ask("calibrate", "dgx-a100:2", *fixtures())[1] == out


def test_a_size_that_is_off_by_two_is_in_headline_and_verdict_of_terminal_and_page(
    tmp_path: Path,
) -> None:
    rows = tuple((size, size / 1e5 + 60, size / 1e5 + 60) for size in SIZES[5:])
    off = tuple((size, a * (1 + (size == SIZES[6])), b) for size, a, b in rows)
    for name, each in (("usual", rows), ("off", off)):
        told = Written("all_reduce", 16, 2, each)
        (tmp_path / name).write_text("\n".join(text(told)))
    _, usual, _ = ask("calibrate", "dgx-h100:2", str(tmp_path / "usual"))
    assert "% off in the median" in usual
    assert "times its price" not in usual
    _, out, _ = ask("calibrate", "dgx-h100:2", str(tmp_path / "off"))
    said = " ".join(out.split())
    assert "2 times the price at worst, at 4 MiB" in said
    assert "off: all-reduce of 2 x 8 took 2 times its price at 4 MiB, and " in said
    body = json.loads(ask("calibrate", "dgx-h100:2", str(tmp_path / "off"), "--json")[1])
    page = shown("calibrate", body)
    assert page
    assert page.headline in said
    assert any(line in said for line in page.lines if "times its price" in line)


def test_calibrate_lists_undetermined_numbers_in_json() -> None:
    code, out, _ = ask("calibrate", "dgx-a100:2", *fixtures(), "--json")
    body = json.loads(out)
    assert code == 0
    assert body["rows"] == 44
    assert body["undetermined"]
    assert body["median_error"] < 0.1
    schema = (LOGS.parent / "json.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in schema for key in body if key != "schema_version")


def test_no_file_is_written_where_logs_cannot_be_fitted(tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    told = Written("all_reduce", 16, 2, ((2**20, 99.0, 99.0), (2**22, 199.0, 199.0)))
    few.write_text("\n".join(text(told)))
    place = tmp_path / "my.toml"
    place.write_text("as it was")
    twice = [fixtures()[0], fixtures()[0]]
    for files in ([str(few)], twice, [fixtures()[0], str(tmp_path / "none")]):
        code, out, error = ask("calibrate", "dgx-a100:2", *files, "-o", str(place))
        assert (code, out, error.count("\n")) == (2, "", 1), error
    assert place.read_text() == "as it was"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["few.txt", "my.toml"]


def test_what_was_left_out_stands_in_the_description(tmp_path: Path) -> None:
    told = Written("all_reduce", 16, 2, tuple((size, size / 1e3, size / 1e3) for size in SIZES))
    lines = text(told)
    at = next(i for i, line in enumerate(lines) if f"{SIZES[3]}  " in line)
    lines[at] = lines[at].replace("     0  ", "     7  ", 1)
    log = tmp_path / "log.txt"
    log.write_text("\n".join(lines))
    place = tmp_path / "my.toml"
    code, out, error = ask("calibrate", "dgx-h100:2", str(log), "-o", str(place))
    assert code == 0, error
    assert "left out:\n  log.txt: wrong results at " in out
    first, second, *_ = place.read_text().splitlines()
    assert first.startswith("# log.txt: all-reduce of 2 x 8 took 1.02 us at 1 KiB, and dgx-h100")
    assert second.startswith("# log.txt: wrong results at ")
