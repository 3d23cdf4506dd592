"""What a job refuses when it is made in Python; files have their own tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from exhaustive import examples
from hierarchies import InputError
from job_texts import ENTRY, JOB
from strategies import jobs
from synth.collective.workload.job import (
    Entry,
    JobAxis,
    NamedNumber,
    Requirement,
    SourcePlaces,
    UnpricedTraffic,
    Workload,
    amounts_of,
)
from synth.collective.workload.quantities import parse_amount, parse_rule


def test_a_job_forgets_where_it_was_written_when_compared() -> None:
    entry = replace(ENTRY, places=SourcePlaces("job.toml, line 7"))
    assert replace(JOB, entries=(entry,), places=SourcePlaces("job.toml, line 1")) == JOB
    assert hash(replace(JOB, entries=(entry,))) == hash(JOB)
    assert "line" not in repr(entry)


def test_a_missing_key_is_located_at_its_table() -> None:
    places = SourcePlaces("job.toml, line 7", {"over": "job.toml, line 9"})
    assert places.of("over") == "job.toml, line 9"
    assert places.of("times") == "job.toml, line 7"


@given(jobs())
@examples(15, 100)
def test_all_transfers_are_reported(job: Workload) -> None:
    assert len(job.communications) == len(job.entries) + len(job.unpriced)
    for entry in job.communications:
        keys = [key for key, _ in amounts_of(entry)]
        assert keys == ["bytes", "times", "hidden"][: 3 if isinstance(entry, Entry) else 2]


@pytest.mark.parametrize("name", ["", "1st", "a-b", "all-reduce", "min", "d0", "root", "größe"])
def test_axis_names_are_usable_in_amounts(name: str) -> None:
    with pytest.raises(InputError, match="axis name"):
        JobAxis(name, (2,))
    with pytest.raises(InputError, match="number name"):
        NamedNumber(name, parse_amount(1))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((), "has no size"), ((0,), "has size 0"), ((2, -1), "size -1"), ((2, 4, 2), "2 twice")],
)
def test_an_axis_has_sizes(sizes: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        JobAxis("data", sizes)


def test_sizes_are_printed_as_in_files() -> None:
    told = [JobAxis("data", sizes).text for sizes in (None, (8,), (1, 2, 4))]
    assert told == ["any", "8", "1|2|4"]
    assert JobAxis("data", None).admits(7)
    assert not JobAxis("data", None).admits(0)
    assert not JobAxis("data", (1, 2)).admits(7)


FIXED = (JobAxis("data", (8,)), JobAxis("tensor", (1,)))
LATE = (NamedNumber("a", parse_amount("b")), NamedNumber("b", parse_amount(1)))
UNPRICED = UnpricedTraffic("gradients", ("data",), parse_amount(1), parse_amount(1), "no reason")
WRONG = {
    "no collective": ({"entries": ()}, "the job is empty"),
    "no axes": ({"axes": ()}, "the job has 0 axes"),
    "nine axes": (
        {"axes": tuple(JobAxis(f"axis{i}", (1,)) for i in range(9))},
        "the job has 9 axes; from 1 to 8",
    ),
    "one axis twice": ({"axes": JOB.axes + JOB.axes}, "'data' is given 2 times"),
    "no name": ({"name": " "}, "name = ' '"),
    "two lines of title": ({"title": "a\nb"}, "title = "),
    "an empty source": ({"sources": ("",)}, "source = ''"),
    "a number called as an axis": (
        {"numbers": (NamedNumber("data", parse_amount(1)),)},
        "'data' is given twice",
    ),
    "a number before its parts": (
        {"numbers": LATE},
        "'b', which is neither an axis nor a number given",
    ),
    "a number of itself": ({"numbers": LATE[:1]}, "names 'b'"),
    "numbers that mix": (
        {"numbers": (NamedNumber("x", parse_amount("1 GB + 1")),)},
        "mixes bytes with something else",
    ),
    "a rule that mixes": (
        {"requires": (Requirement("memory", parse_rule("data <= 1 GB")),)},
        "compares bytes with something else",
    ),
    "a rule of unknown names": (
        {"requires": (Requirement("memory", parse_rule("dta <= 1")),)},
        "did you mean data",
    ),
    "two rules of one name": (
        {
            "requires": (
                Requirement("r", parse_rule("1 <= 1")),
                Requirement("r", parse_rule("2 <= 2")),
            )
        },
        "'r' is given twice",
    ),
    "one name twice": ({"entries": (ENTRY, ENTRY)}, "'gradients' is given twice"),
    "one name, priced and not": ({"unpriced": (UNPRICED,)}, "'gradients' is given twice"),
    "no reason": (
        {"unpriced": (replace(UNPRICED, name="other", why=""),)},
        "why = ''",
    ),
}
WRONG_ENTRY = {
    "no axis": ({"over": ()}, "over no axis; name at least one of: data, tensor"),
    "an unknown axis": ({"over": ("dat",)}, "over 'dat', which is not an axis; did you mean"),
    "an axis twice": ({"over": ("data", "data")}, "'data' twice"),
    "an unknown name": ({"payload": parse_amount("1 GB / tenser")}, "did you mean tensor"),
    "square bytes": ({"payload": parse_amount("1 GB * 1 GB")}, "has the wrong unit"),
    "bytes of times": (
        {"times": parse_amount("1 GB")},
        "times of 'gradients', '1 GB', has the wrong",
    ),
    "bytes of a share": ({"hidden": parse_amount("1 B")}, "a plain number"),
    "no bytes": ({"payload": parse_amount(0)}, "bytes of 'gradients' would be 0; above 0"),
    "too many bytes": (
        {"payload": parse_amount("1e19")},
        "above 0, and at most 1152921504606846976",
    ),
    "too often": ({"times": parse_amount("1e13")}, "above 0, and at most 1000000000000"),
    "never": ({"times": parse_amount("1 - data / 8")}, "times of 'gradients' would be 0"),
    "less than never": ({"times": parse_amount("1 - data")}, "times of 'gradients' would be -7"),
    "more than all": ({"hidden": parse_amount(1.5)}, "would be 3/2; from 0 to 1"),
    "less than nothing": ({"hidden": parse_amount("1 - data / 3")}, "would be -5/3"),
    "by zero": ({"payload": parse_amount("1 / (data - 8)")}, "'1 / (data - 8)' divides by zero"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_job_that_makes_no_sense_is_refused(case: str) -> None:
    changed, words = WRONG[case]
    with pytest.raises(InputError) as caught:
        replace(JOB, **changed)
    assert words in str(caught.value)


@pytest.mark.parametrize("case", WRONG_ENTRY)
def test_a_collective_that_makes_no_sense_is_refused(case: str) -> None:
    changed, words = WRONG_ENTRY[case]
    entry = replace(ENTRY, places=SourcePlaces("here, line 3"), **changed)
    with pytest.raises(InputError) as caught:
        replace(JOB, axes=FIXED, entries=(entry,))
    assert words in str(caught.value)
    assert str(caught.value).startswith("here, line 3: ")


def test_what_depends_on_open_sizes_is_not_judged_before_they_are_known() -> None:
    entry = replace(ENTRY, times=parse_amount("1 - tensor"))
    assert replace(JOB, entries=(entry,)).entries == (entry,)


def test_nothing_is_sent_along_an_axis_of_size_1() -> None:
    entry = replace(ENTRY, over=("tensor",), payload=parse_amount("1 / (tensor - 1)"))
    assert replace(JOB, axes=FIXED, entries=(entry,)).entries == (entry,)
