"""Lines of keys: every key is found on the line that spells it."""

from __future__ import annotations

import json
import random
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies.files.toml_lines import MOST_LINES, lines_of
from strategies import jobs
from synth.collective.workload.files import write
from synth.collective.workload.job import Workload

TEXT = '''\
# a comment
title = "one"

[axes] # another
data = 8
"strange key" = [
    1,
    # inside
    2,
]
a.b = { c = 1, d = [2] }

[[collective]]
name = """
[not.a.table]
key = 1
"""

  [[collective]]
over = ["x"]
[collective.inner]
deep = 'yes'
[[collective.parts]]
[[collective.parts]]
last = 1
[axes.more]
z = 1
'''


def test_every_kind_of_statement_has_its_line() -> None:
    assert lines_of(TEXT) == {
        ("title",): 2,
        ("axes",): 4,
        ("axes", "data"): 5,
        ("axes", "strange key"): 6,
        ("axes", "strange key", 0): 6,
        ("axes", "strange key", 1): 6,
        ("axes", "a"): 11,
        ("axes", "a", "b"): 11,
        ("axes", "a", "b", "c"): 11,
        ("axes", "a", "b", "d"): 11,
        ("axes", "a", "b", "d", 0): 11,
        ("collective",): 13,
        ("collective", 0): 13,
        ("collective", 0, "name"): 14,
        ("collective", 1): 19,
        ("collective", 1, "over"): 20,
        ("collective", 1, "over", 0): 20,
        ("collective", 1, "inner"): 21,
        ("collective", 1, "inner", "deep"): 22,
        ("collective", 1, "parts"): 23,
        ("collective", 1, "parts", 0): 23,
        ("collective", 1, "parts", 1): 24,
        ("collective", 1, "parts", 1, "last"): 25,
        ("axes", "more"): 26,
        ("axes", "more", "z"): 27,
    }


def test_line_ends_of_other_systems_count_the_same() -> None:
    assert lines_of(TEXT.replace("\n", "\r\n")) == lines_of(TEXT)


def paths(value: Any, room: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inside in pairs:
        found.append((*room, key))
        if isinstance(inside, (dict, list)):
            found += paths(inside, (*room, key))
    return found


@given(jobs(), st.randoms(use_true_random=False))
@examples(15, 100)
def test_every_key_is_on_the_line_that_spells_it(job: Workload, chance: random.Random) -> None:
    lines = []
    for line in write(job).split("\n"):
        lines += chance.choice([[], [""], ["# name = 1", "  "]]) if "=" in line else []
        lines.append(line)
    text = "\n".join(lines)
    found = lines_of(text)
    assert set(found) == set(paths(tomllib.loads(text)))
    for path, line in found.items():
        names = [key for key in path if isinstance(key, str)]
        there = lines[line - 1].strip(" []")
        keys = (names[-1], json.dumps(names[-1], ensure_ascii=False))
        assert any(there == key or there.startswith(f"{key} =") for key in keys)


@pytest.mark.parametrize(("more", "found"), [(-3, True), (0, False)])
def test_a_statement_of_very_many_lines_ends_the_search(more: int, found: bool) -> None:
    text = "a = [\n" + "1,\n" * (MOST_LINES + more) + "]\nb = 1\n"
    assert (("b",) in lines_of("z = 1\n" + text)) == found
    assert lines_of("z = 1\n" + text)[("z",)] == 1
