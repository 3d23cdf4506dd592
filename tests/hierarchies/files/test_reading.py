"""The TOML descriptions: every catalogue entry, and what is refused with which words."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hierarchies
from each import each
from hierarchies import Domain, InputError, catalogue, describe_system, load, read

FOLDER = Path(hierarchies.__file__).parent / "catalogue"
DEFAULT_COUNTS = {
    "superpod-h100-oversubscribed": 2,
    "tpu-v5e-multislice": 2,
    "tpu-v5e-slice": 16,
    "tpu-v5p-multislice": 2,
    "tpu-v6e-slice": 16,
}
SOURCE = re.compile(r"https?://\S+, [0-9]{4}-[0-9]{2}-[0-9]{2}")
LATENCIES = ("latency_us", "ll_latency_us", "ll128_latency_us")
NUMBERS = ("bandwidth_GB_per_s", *LATENCIES, "ports", "count", "reduces", "wraps")
REDUCING = {
    "dgx-h100": "gpu",
    "dgx-h200": "gpu",
    "aws-p5": "gpu",
    "azure-ndv5": "gpu",
    "superpod-h100-oversubscribed": "gpu",
    "gb200-nvl72": "gpu",
    "gb300-nvl72": "gpu",
    "dgx-b200": "gpu",
    "dgx-b300": "gpu",
}

TEXT = """\
name = "mine"
default_count = 3

[device]
name = "a device"
memory_GB_per_s = 2000
source = "measured"

[[level]]
name = "node"
domain = "switch"
bandwidth_GB_per_s = 50
latency_us = 14.0
ports = 4
through = ["gpu"]
source = "measured"

[[level]]
name = "gpu"
count = 4
domain = "bus"
bandwidth_GB_per_s = 300.5
latency_us = 0
unconfirmed = ["count"]

