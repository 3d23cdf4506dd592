"""Job files: what is written is read back, and whatever is wrong is told with its line."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synth
from exhaustive import examples
from grammar import Goal
from hierarchies import InputError
from places import ROOT
from strategies import jobs
from synth.collective.workload.assignments import assignments, settle_job
from synth.collective.workload.files import (
    job_text,
    load_job,
    parse_sizes,
    read_job,
    shipped_jobs,
    write,
)
from synth.collective.workload.job import (
    Entry,
    JobAxis,
    NamedNumber,
    Requirement,
    UnpricedTraffic,
    Workload,
)
from synth.collective.workload.quantities import parse_amount, parse_rule

FOLDER = Path(synth.__file__).parent / "collective" / "workload" / "jobs"
TEXT = """\
name = "mine"
title = "a job to test with"
source = ["a page, 2026-11-21"]

[axes]
data = "any"
tensor = "1|2|4|8"
pipeline = 2

[numbers]
layers = 24
weights = "14 GB"

[requires]
memory = "8 * weights / (tensor * pipeline) <= 60 GB"
stages = "layers / pipeline is whole"

[[collective]]
name = "activations"
request = "all-reduce"
over = ["tensor"]
bytes = "8 MiB"
times = "4 * layers / pipeline"

[[collective]]
name = "gradients"
request = "all-reduce"
over = ["data"]
bytes = "weights / tensor / pipeline"
hidden = 0.75

