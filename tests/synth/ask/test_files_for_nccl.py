"""Files for NCCL as an operator asks for them: their notes, the sizes that they cover, channels."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from hierarchies import InputError
from synth.ask.answers.outputs import EmittedReply
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.ranking.request import Watcher

PLAIN = "all-reduce root inside"
WHERE: dict[str, Any] = {"system": "dgx-a100:4", "axes": {"data": 32}, "reduce": ["data"]}
ROW = re.compile(r"\{ncclFuncAllReduce, (\d+), (\d+), 4, 32, NCCL_ALGO_(\w+), NCCL_PROTO_(\w+)\}")
MIB = 2**20


def ask(verb: str, **given: Any) -> Any:
    question = parse_question(VERBS[verb].question, given)
    return judge(verb).validate_python(VERBS[verb].answer(question, Watcher()).body)


@cache
def plugin(size: int, algorithm: str = "ring") -> EmittedReply:
    given = {"program": PLAIN, "bytes": size, "algorithm": algorithm, "target": "nccl-plugin"}
    reply = ask("emit", **WHERE, **given)
    assert isinstance(reply, EmittedReply)
    return reply


def rows(reply: EmittedReply) -> list[tuple[int, int, str, str]]:
    [file] = reply.files
    return [
        (int(first), int(last), algorithm, protocol)
        for first, last, algorithm, protocol in ROW.findall(file.content.decode())
    ]


def priced(size: int, algorithm: str) -> tuple[str, str]:
    """The way that ``time`` prices the call by."""
    [step] = ask("time", **WHERE, program=PLAIN, bytes=size, algorithm=algorithm, segments=1).steps
    return step.algorithm.value.upper(), step.protocol.value.upper()


def test_time_compares_with_the_runtimes_own_choice() -> None:
    """``--algorithm`` says how the program is priced; the default stays NCCL's."""
    free = ask("time", **WHERE, program=PLAIN, bytes=64 * MIB)
    for algorithm in ("ring", "tree"):
        forced = ask("time", **WHERE, program=PLAIN, bytes=64 * MIB, algorithm=algorithm)
        assert forced.default == free.default
        assert forced.baseline_seconds == free.baseline_seconds
        assert forced.steps[0].algorithm.value == algorithm


@pytest.mark.parametrize("target", ["nccl", "nccl-plugin", "nccl-tuner"])
def test_a_file_whose_gain_is_not_sure_says_so_in_itself_and_in_the_answer(target: str) -> None:
    """A tie, by the algorithm that NCCL does not take; and the one that it takes by itself."""
    for algorithm in ("ring", "tree"):
        given = {"program": PLAIN, "bytes": 64 * MIB, "algorithm": algorithm}
        timed = ask("time", **WHERE, **given)
        reply = ask("emit", **WHERE, **given, target=target, channels=8)
        own = timed.default.name == algorithm
        says = "Keep the default: " if own else "Keep the default rather than this"
        assert reply.notes[0].startswith(says)
        [file] = reply.files
        assert says in file.content.decode()


def test_rows_of_one_size_cover_the_sizes_that_have_its_way() -> None:
    own = 8 * MIB
    reply = plugin(own)
    [(first, last, *way)] = rows(reply)
    assert 2 * first < own < last
    assert any("Rows cover payloads of" in note for note in reply.notes)
    sizes = (first, own, last)
    assert {priced(size, "ring") for size in sizes} == {tuple(way)}
    for outside in (first * 97 // 100, last * 103 // 100):
        if MIB // 2**10 < outside < 2**34:
            same = priced(outside, "ring") == tuple(way)
            assert not same or plugin(outside).notes[0] != reply.notes[0]


def test_rows_of_a_range_cover_its_stretch_and_nothing_else() -> None:
    """Each size has one row, with the way of its price; without gaps."""
    given = {**WHERE, "bytes": [MIB, 64 * MIB], "max_steps": 1, "algorithm": "ring"}
    body = VERBS["top"].answer(parse_question(VERBS["top"].question, given), Watcher()).body
    stretch = judge("top").validate_python(body).stretches[0]
    found = rows(ask("emit", **{"from": body}, target="nccl-plugin", bytes=4 * MIB))
    assert (found[0][0], found[-1][1]) == (stretch.from_bytes, stretch.until_bytes)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(found))
    for first, last, *way in found:
        # A crossover is known to a hundredth.
        inside = (first, max(first, min(last, stretch.until_bytes) * 98 // 100))
        assert {priced(size, "ring") for size in inside} == {tuple(way)}


@pytest.mark.parametrize("target", ["nccl", "nccl-plugin", "nccl-tuner"])
@pytest.mark.parametrize("channels", [0, 65])
def test_nccl_has_no_such_number_of_channels(target: str, channels: int) -> None:
    with pytest.raises(InputError, match=f"--channels: {channels} channels; 1 to 64"):
        ask("emit", **WHERE, program=PLAIN, bytes=MIB, target=target, channels=channels)
