"""The largest bodies that are none of what they are said to be: refused before a job is made.

And without much work. That is counted in calls, not in seconds: how many a second are made depends
on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from each import each
from hierarchies import InputError
from hierarchies.importers import KINDS, markup
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.measure.logs import header
from synth.measure.logs.reading import parse_logs
from synth.service.limits import Limits

BYTES = Limits().body_bytes - 2**10
MOST_CALLS = 1_000_000
"""Python makes some million a second."""
NONE = {
    "a line": "x",
    "lines": "x\n",
    "nothing": "\n",
    "words": "lorem ipsum dolor sit amet 0123\n",
    "a tag": "<a x",
    "tags": "<a/>",
    "a list": "1,",
    "a text": '"a',
}
BEGUN = {"a tag": "<a ", "tags": "<a>", "a list": "[", "a text": '["'}


def filled(name: str) -> str:
    """A text as long as a body may be; ``nothing`` is a word behind empty lines."""
    begin, more = BEGUN.get(name, ""), NONE[name]
    return begin + more * ((BYTES - len(begin)) // len(more)) + ("x" if name == "nothing" else "")


def calls_of(call: Callable[[], object]) -> int:
    """How many calls of functions, of Python's or of C's, this one makes."""
    count = 0

    def counted(frame: FrameType, event: str, what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def refused(verb: str, given: object) -> str:
    """What a question is refused for, before a job is made of it and with little work."""
    question = parse_question(VERBS[verb].question, given)
    said: list[str] = []

    def tried() -> None:
        with pytest.raises(InputError) as error:
            question.check_early()
        said.append(str(error.value))

    assert calls_of(tried) < MOST_CALLS
    return said[0]


@pytest.mark.parametrize("kind", KINDS)
@each("text", NONE)
def test_files_that_are_none(kind: str, text: str) -> None:
    file = {"name": "file", "text": filled(text)}
    assert refused("import", {"kind": kind, "files": [file]}).startswith("file")


ROW = "  1024  256  float  sum  -1  10.0  1.0 1.0 0\n"
LOGS = {
    "objects": '[{"size":1}' + ',{"size":1}' * 2**17 + "]",
    "lines": ROW + "\n" * 10**6,
}


@each("text", [*NONE, *LOGS])
def test_logs_that_are_none(text: str) -> None:
    file = {"name": "folder/a.log", "text": LOGS.get(text) or filled(text)}
    said = refused("doctor", {"system": "dgx-a100:2", "files": [file]})
    assert said.startswith("a.log")


@each("begin", ["", "bytes,seconds\n", "collective, ranks\n"])
def test_a_log_of_more_rows_than_tests_print_is_refused(
    begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "": ROW,
        "b": "1024,0.1\n",
        "c": "all_reduce, 8, 1024, float, sum, 0, 1.0, 1.0, 1.0, 0\n",
    }
    monkeypatch.setattr(header, "MOST_ROWS", 20)
    with pytest.raises(InputError, match="more than 20 rows"):
        parse_logs(begin + row[begin[:1]] * 22, "a.log")


HEAD = "step s\nin x: f32[8] batch\n"
STEPS = {
    "a name twice": HEAD + "x: f32[8] = add(x, x)\n" * 10**5,
    "dimensions": "step s\nin x: f32[" + "9," * 10**6 + "9] batch\nout x\n",
    "lines": HEAD + "\n" * 10**6,
    "a list": HEAD + "v: f32[8] = add(x, x) a=(" + "1," * 10**6,
}


@each("text", [*NONE, *STEPS])
def test_steps_that_are_none(text: str) -> None:
    file = {"name": "file", "text": STEPS.get(text) or filled(text)}
    assert refused("trace", {"model": file}).startswith("file")


OPEN = ["x", "<x", "<a x", "<?a >", "<a><!-- >", '<a b=">']


@each("text", OPEN)
def test_a_token_without_an_end_is_read_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expat begins a token anew whenever there is more of it."""
    fed: list[int] = []
    read = markup._PiecewiseText.read

    def noted(self: markup._PiecewiseText, characters: int) -> str:
        fed.append(characters)
        return read(self, characters)

    monkeypatch.setattr(markup._PiecewiseText, "read", noted)
    with pytest.raises(InputError, match="without an end"):
        markup.parse_xml(text + text[-1] * BYTES)
    assert sum(fed) < 2 * markup.LONGEST_TOKEN


def test_long_texts_between_tags_are_read() -> None:
    text = "x" * 4 * markup.LONGEST_TOKEN
    assert markup.parse_xml(f"<a><b>{text}</b><![CDATA[{text}]]></a>").findtext("b") == text
