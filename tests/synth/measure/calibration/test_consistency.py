"""What a log claims is held to what is described before any verdict, by doctor and calibrate alike.

A contradiction is said first, with both sides; what a verb cannot use is left out with a note.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hierarchies import InputError, describe_system, load
from hierarchies.devices import devices as accelerators
from hierarchies.devices import is_same_device
from log_writer import Written, devices, text
from synth.cli.app import app
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import Measurement
from synth.measure.logs.matching import CallerFacts, check_devices, match_log
from synth.measure.logs.reading import parse_logs
from synth.measure.logs.tables import CheckedLog

SIZES = tuple(1 << power for power in range(23, 31))
H100 = "NVIDIA H100 80GB HBM3"


def log_at(seconds: Any, ranks: int = 16, hosts: int = 2, test: str = "all_reduce") -> str:
    """A log whose row of each size took so many seconds."""
    rows = tuple((size, seconds(size) * 1e6, seconds(size) * 1e6) for size in SIZES)
    told = Written(test, ranks, hosts, rows)
    return "\n".join([f"{test}_perf", *devices(told, H100), *text(told, head=False)])


def bounded(times: float, system: str = "dgx-h100:2") -> str:
    """A log whose largest row takes so many times its bound, and the others no less of theirs."""
    machine = load(system)
    members = machine.hierarchy.cardinalities
    predictor = Predictor(machine, Measurement("all-reduce", members, members, ()))
    return log_at(lambda size: predictor.bound(size).seconds * times)


def ask(tmp_path: Path, verb: str, *logs: str, system: str = "dgx-h100:2") -> tuple[int, str, Any]:
    """The exit code, what is said first, and the answer."""
    names = []
    for number, log in enumerate(logs):
        place = tmp_path / f"{number}.txt"
        place.write_text(log)
        names.append(str(place))
    said = CliRunner().invoke(app, [verb, system, *names])
    body = CliRunner().invoke(app, [verb, system, *names, "--json"])
    found = json.loads(body.stdout) if body.exit_code in (0, 1) and body.stdout else None
    return said.exit_code, " ".join((said.stdout + said.stderr).split()), found


@pytest.mark.parametrize("times", [0.3, 0.7, 0.99])
def test_what_beats_the_bound_is_said_first_with_both_sides(tmp_path: Path, times: float) -> None:
    code, said, body = ask(tmp_path, "doctor", bounded(times))
    head = "The log contradicts the description: 0.txt: all-reduce of 2 x 8 took "
    assert code == 1
    assert head in said
    assert "As expected" not in said
    assert "as expected" not in said
    assert "level 'node' has 8 ports of 50 GB/s" in said
    assert any(one["kind"] == "below-bound" for one in body["findings"])
    code, said, body = ask(tmp_path, "calibrate", bounded(times))
    if times < 0.5:
        assert code == 2
        assert "allows no less than" in said
    else:
        assert code == 0
        assert said.index(head) < said.index("measured rows fitted")
        assert body["contradicted"]
        assert body["files"][0]["text"].startswith("# 0.txt: all-reduce of 2 x 8 took ")


@pytest.mark.parametrize("times", [1.0, 1.2, 3.0])
def test_what_does_not_beat_the_bound_contradicts_nothing(tmp_path: Path, times: float) -> None:
    _, said, body = ask(tmp_path, "doctor", bounded(times))
    assert "contradicts" not in said
    assert all(one["kind"] != "below-bound" for one in body["findings"])
    assert ("As expected" in said) != any(
        one["kind"] in ("short", "above-prediction") for one in body["findings"]
    )


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("dgx-b200:2", "NVIDIA B200"),
        ("dgx-h100:2", H100),
    ],
)
def test_a_calibrated_machine_does_not_contradict_its_own_log(
    tmp_path: Path, name: str, device: str
) -> None:
    """Its links carry what was measured, which runs may exceed by their noise."""
    machine = load(name)
    fast, faster = (bounded(times, name).replace(H100, device) for times in (0.8, 0.735))
    logs = parse_logs(fast, "fast.txt")
    known = fit(machine, [match_log(machine, one).measurement for one in logs]).system
    place = tmp_path / "my.toml"
    place.write_text(describe_system(known))
    code, said, _ = ask(tmp_path, "doctor", faster, system=f"{place}:2")
    assert code == 0
    assert "contradicts" not in said


DRIVER = {
    "A100 SXM4 40 GB": ("NVIDIA A100-SXM4-40GB", "A100-SXM-80GB", "NVIDIA A100-SXM4-80GB"),
    "A100 80GB PCIe": ("NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB"),
    "H100 SXM5 80 GB": (H100, "NVIDIA H100", "NVIDIA H100 SXM5"),
    "H100 PCIe": ("NVIDIA H100 PCIe",),
    "H100 NVL": ("NVIDIA H100 NVL",),
    "H200 SXM5 141 GB": ("NVIDIA H200",),
    "H200 NVL": ("NVIDIA H200 NVL",),
    "V100 SXM2": ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2-16GB"),
    "V100 SXM3": ("Tesla V100-SXM3-32GB-H",),
    "V100 PCIe": ("Tesla V100-PCIE-16GB",),
    "B200 SXM 180 GB": ("NVIDIA B200",),
    "Blackwell B200 (GB200)": ("NVIDIA GB200",),
    "Instinct MI250 128 GB": ("AMD Instinct MI250",),
    "Instinct MI250X 128 GB": ("AMD Instinct MI250X",),
    "Instinct MI300X 192 GB": ("AMD Instinct MI300X", "AMD Instinct MI300X VF"),
    "Instinct MI325X 256 GB": ("AMD Instinct MI325X",),
    "L40S 48 GB": ("NVIDIA L40S",),
    "L40 48 GB": ("NVIDIA L40",),
}


def test_every_device_is_distinguished_by_its_exact_model() -> None:
    for described_as in DRIVER:
        for other, names in DRIVER.items():
            for name in names:
                assert is_same_device(name, described_as) == (other == described_as), (
                    name,
                    described_as,
                )


def test_what_a_driver_calls_a_device_of_the_catalogue_is_that_device() -> None:
    for name in accelerators():
        assert is_same_device(f"NVIDIA {name}", name)
        assert is_same_device("NVIDIA Graphics Device", name)


def test_a_log_of_several_kinds_is_refused_where_one_is_not_of_the_machine() -> None:
    lines = log_at(lambda size: size / 1e9).splitlines()
    at = max(number for number, line in enumerate(lines) if H100 in line)
    lines[at] = lines[at].replace(H100, "NVIDIA H100 PCIe")
    with pytest.raises(InputError, match="is of NVIDIA H100 PCIe, and dgx-h100 has H100 SXM5"):
        check_devices(load("dgx-h100:2"), parse_logs("\n".join(lines), "a.txt"))


def listed(ranks: int, hosts: int) -> CheckedLog:
    [log] = parse_logs(log_at(lambda size: size / 1e9, ranks, hosts), "a.txt")
    return log


@given(st.integers(1, 4), st.integers(1, 16), st.sampled_from([1, 2, 4]))
@settings(max_examples=40)
def test_no_host_has_more_devices_than_are_described(hosts: int, each: int, nodes: int) -> None:
    if hosts * each < 2:
        return
    system = load(f"dgx-h100:{nodes}")
    log = listed(hosts * each, hosts)
    if hosts <= nodes and each <= 8:
        assert match_log(system, log).measurement.members == (hosts, each)
        return
    said = "devices in a host, dgx-h100 has 8" if each > 8 else "hosts|ranks"
    with pytest.raises(InputError, match=said):
        match_log(system, log)


def test_what_the_caller_says_is_held_to_the_log() -> None:
    system = load("dgx-h100:4")
    for given_, said in (
        (CallerFacts(hosts=4), "of 2 hosts, --hosts says 4"),
        (CallerFacts(members=(4, 4)), "are on 4 hosts, the log is of 2"),
    ):
        with pytest.raises(InputError, match=said):
            match_log(system, listed(16, 2), given_)
    assert match_log(system, listed(16, 2), CallerFacts(hosts=2)).measurement.members == (2, 8)


SLOW = log_at(lambda size: size / 1e11 + 1e-4)
TABLES = {
    "all-reduce": SLOW,
    "send-receive": log_at(lambda size: size / 2e10 + 1e-4, test="sendrecv"),
    "gather": "\n".join(
        ["gather_perf", *text(Written("all_gather", 16, 2, ((1 << 20, 99.0, 99.0),)), head=False)]
    ),
    "few": "\n".join(log_at(lambda size: size / 1e10 + 2e-4).splitlines()[:-9]),
}
USES = {
    "doctor": {"all-reduce": True, "send-receive": False, "gather": False},
    "calibrate": {"all-reduce": True, "send-receive": True, "gather": False},
}


@pytest.mark.parametrize("verb", USES)
@pytest.mark.parametrize("order", [("all-reduce", "gather", "send-receive"), ("send-receive",)])
def test_a_table_that_a_verb_cannot_use_is_left_out_with_a_note(
    tmp_path: Path, verb: str, order: tuple[str, ...]
) -> None:
    code, said, _ = ask(tmp_path, verb, "\n".join(TABLES[name] for name in order))
    used = [name for name in order if USES[verb][name]]
    assert (code == 2) == (not used)
    for name in order:
        assert (f"a table of {name} is left out" in said) == (not USES[verb][name])
    assert f"'{verb}'" not in said


@pytest.mark.parametrize("verb", USES)
@pytest.mark.parametrize("way", ["PAT", "NVLS", "CollnetDirect"])
def test_a_run_by_an_algorithm_that_the_machine_lacks_is_left_out(
    tmp_path: Path, verb: str, way: str
) -> None:
    lines = [f"NCCL_ALGO={way} ./all_reduce_perf -g 8", *SLOW.splitlines()[1:]]
    alone = "\n".join(lines).replace(H100, "NVIDIA A100-SXM4-40GB")
    plain = SLOW.replace(H100, "NVIDIA A100-SXM4-40GB")
    code, said, _ = ask(
        tmp_path, verb, f"./all_reduce_perf -g 8\n{plain}\n{alone}", system="dgx-a100:2"
    )
    assert code in (0, 1)
    assert "a table of all-reduce is left out" in said
    assert ask(tmp_path, verb, alone, system="dgx-a100:2")[0] == 2


def test_a_table_of_too_few_sizes_is_left_out_of_a_fit(tmp_path: Path) -> None:
    short = "\n".join(
        ["all_gather_perf", *text(Written("all_gather", 16, 2, ((1 << 25, 9e3, 9e3),)), head=False)]
    )
    code, said, body = ask(tmp_path, "calibrate", f"{SLOW}\n{short}")
    assert code == 0
    assert "all-gather is left out: 1 of at least 3 sizes" in said
    assert body["rows"] == 2 * len(SIZES)
    assert ask(tmp_path, "calibrate", short)[0] == 2