[level.source]
bandwidth_GB_per_s = "a page"
latency_us = "a guess"
count = "another page"
"""


def raw(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def test_the_catalogue_is_its_files_sorted() -> None:
    names = catalogue()
    assert list(names) == sorted(path.stem for path in FOLDER.glob("*.toml"))
    assert {"dgx-h100", "dgx1-v100", "p2-a100", "tpu-v4-pod-slice"} <= set(names)


@each("name", catalogue())
def test_an_entry_loads_as_it_is_written(name: str) -> None:
    system, text = load(name), raw(name)
    assert system.name == text["name"] == name
    assert system.title
    outermost = DEFAULT_COUNTS.get(name, 4)
    counts = [level["count"] for level in text["level"][1:]]
    assert list(system.hierarchy.cardinalities) == [outermost, *counts]
    assert system.memory_bytes_per_second == text["device"]["memory_GB_per_s"] * 1e9
    for link, level in zip(system.links, text["level"], strict=True):
        assert link.domain.value == level["domain"]
        assert link.bandwidth_bytes_per_second == level["bandwidth_GB_per_s"] * 1e9
        assert link.latency_seconds == level["latency_us"] * 1e-6
        for key in LATENCIES:
            seconds = getattr(link, key.replace("_us", "_seconds"))
            assert seconds == (level[key] * 1e-6 if key in level else None)
        assert link.reduces is level.get("reduces", False)
        assert link.ports == level["ports"]
        assert list(link.through) == level.get("through", [])


@each("name", catalogue())
def test_which_switches_reduce(name: str) -> None:
    """Third generations of NVSwitch and later; InfiniBand only where a cluster says so."""
    system = load(name)
    found = [
        level
        for level, link in zip(system.hierarchy.names, system.links, strict=True)
        if link.reduces
    ]
    assert found == ([REDUCING[name]] if name in REDUCING else [])


@each("name", catalogue())
def test_latencies_of_other_protocols_are_shorter(name: str) -> None:
    """And LL128 is for NVLink: a machine has it on all its links or on none."""
    links = load(name).links
    assert len({link.ll128_latency_seconds is None for link in links}) == 1
    for link in links:
        known = [link.ll_latency_seconds, link.ll128_latency_seconds, link.latency_seconds]
        given = [seconds for seconds in known if seconds is not None]
        assert given == sorted(set(given))


@each("name", catalogue())
def test_every_number_has_an_address_and_a_date(name: str) -> None:
    text = raw(name)
    assert SOURCE.fullmatch(text["device"]["source"])
    for level, link in zip(text["level"], load(name).links, strict=True):
        assert link.sources is not None
        for number in NUMBERS:
            if number in level:
                assert SOURCE.fullmatch(link.sources[number]), (level["name"], number)


@each("name", catalogue())
def test_sources_and_doubts_are_about_numbers_that_exist(name: str) -> None:
    text, system = raw(name), load(name)
    assert set(system.unconfirmed) <= {"memory_GB_per_s"}
    for level, link in zip(text["level"], system.links, strict=True):
        assert set(link.unconfirmed) <= set(NUMBERS) & set(level)
        assert set(link.sources or ()) <= set(NUMBERS) & set(level)


@each("name", catalogue())
@each("count", [1, 2, 7])
def test_an_entry_is_resized_after_a_colon(name: str, count: int) -> None:
    system = load(f"{name}:{count}")
    whole = load(name).resized(count)
    links = [
        replace(link, wraps=found.wraps)
        for link, found in zip(whole.links, system.links, strict=True)
    ]
    assert system == replace(whole, links=tuple(links))
    assert system.hierarchy.cardinalities[0] == count


def test_a_text_is_read_in_si_units() -> None:
    system = read(TEXT)
    assert str(system.hierarchy) == "3 node x 4 gpu"
    assert system.memory_bytes_per_second == 2e12
    node, gpu = system.links
    assert (node.bandwidth_bytes_per_second, node.latency_seconds) == (50e9, 14e-6)
    assert (node.domain, node.ports, node.through) == (Domain.SWITCH, 4, ("gpu",))
    assert (gpu.bandwidth_bytes_per_second, gpu.latency_seconds) == (300.5e9, 0)
    assert (gpu.domain, gpu.ports, gpu.through) == (Domain.BUS, 1, ())
    assert node.sources == dict.fromkeys(["bandwidth_GB_per_s", "latency_us", "ports"], "measured")
    assert gpu.sources == {
        "bandwidth_GB_per_s": "a page",
        "latency_us": "a guess",
        "count": "another page",
    }
    assert gpu.unconfirmed == ("count",)


def test_a_switch_that_reduces_and_quick_protocols_are_read() -> None:
    more = "ports = 4\nreduces = true\nll_latency_us = 2.7\nll128_latency_us = 4"
    node, gpu = read(TEXT.replace("ports = 4", more)).links
    assert (node.reduces, node.ll_latency_seconds, node.ll128_latency_seconds) == (
        True,
        pytest.approx(2.7e-6),
        pytest.approx(4e-6),
    )
    assert node.sources is not None
    assert {"reduces", "ll_latency_us", "ll128_latency_us"} < set(node.sources)
    assert (gpu.reduces, gpu.ll_latency_seconds, gpu.ll128_latency_seconds) == (False, None, None)
    doubted = TEXT.replace("ports = 4", 'ports = 4\nreduces = true\nunconfirmed = ["reduces"]')
    assert read(doubted).links[0].unconfirmed == ("reduces",)


def test_the_count_given_comes_first_then_the_written_then_the_default() -> None:
    written = TEXT.replace('name = "node"', 'name = "node"\ncount = 5')
    assert read(TEXT).hierarchy.cardinalities == (3, 4)
    assert read(written).hierarchy.cardinalities == (5, 4)
    assert read(written, shape=(7,)).hierarchy.cardinalities == (7, 4)
    plain = TEXT.replace("default_count = 3\n", "")
    assert read(plain).hierarchy.cardinalities == (1, 4)


def test_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT, encoding="utf-8")
    assert load(str(path)) == read(TEXT)
    assert load(f"{path}:6") == read(TEXT, shape=(6,))


def test_an_unknown_machine_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no system 'dgx-h10' .*did you mean dgx-h100"):
        load("dgx-h10")
    with pytest.raises(InputError, match="no system '' in the catalogue"):
        load("")
    with pytest.raises(InputError, match="'x' in 'dgx-h100:x' is no shape; after ':'"):
        load("dgx-h100:x")


@pytest.mark.parametrize("count", [0, -2])
def test_a_machine_has_children(count: int) -> None:
    with pytest.raises(InputError, match=f"'dgx-h100:{count}' would be empty; give 1 or more"):
        load(f"dgx-h100:{count}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(InputError, match=r"missing\.toml: cannot read the file: No such file"):
        load(str(missing))
    with pytest.raises(InputError, match="cannot read the file"):
        load(f"{tmp_path}/")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.toml: the file is not text in UTF-8"):
        load(str(binary))


def test_a_text_that_is_no_toml_says_where() -> None:
    with pytest.raises(InputError, match=r"^here: not a TOML file: .*line 1"):
        read("name =\nlevel = []", where="here")


GPU_SOURCE = TEXT[TEXT.index("[level.source]") :]
REFUSALS = {
    "an unknown key": ("latency_us = 14.0", "latency_us = 14.0\nspeed = 1", "'speed'"),
    "a number without unit": (
        "bandwidth_GB_per_s = 50",
        "bandwidth = 50",
        "level 'node': unknown key 'bandwidth'; a unit is missing: bandwidth_GB_per_s",
    ),
    "memory without unit": (
        "memory_GB_per_s",
        "memory",
        "device: unknown key 'memory'; a unit is missing: memory_GB_per_s",
    ),
    "a missing number": ("latency_us = 14.0\n", "", "level 'node': no 'latency_us'; add"),
    "no source": (GPU_SOURCE, "", "level 'gpu': no 'source'"),
    "no device source": ('2000\nsource = "measured"', "2000", "device: no 'source'"),
    "an empty source": (GPU_SOURCE, 'source = ""', "source"),
    "an empty device source": ('2000\nsource = "measured"', '2000\nsource = ""', "source = ''"),
    "a number without a source": ('latency_us = "a guess"\n', "", "latency_us"),
    "a number for a source": (
        'latency_us = "a guess"',
        "latency_us = 5",
        "level 'gpu', source: latency_us = 5",
    ),
    "a source of nothing": ("another page", 'another page"\nspeed = "a page', "speed"),
    "a source that is no text": (GPU_SOURCE, "source = 5", "source = 5"),
    "a doubt about nothing": ('["count"]', '["cuont"]', "cuont"),
    "a doubt that is no name": ('["count"]', "[1]", "unconfirmed"),
    "a negative number": ("latency_us = 14.0", "latency_us = -1.0", "latency_us = -1.0"),
    "no bandwidth at all": ("300.5", "0", "bandwidth_GB_per_s = 0"),
    "an infinite number": ("300.5", "inf", "bandwidth_GB_per_s = inf"),
    "not a number": ("300.5", "nan", "bandwidth_GB_per_s = nan"),
    "a number in quotes": ("300.5", '"300.5"', "bandwidth_GB_per_s = '300.5'"),
    "half a port": ("ports = 4", "ports = 2.5", "ports = 2.5"),
    "no count inside": ("count = 4\n", "", "level 'gpu': no 'count'"),
    "a count of 0": ("count = 4", "count = 0", "count = 0"),
    "no through outside": ('through = ["gpu"]\n', "", "level 'node': no 'through'"),
    "an unknown domain": ('"switch"', '"swich"', "no domain 'swich'; did you mean switch?"),
    "an unknown level": ('["gpu"]', '["gpus"]', "level 'node': no level 'gpus'"),
    "a word for a name": ('name = "node"', 'name = "inside"', "word of the reduction language"),
    "one name twice": ('name = "node"', 'name = "gpu"', "given 2 times"),
    "no ports": ("ports = 4", "ports = 0", "ports = 0"),
    "a word for a switch that reduces": ("ports = 4", 'reduces = "yes"', "reduces = 'yes'"),
    "a bus that reduces": (
        "latency_us = 0",
        "latency_us = 0\nreduces = true",
        "no source for reduces",
    ),
    "a bus that reduces by its source": (
        'count = "another page"',
        'count = "another page"\nreduces = "a dream"',
        "'reduces' in source is no number given here",
    ),
    "a negative latency of LL": ("ports = 4", "ll_latency_us = -1", "ll_latency_us = -1"),
    "no machine name": ('name = "mine"\n', "", "here: no 'name'"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_wrong_in_a_description_is_named(case: str) -> None:
    right, wrong, words = REFUSALS[case]
    text = TEXT.replace(right, wrong, 1)
    assert text != TEXT
    with pytest.raises(InputError) as caught:
        read(text, where="here")
    assert str(caught.value).startswith("here")
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "level = []", "level = [1]", "level = 1"])
def test_a_level_that_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^description"):
        read(text)


@each("spec", [name + count for name in catalogue() for count in ("", ":2")])
def test_an_entry_is_written_as_it_was_read(spec: str) -> None:
    text = describe_system(load(spec))
    assert read(text) == load(spec)
    assert "not stated" not in text


def test_what_is_usual_and_has_no_source_is_left_out() -> None:
    text = (FOLDER / "dgx-h100.toml").read_text(encoding="utf-8")
    bare = read("\n".join(line for line in text.splitlines() if not line.startswith("ports = ")))
    assert {link.ports for link in bare.links} == {1}
    assert read(describe_system(bare)) == bare
