"""The section about FlexFlow's rules says what was counted."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from results import pages, record
from results.rules import __main__ as rules
from results.rules.values import values_alike
from shared import shared
from synth.train.substitutions.flexflow import Operator, Refuted, Rule, judged

FIRST = (((0, 0), (0, 0)),)


def test_the_section_about_rules_is_made_from_its_data() -> None:
    data = record.read(rules.DATA)
    assert rules.page(data) == pages.README.read_text(encoding="utf-8")


def test_every_rule_is_counted_once() -> None:
    data = record.read(rules.DATA)
    counted = Counter(name for one in data["reasons"] for name in one["rules"])
    assert counted == {f"taso_rule_{at}": 1 for at in range(data["rules"])}
    for one in data["reasons"]:
        assert one["count"] == len(one["rules"]) >= max(one["linear"], one["elsewhere"])
        assert bool(one["because"]) == (one["verdict"] != "proved")


def test_a_fresh_run_gives_the_data() -> None:
    text = shared("substitutions", "graph_subst_3_v2.json").read_text(encoding="utf-8")
    assert not list(record.differences(record.read(rules.DATA), rules.counted(text)))


def test_a_small_collection_is_counted() -> None:
    relu = {"type": "OP_RELU", "input": [{"opId": -1, "tsId": 0}], "para": []}
    other = {**relu, "type": "OP_GELU"}
    end = [{"srcOpId": 0, "srcTsId": 0, "dstOpId": 0, "dstTsId": 0}]
    told = [
        {"name": "same", "srcOp": [relu], "dstOp": [relu], "mappedOutput": end},
        {"name": "unknown", "srcOp": [other], "dstOp": [relu], "mappedOutput": end},
    ]
    found = rules.counted(json.dumps({"rule": told}))
    assert [(one["verdict"], one["rules"]) for one in found["reasons"]] == [
        ("proved", ["same"]),
        ("outside", ["unknown"]),
    ]


def test_values_alone_say_nothing_of_cuts() -> None:
    """A sum as a reduction of what nothing cuts; a cut of another dimension; and other values."""

    def told(kind: str, *read: int, dimension: int = 0) -> Operator:
        cut = (("PM_PARALLEL_DEGREE", 2), ("PM_PARALLEL_DIM", dimension))
        asked = {"OP_CONCAT": (("PM_AXIS", 0),), "OP_EW_ADD": ()}.get(kind, cut)
        return Operator(kind, tuple((one, 0) for one in read), asked)

    add, joined = told("OP_EW_ADD", -1, -2), told("OP_CONCAT", -1, -2)
    ends = (((0, 0), (1, 0)),)
    sums = Rule("sums", (add,), (joined, told("OP_REDUCE", 0)), ends)
    cuts = Rule("cuts", (told("OP_PARTITION", -1, dimension=1),), (told("OP_PARTITION", -1),), ends)
    twice = Rule("twice", (told("OP_REPLICATE", -1),), (told("OP_REDUCE", -1),), ends)
    for rule, alike in ((sums, True), (replace(cuts, outputs=FIRST), True)):
        assert isinstance(judged(rule), Refuted)
        assert values_alike(rule) == alike
    assert not values_alike(replace(twice, outputs=FIRST))


@pytest.mark.parametrize("text", [None, "[]", "\xff"])
def test_what_is_no_collection_is_one_line(
    text: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "rules.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    monkeypatch.setattr(sys, "argv", ["results.rules", str(path)])
    assert rules.main() == 2
    said = capsys.readouterr().err
    assert said.startswith(str(path))
    assert said.count("\n") == 1
