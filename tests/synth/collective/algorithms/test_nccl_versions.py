"""What versions have, beside what was read of NVIDIA/nccl at each tag with git show."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from grammar import Goal
from hierarchies import InputError, load
from synth.collective.algorithms import nccl_versions as nccl
from synth.collective.algorithms.nccl_model import SPELLINGS, Ranks

# gpuCount at which ncclNvlsInit gives up (src/transport/nvls.cc), and the newest tuner interface
# (src/include), as read at the tags; None: no NVLS over nodes.
READ_AT_TAGS = {
    "2.16.5": (None, None, 0),
    "2.17.1": (1, None, 0),
    "2.18.6": (2, 2, 0),
    "2.19.4": (2, 2, 1),
    "2.21.5": (2, 2, 2),
    "2.22.3": (2, 2, 3),
    "2.23.4": (2, 2, 3),
    "2.24.3": (2, 2, 4),
    "2.27.7": (2, 2, 4),
    "2.28.3": (2, 2, 5),
    "2.28.7": (1, 1, 5),
    "2.29.7": (1, 1, 5),
    "2.30.7": (1, 1, 6),
    "2.32.6": (1, 1, 7),
}


@pytest.mark.parametrize("text", READ_AT_TAGS)
def test_nvls_and_tuners_are_those_of_the_tag(text: str) -> None:
    version = nccl.parse_version(text)
    alone, several, interface = READ_AT_TAGS[text]
    for per_node in (1, 2, 3, 8):
        for nodes, gives_up in ((1, alone), (2, several)):
            has = gives_up is not None and per_node > gives_up
            assert nccl.has_nvls(version, per_node, nodes) == has, (per_node, nodes)
    assert nccl.tuner_interface(version) == interface


@pytest.mark.parametrize(
    ("spelling", "lacks", "has"),
    [("PAT", "2.22.3", "2.23.4"), ("NVLS", "2.16.5", "2.17.1"), ("NVLSTree", "2.17.1", "2.18.1")],
)
def test_an_algorithm_is_refused_before_the_version_that_has_it(
    spelling: str, lacks: str, has: str
) -> None:
    nccl.check_algorithm(spelling, nccl.parse_version(has))
    with pytest.raises(InputError, match=rf"NCCL {lacks} has no {spelling}.*{has} or later"):
        nccl.check_algorithm(spelling, nccl.parse_version(lacks))
    assert spelling in SPELLINGS.values()


@pytest.mark.parametrize(
    ("goal", "since"),
    [(Goal.REDUCE_SCATTER, "2.29.7"), (Goal.ALL_GATHER, "2.29.7"), (Goal.ALL_TO_ALL, "2.30.7")],
)
def test_two_level_kernels_begin_with_their_version(goal: Goal, since: str) -> None:
    first = nccl.parse_version(since)
    assert "ncclCommWindowRegister" in nccl.hierarchical_need(goal, first)
    assert not nccl.hierarchical_need(goal, first._replace(patch=first.patch - 1))
    assert not nccl.hierarchical_need(Goal.ALL_REDUCE, nccl.parse_version("2.32"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2.40.1", "NCCL 2.40.1 is not known"),
        ("2.15.5", "NCCL 2.15.5 is not known"),
        ("1.3.4", "NCCL 1.3.4 is not known"),
        ("newest", "'newest' is no version"),
        ("2", "'2' is no version"),
        ("2.29.7.1", "'2.29.7.1' is no version"),
        ("2.29.", "'2.29.' is no version"),
        ("2.²9.7", "is no version"),
    ],
)
def test_unknown_versions_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        nccl.parse_version(text)
    assert said in error.value.problem
    assert nccl.KNOWN in error.value.hint
    assert not nccl.known_version(text)


def test_two_numbers_are_the_last_release_of_them() -> None:
    assert str(nccl.parse_version("2.28")) == "2.28.9"
    assert nccl.known_version("2.22.3") == "2.22.3"


def test_the_question_states_the_version_before_the_calibration() -> None:
    system = load("dgx-h100:4")
    assert (nccl.version_of(system), nccl.stated_by(system)) == (nccl.DEFAULT, "default")
    stated = replace(system, nccl="2.29.7")
    assert (str(nccl.version_of(stated)), nccl.stated_by(stated)) == ("2.29.7", "question")


def test_two_gpus_of_a_node_have_nvls_by_their_version() -> None:
    system = load("dgx-h100:4")
    counts = (4, 2)
    assert not Ranks(system, counts).multicasts
    assert not Ranks(replace(system, nccl="2.28.3"), counts).multicasts
    assert Ranks(replace(system, nccl="2.28.7"), counts).multicasts
    assert not Ranks(replace(system, nccl="2.16.5"), (1, 8)).multicasts


def test_another_library_has_no_version_of_nccl() -> None:
    with pytest.raises(InputError, match="XLA's"):
        nccl.check_version("2.29.7", load("tpu-v5e-slice"))
    assert nccl.check_version("2.29", load("dgx-h100:2")) == "2.29.7"


def test_the_table_of_the_docs_is_the_table_of_the_code() -> None:
    """Every change stands in docs/trust.md with its version, in order, and nothing else does."""
    text = (Path(__file__).parents[4] / "docs" / "trust.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (2\.\d+\.\d+) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    expected = [
        (str(one.since), one.what, one.effect, f"{one.where} ({one.read_in})")
        for one in nccl.CHANGES
    ]
    assert rows == expected
    assert [one.since for one in nccl.CHANGES] == sorted(one.since for one in nccl.CHANGES)