[[unpriced]]
name = "between stages"
over = ["pipeline"]
bytes = "8 MiB"
times = 16
why = "no collective"
"""


def test_a_text_is_read_as_it_is_written() -> None:
    assert read_job(TEXT) == Workload(
        "mine",
        "a job to test with",
        ("a page, 2026-11-21",),
        (JobAxis("data", None), JobAxis("tensor", (1, 2, 4, 8)), JobAxis("pipeline", (2,))),
        (NamedNumber("layers", parse_amount(24)), NamedNumber("weights", parse_amount("14 GB"))),
        (
            Requirement("memory", parse_rule("8 * weights / (tensor * pipeline) <= 60 GB")),
            Requirement("stages", parse_rule("layers / pipeline is whole")),
        ),
        (
            Entry(
                "activations",
                Goal.ALL_REDUCE,
                ("tensor",),
                parse_amount("8 MiB"),
                parse_amount("4 * layers / pipeline"),
                parse_amount(0),
            ),
            Entry(
                "gradients",
                Goal.ALL_REDUCE,
                ("data",),
                parse_amount("weights / tensor / pipeline"),
                parse_amount(1),
                parse_amount(0.75),
            ),
        ),
        (
            UnpricedTraffic(
                "between stages",
                ("pipeline",),
                parse_amount("8 MiB"),
                parse_amount(16),
                "no collective",
            ),
        ),
    )


def test_a_job_is_put_on_a_machine() -> None:
    job = read_job(TEXT)
    found = assignments(job, 32)
    told = [tuple(sizes.values()) for sizes in found]
    assert told == [(2, 8, 2), (4, 4, 2), (8, 2, 2), (16, 1, 2)]
    activations, gradients = settle_job(job, found[1]).entries
    assert (activations.payload_bytes, activations.times) == (8 * 2**20, 48)
    assert (gradients.payload_bytes, gradients.weight) == (1_750_000_000, Fraction(1, 4))


@given(jobs())
@examples(15, 100)
def test_written_files_are_read_back(job: Workload) -> None:
    assert read_job(write(job)) == job


@given(jobs())
@examples(15, 100)
def test_a_job_that_was_read_is_written_the_same(job: Workload) -> None:
    assert write(read_job(write(job))) == write(job)


@given(jobs(), st.randoms(use_true_random=False))
@examples(15, 100)
def test_any_change_of_a_text_is_reported_with_a_line(job: Workload, chance: random.Random) -> None:
    lines = (chance.choice([TEXT, write(job)])).split("\n")
    for _ in range(chance.randint(1, 3)):
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        _spoil(lines, one, other, chance)
    told = "here, line 1: "
    try:
        read_job("\n".join(lines), where="here")
    except InputError as error:
        told = str(error)
    match = re.match(r"here, line ([0-9]+): ", told)
    assert match, told
    assert 1 <= int(match[1]) <= max(len(lines), 1)


def _spoil(lines: list[str], one: int, other: int, chance: random.Random) -> None:
    kind = chance.randrange(5)
    if kind == 0 and len(lines) > 1:
        del lines[one]
    elif kind == 1:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 2:
        lines.insert(other, lines[one])
    elif kind == 3:
        place = chance.randint(0, len(lines[one]))
        wrong = chance.choice([*'"[]=0-.{}x/\\\0', "tensor", "-1", "1e999", "nan", "[" * 400])
        lines[one] = lines[one][:place] + wrong + lines[one][place:]
    else:
        key, equals, _ = lines[one].partition("=")
        value = chance.choice(["0", "-3", "true", "inf", "[]", "{}", '""', "1979-05-27", "[[]]"])
        lines[one] = f"{key}{equals}{value}"


REFUSALS = {
    "no toml": ("layers = 24", "layers = = 24", "layers", "not a TOML file: Invalid value"),
    "no toml at the end": ("why = ", "why == ", "why", "not a TOML file"),
    "an open string": ('"no collective"\n', '"no', "why", "not a TOML file: "),
    "a key twice": ("times = 16", "times = 16\ntimes = 17", "times = 17", "Cannot overwrite"),
    "a table twice": ("[numbers]", "[axes]\n[numbers]", None, "Cannot declare ('axes',) twice"),
    "an unknown key": ("hidden = 0.75", "hiden = 0.75", "hiden", "'hiden'; did you mean hidden?"),
    "an unknown table": ("[numbers]", "[numbrs]", "[numbrs]", "did you mean numbers?"),
    "a key of another table": (
        "why = ",
        'request = "reduce"\nwhy = ',
        'request = "reduce"',
        "unknown",
    ),
    "no name": ('name = "mine"\n', "", "title", "no 'name'; add name = ..."),
    "no request": (
        'request = "all-reduce"\nover = ["data"]',
        'over = ["data"]',
        25,
        "no 'request'",
    ),
    "no bytes": ('bytes = "8 MiB"\ntimes = "', 'times = "', "[[collective]]", "no 'bytes'"),
    "no reason": ('why = "no collective"\n', "", "[[unpriced]]", "no 'why'"),
    "no axes": (TEXT[TEXT.index("[axes]") : TEXT.index("[numbers]")], "", 1, "no 'axes'"),
    "no axis": ('data = "any"\ntensor = "1|2|4|8"\npipeline = 2\n', "", "[axes]", "has 0 axes"),
    "an unknown request": ('"all-reduce"', '"allreduce"', "allreduce", "did you mean all-reduce"),
    "an unknown axis": (
        '["tensor"]',
        '["tenser"]',
        "tenser",
        "which is not an axis; did you mean tensor?",
    ),
    "an axis twice": ('["tensor"]', '["tensor", "tensor"]', '"tensor",', "over 'tensor' twice"),
    "over nothing": ('["tensor"]', "[]", "over = []", "over no axis; name at least one of: data"),
    "over a text": ('["tensor"]', '"tensor"', 'over = "tensor"', "a list of texts, as in"),
    "an unknown name": (
        "weights / tensor",
        "weigths / tensor",
        "weigths /",
        "did you mean weights",
    ),
    "bytes of nothing": ('"8 MiB"\ntimes = 16', '"8 /"\ntimes = 16', "8 /", "character 4, the end"),
    "an unknown unit": ('"14 GB"', '"14 GBit"', "GBit", "no unit 'GBit' after 14; known are B"),
    "a division by zero": ("times = 16", 'times = "16 / 0"', "16 / 0", "'16 / 0' divides by zero"),
    "no times at all": ("times = 16", "times = 0", "times = 0", "would be 0; above 0"),
    "negative times": ("times = 16", "times = -1", "times = -1", "the number -1 is negative"),
    "negative sums": ("times = 16", 'times = "2 - layers"', "2 - layers", "would be -22; above 0"),
    "no bytes at all": ('"8 MiB"\ntimes = 16', '"0 B"\ntimes = 16', '"0 B"', "would be 0; above 0"),
    "half a share too many": ("0.75", "1.5", "hidden = 1.5", "would be 3/2; from 0 to 1"),
    "true bytes": (
        '"8 MiB"\ntimes = 16',
        "true\ntimes = 16",
        "bytes = true",
        "True cannot be used",
    ),
    "a date": ("times = 16", "times = 1979-05-27", "1979", "cannot be used; a number, or text"),
    "infinite times": ("times = 16", "times = inf", "inf", "the number inf cannot be read"),
    "a size of 0": ("pipeline = 2", "pipeline = 0", "pipeline = 0", "'pipeline' has size 0"),
    "a negative size": (
        "pipeline = 2",
        "pipeline = -2",
        "pipeline = -2",
        "has size -2; at",
    ),
    "half a size": (
        "pipeline = 2",
        "pipeline = 2.5",
        "pipeline = 2.5",
        "2.5 cannot be used",
    ),
    "a size twice": ("1|2|4|8", "1|2|2", "1|2|2", "'tensor' has the size 2 twice"),
    "a list of sizes": ("= 2\n", "= [1, 2]\n", "[1, 2]", 'several as in "1|2|4|8", or "any"'),
    "sizes of no sense": ("1|2|4|8", "1||2", "1||2", "'1||2' cannot be used"),
    "a strange axis": ("pipeline = 2", '"a b" = 2', '"a b"', "axis name 'a b' cannot be written"),
    "a number called data": ("layers = 24", "data = 24", "data = 24", "'data' is given twice"),
    "a number too early": ("layers = 24", 'layers = "late"\nlate = 1', '"late"', "given before"),
    "a text as number": (
        "layers = 24",
        'layers = "many"',
        '"many"',
        "names 'many', which is neither",
    ),
    "no rule": ("is whole", "is hole", "is hole", "the rule 'layers / pipeline is hole' cannot"),
    "rules that are numbers": ("[requires]\n", "[requires]\nx = 5\n", "x = 5", "text in quotes"),
    "a rule that mixes": ("<= 60 GB", "<= 60", "<= 60", "compares bytes with something else"),
    "one name twice": ('"gradients"', '"activations"', 26, "the name 'activations' is given twice"),
    "a name that is no text": ('name = "gradients"', "name = 5", "name = 5", "5 cannot be used"),
    "a title of two lines": ("a job to test", "a job\\nto test", "a job", "one line of text"),
    "a source that is no list": ('["a page, 2026-11-21"]', "5", "source = 5", "a list of texts"),
    "a list for a table": ("[axes]", "[[axes]]", "[[axes]]", "a table, one key a line"),
    "a table for a list": ("[[unpriced]]", "[unpriced]", "[unpriced]", "tables, each under"),
    "brackets without end": ('["tensor"]', "[" * 5000, 1, "not a TOML file: brackets in brackets"),
}


def line_of(text: str, needle: str | int) -> int:
    """The number of the line that holds the needle."""
    if isinstance(needle, int):
        return needle
    return next(number for number, line in enumerate(text.split("\n"), 1) if needle in line)


@pytest.mark.parametrize("case", REFUSALS)
def test_mistakes_in_a_file_are_located_by_line(case: str) -> None:
    right, wrong, needle, words = REFUSALS[case]
    text = TEXT.replace(right, wrong, 1)
    assert text != TEXT
    with pytest.raises(InputError) as caught:
        read_job(text, where="here")
    told = str(caught.value)
    line = line_of(text, "[numbers]") - 1 if needle is None else line_of(text, needle)
    assert re.match(rf"here, line {line}: ", told), (told, line)
    assert words in told


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ("# nothing\n", 1), ('name = "x"\ncollective = []', 2), ("collective = 0\n", 1)],
)
def test_an_empty_job_is_refused(text: str, line: int) -> None:
    with pytest.raises(InputError, match=f"^here, line {line}: the job is empty; add at least one"):
        read_job(text, where="here")


def test_contradictions_with_a_machine_are_located_by_line() -> None:
    job = read_job(TEXT, where="job.toml")
    with pytest.raises(InputError, match=r"^job.toml, line 8: no size of axis 'pipeline' divides"):
        assignments(job, 9)
    with pytest.raises(InputError, match=r"^job.toml, line 15: .* 'memory', .* against 6"):
        assignments(read_job(TEXT.replace("14 GB", "1 TB"), where="job.toml"), 32)
    fixed = read_job(TEXT.replace('"any"', "4").replace('"1|2|4|8"', "8"), where="job.toml")
    with pytest.raises(InputError, match=r"^job.toml, line 5: the axes need at least 64 devices"):
        assignments(fixed, 32)
    with pytest.raises(InputError, match=r"^job.toml, line 5: no product .* 128, .*it are 64"):
        assignments(fixed, 128)


def test_numbers_that_only_some_sizes_spoil_are_reported_with_their_line() -> None:
    text = TEXT.replace("times = 16", 'times = "4 - tensor"').replace('bytes = "8 MiB"\n', "", 1)
    text = text.replace('over = ["tensor"]', 'over = ["tensor"]\nbytes = "1 B / late"')
    job = read_job(text.replace("layers = 24", 'layers = 24\nlate = "tensor - 2"'), where="here")
    with pytest.raises(InputError, match=r"^here, line 23: .* divides by zero at data=8, tensor=2"):
        settle_job(job, {"data": 8, "tensor": 2, "pipeline": 2})
    with pytest.raises(
        InputError, match=r"^here, line 37: times of 'between stages' would be 0 at"
    ):
        settle_job(job, {"data": 4, "tensor": 4, "pipeline": 2})


def test_sizes_are_one_several_or_any() -> None:
    assert parse_sizes(8) == (8,)
    assert parse_sizes("8") == (8,)
    assert parse_sizes(" 1 | 2|4") == (1, 2, 4)
    assert parse_sizes("any") is None
    for wrong in (True, 2.0, "", "|", "1|", "-1", None, "٣"):
        with pytest.raises(InputError, match="cannot be used; a size, several as in"):
            parse_sizes(wrong)


def test_all_or_nothing_of_a_collective_may_be_hidden() -> None:
    for word, share in (("true", 1), ("false", 0)):
        job = read_job(TEXT.replace("hidden = 0.75", f"hidden = {word}"))
        assert job.entries[1].hidden == parse_amount(share)


def test_a_shipped_job_is_found_by_its_name_and_a_file_by_its_path(tmp_path: Path) -> None:
    assert list(shipped_jobs()) == sorted(path.stem for path in FOLDER.glob("*.toml"))
    for name in shipped_jobs():
        assert load_job(name) == read_job(job_text(name))
        assert load_job(name).name == name
    path = tmp_path / "mine.toml"
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    assert load_job(str(path)) == read_job(TEXT)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no job 'gpt3-175b'; did you mean gpt3-175b-3d"):
        load_job("gpt3-175b")
    with pytest.raises(InputError, match=r"missing\.toml: cannot read the file: No such file"):
        load_job(str(tmp_path / "missing.toml"))
    with pytest.raises(InputError, match="cannot read the file"):
        load_job("a\0/b")
    with pytest.raises(InputError, match="no job 'xxx"):
        load_job("x" * 5000)
    with pytest.raises(InputError, match="no job 'a"):
        load_job("a\0b")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(TEXT.replace("times = 16", "times = 0"), encoding="utf-8")
    with pytest.raises(InputError, match=r"wrong\.toml, line 36: times of 'between stages'"):
        load_job(str(wrong))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.toml: the file is not text in UTF-8"):
        load_job(str(binary))


def test_a_file_of_great_length_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^here, line 1: 300000 characters are too many for a job"
    ):
        read_job("#" * 300_000, where="here")


DOCS = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


def test_the_example_in_docs_is_a_job() -> None:
    text = DOCS.split("```toml\n")[1].split("```")[0]
    found = assignments(read_job(text, where="job.toml"), 64)
    assert [sizes["tensor"] for sizes in found] == [8, 4]
    spoiled = text.replace('over = ["data"]', 'over = ["dta"]')
    with pytest.raises(InputError) as caught:
        read_job(spoiled, where="job.toml")
    assert str(caught.value) in DOCS.replace("\n", " ")


def test_every_shipped_job_and_every_goal_is_in_docs() -> None:
    for name in (*shipped_jobs(), *(goal.value for goal in Goal)):
        assert f"`{name}`" in DOCS
