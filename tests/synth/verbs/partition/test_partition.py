"""Questions cut into pieces: whatever the cut, the answer is the uncut one's, byte for byte."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import InputError, Reduction, System, placements, row_major
from partitioned import RANGE, SUPERPOD, Given, body_of, told
from strategies import AXIS_NAMES, systems
from synth.plan.request import Provisional, Watcher
from synth.verbs.answers.parts import Json
from synth.verbs.partition import (
    LibraryCache,
    Piece,
    Rounds,
    WholeQuestion,
    carry_out,
    rounds_of,
)
from synth.verbs.partition.pieces import SomeSizes
from synth.verbs.planning import TopQuestion
from synth.verbs.questions.question import asked, axes_of
from synth.verbs.reply import Outcome, Reply
from synth.verbs.table import VERBS


def cut(verb: str, given: Given, pieces: int) -> Rounds:
    return rounds_of(verb, asked(VERBS[verb].question, given), pieces)


Carry = Callable[[int, Piece], Json]


def disordered(rounds: Rounds, carry: Carry, seed: int = 0) -> tuple[Reply, list[int]]:
    """Run rounds whose pieces are carried out in any order; and the pieces of each round."""
    orders, sizes = random.Random(seed), []
    try:
        pieces = next(rounds)
        while True:
            sizes.append(len(pieces))
            results: dict[int, Json] = {}
            for number in orders.sample(range(len(pieces)), len(pieces)):
                came = carry(number, Piece.of(pieces[number].text))
                results[number] = json.loads(json.dumps(came, allow_nan=False))
            pieces = rounds.send([results[number] for number in range(len(pieces))])
    except StopIteration as stop:
        return stop.value, sizes


def plainly(number: int, piece: Piece) -> Json:
    return carry_out(piece, Watcher())


@contextmanager
def small_questions_are_cut(*known: System) -> Iterator[None]:
    """Ranges of any length; and systems that no catalogue has, by their names."""
    by_name = {system.name: system for system in known}
    before = TopQuestion.machine

    def machine(question: TopQuestion) -> System:
        return by_name.get(str(question.system)) or before(question)

    with (
        patch("synth.verbs.partition.rounds.LEAST_PRICED", 1),
        patch.object(TopQuestion, "machine", machine),
    ):
        yield


@st.composite
def questions(draw: st.DrawFn) -> tuple[System, Given]:
    """A small system, and a question about it that takes little time."""
    system = draw(systems(16))
    sizes = [1] * draw(st.integers(1, 3))
    left, prime = system.devices, 2
    while left > 1:
        if left % prime:
            prime += 1
        else:
            left //= prime
            sizes[draw(st.integers(0, len(sizes) - 1))] *= prime
    axes = dict(zip(AXIS_NAMES, sizes, strict=False))
    reduce = draw(st.lists(st.sampled_from(list(axes)), min_size=1, unique=True))
    smallest = draw(st.integers(1, 10**7))
    sweep = draw(st.booleans())
    question: Given = {
        "system": "drawn",
        "axes": axes,
        "reduce": reduce,
        "bytes": [smallest, smallest * draw(st.integers(1, 64))] if sweep else smallest,
        "k": draw(st.sampled_from([1, 2, 5, 40])),
        "max_steps": draw(st.integers(1, 2)),
        "per_placement": not sweep and draw(st.booleans()),
        "collapse": draw(st.booleans()),
        "segments": draw(st.sampled_from([1, 3])),
        "stripes": draw(st.booleans()),
        "explain": draw(st.booleans()),
        "request": draw(st.sampled_from(["all-reduce", "all-reduce", "all-gather", "reduce"])),
    }
    depths = [
        len(Reduction(p, tuple(reduce), question["collapse"]).tree.digits)
        for p in placements(system.hierarchy, axes_of(axes))
    ]
    assume(max(depths) <= 3)
    assume(row_major(system.hierarchy, axes_of(axes)) is not None)
    return system, question


@given(questions(), st.integers(2, 9), st.integers())
@examples(10, 30)
def test_however_it_is_cut_the_answer_is_the_same(
    asked_of: tuple[System, Given], pieces: int, seed: int
) -> None:
    system, question = asked_of
    with small_questions_are_cut(system):
        alone = body_of("top", question)
        reply, _ = disordered(cut("top", question, pieces), plainly, seed)
    assert told(reply) == alone


@pytest.mark.parametrize("pieces", [3, 8])
@pytest.mark.parametrize(
    "more",
    [
        {"k": 1},
        {"k": 12},
        {"k": 2, "per_placement": True, "stripes": False},
        {"k": 50, "stripes": False},
        {"bytes": "64KiB..512KiB", "stripes": False},
        {"placement": [[1, 4, 1, 8], [2, 1, 4, 1]]},
    ],
)
def test_a_larger_machine_in_pieces(more: Given, pieces: int) -> None:
    question = SUPERPOD | more
    reply, sizes = disordered(cut("top", question, pieces), plainly, pieces)
    assert told(reply) == body_of("top", question)
    if "bytes" not in more:
        assert sizes == [1]


def test_what_a_process_keeps_changes_no_answer() -> None:
    """One cache of programs and proofs for pieces of several questions, one after the other."""
    libraries = LibraryCache()
    small = {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}}
    for more in ({}, {"k": 3}):
        question = SUPERPOD | small | more
        piece = Piece(WholeQuestion(verb="top", question=question))
        assert (
            json.dumps(carry_out(piece, Watcher(), libraries)["body"])
            == body_of("top", question)[0]
        )
    for question in (
        SUPERPOD | {"k": 5},
        RANGE,
        SUPERPOD | {"k": 2, "max_steps": 3, "stripes": False},
        RANGE | {"bytes": [2**20, 2**22]},
        RANGE | {"request": "all-gather"},
    ):
        reply, _ = disordered(
            cut("top", question, 4), lambda _, piece: carry_out(piece, Watcher(), libraries)
        )
        assert told(reply) == body_of("top", question)


@pytest.mark.parametrize("more", [{}, {"per_placement": True}, {"k": 100, "max_steps": 3}])
def test_a_ranking_is_one_piece_for_however_many_workers(more: Given) -> None:
    """Shares of placements know nothing of each other's best, so together they do more work."""
    axes = {"axes": {"data": 8, "model": 8, "pipe": 4}}
    [piece] = next(cut("top", SUPERPOD | axes | more, 32))
    assert isinstance(piece.task, WholeQuestion)


def test_sizes_between_neighbours_that_differ_are_rounds_of_their_own() -> None:
    wide = RANGE | {"bytes": [2**18, 2**30], "prices": "stated", "algorithm": "any"}
    reply, sizes = disordered(cut("top", wide, 4), plainly)
    assert told(reply) == body_of("top", wide)
    assert sizes[0] == 4
    assert len(sizes) > 3


def test_pieces_are_small() -> None:
    """What travels grows neither with the machine nor with the number of answers."""
    lengths = []

    def carry(number: int, piece: Piece) -> Json:
        assert isinstance(piece.task, SomeSizes)
        lengths.append(len(piece.text))
        return plainly(number, piece)

    disordered(cut("top", SUPERPOD | {"bytes": RANGE["bytes"], "k": 10}, 4), carry)
    assert 0 < max(lengths) < 1000


@pytest.mark.parametrize(
    ("verb", "given_", "pieces"),
    [
        ("count", {"digits": 2}, 8),
        ("top", {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"]}, 8),
        ("top", SUPERPOD | {"stripes": False}, 1),
        (
            "top",
            {
                "system": "dgx-h100:4",
                "without": ["node3/gpu7"],
                "axes": {"data": 31},
                "reduce": ["data"],
                "max_steps": 2,
            },
            8,
        ),
    ],
)
def test_what_is_not_worth_cutting_is_one_piece(verb: str, given_: Given, pieces: int) -> None:
    reply, sizes = disordered(cut(verb, given_, pieces), plainly)
    assert told(reply) == body_of(verb, given_)
    assert sizes == [1]


# Work that is stopped.


class Patience(Watcher):
    """Stops when asked for the n-th time."""

    def __init__(self, times: int) -> None:
        self.left = times

    def go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize("times", [0, 1, 5, 30, 200])
@pytest.mark.parametrize(
    ("given_", "stopped"), [(SUPERPOD | {"stripes": False}, 0), (RANGE, 0), (RANGE, 1)]
)
def test_one_partial_piece_makes_a_partial_answer_of_what_is_right(
    given_: Given, stopped: int, times: int
) -> None:
    def carry(number: int, piece: Piece) -> Json:
        return carry_out(piece, Patience(times) if number == stopped else Watcher())

    reply, _ = disordered(cut("top", given_, 4), carry)
    alone, _ = disordered(cut("top", given_, 1), plainly)
    if reply.body["complete"]:
        assert told(reply) == told(alone)
        return
    assert reply.outcome is Outcome.PARTIAL
    if "stretches" in reply.body:
        assert {one["bytes"] for one in reply.body["sizes"]} <= set(_all_sizes(alone))
        return
    ranks = [answer["rank"] for answer in reply.body["answers"]]
    assert ranks == list(range(1, len(ranks) + 1))
    seconds = [answer["seconds"] for answer in reply.body["answers"]]
    assert seconds == sorted(seconds)
    assert all(s >= t["seconds"] for s, t in zip(seconds, alone.body["answers"], strict=False))
    assert reply.body["considered"]["placements"] <= alone.body["considered"]["placements"]


def _all_sizes(reply: Reply) -> list[int]:
    return [one["bytes"] for one in reply.body["sizes"]]


@pytest.mark.parametrize("given_", [SUPERPOD, RANGE])
def test_whoever_is_stopped_everywhere_still_answers_something(given_: Given) -> None:
    reply, _ = disordered(cut("top", given_, 4), lambda _, piece: carry_out(piece, Patience(0)))
    assert reply.outcome is Outcome.PARTIAL
    told_of = reply.body["stretches"] if "stretches" in reply.body else reply.body["answers"]
    assert told_of


# Several systems.


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_a_sweep_over_systems_holds_the_answer_of_each(pieces: int) -> None:
    shared = {key: value for key, value in RANGE.items() if key != "system"}
    for size in (shared["bytes"], "64MiB"):
        names = ["dgx-h100:4", "p2-a100:2", "dgx-a100:4"]
        question = shared | {"systems": names, "bytes": size}
        reply, _ = disordered(cut("sweep", question, pieces), plainly)
        assert told(reply) == body_of("sweep", question)
        each = [body_of("top", shared | {"system": name, "bytes": size})[0] for name in names]
        assert [json.dumps(body) for body in reply.body["systems"]] == each
        assert reply.body["complete"] is True


def test_a_sweep_that_is_stopped_has_the_systems_it_came_to() -> None:
    question = {**RANGE, "systems": ["dgx-h100:4", "dgx-a100:4"]}
    del question["system"]
    reply = VERBS["sweep"].answer(asked(VERBS["sweep"].question, question), Patience(0))
    assert reply.outcome is Outcome.PARTIAL
    assert reply.body["complete"] is False
    assert len(reply.body["systems"]) == 1


@pytest.mark.parametrize("pieces", [1, 6])
def test_a_system_that_does_not_fit_is_named(pieces: int) -> None:
    question = {**RANGE, "systems": ["dgx-h100:4", "dgx-a100:2"]}
    del question["system"]
    with pytest.raises(InputError, match="multiply to 32") as raised:
        disordered(cut("sweep", question, pieces), plainly)
    assert "dgx-a100:2" in raised.value.where


# The best so far.


class Looker(Watcher):
    """Looks at the best so far whenever they change."""

    def __init__(self) -> None:
        self.seen: list[Sequence[Provisional]] = []

    def ranked(self, best: Callable[[], Sequence[Provisional]]) -> None:
        self.seen.append(best())


def test_the_best_so_far_get_better_and_end_as_the_answers() -> None:
    question = asked(TopQuestion, SUPERPOD | {"k": 3})
    looker = Looker()
    body = VERBS["top"].answer(question, looker).body
    firsts = [best[0].seconds for best in looker.seen]
    assert firsts == sorted(firsts, reverse=True)
    last = [
        (one.rank, [list(row) for row in one.placement], one.program, one.seconds)
        for one in looker.seen[-1]
    ]
    keys = ("rank", "placement", "program", "seconds")
    assert last == [tuple(answer[key] for key in keys) for answer in body["answers"]]


def test_the_best_placements_of_a_job_so_far_end_as_its_ranking() -> None:
    given = {"system": "dgx-h100:4", "job": "gpt-18b-3d", "k": 3, "stripes": False}
    looker = Looker()
    body = VERBS["plan"].answer(asked(VERBS["plan"].question, given), looker).body
    last = [
        ([list(row) for row in one.placement], one.seconds, {a.name: a.size for a in one.axes})
        for one in looker.seen[-1]
    ]
    keys = ("placement", "exposed_seconds", "axes")
    assert last == [tuple(one[key] for key in keys) for one in body["ranking"]]


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("top", {"bytes": [2**16, 2**20]}),
        ("sweep", {"systems": ["dgx-h100:4", "dgx-a100:4"], "bytes": 2**20}),
        ("cost", {"slow": {"node3": 0.5}, "bytes": 2**20}),
    ],
)
def test_of_several_sizes_or_machines_no_best_so_far_is_told(
    verb: str, more: Given, pieces: int
) -> None:
    """They would be those of one of them: a smaller size or another machine is not better."""
    given_ = {key: value for key, value in RANGE.items() if verb != "sweep" or key != "system"}
    looker = Looker()
    VERBS[verb].answer(asked(VERBS[verb].question, given_ | more), looker)
    assert looker.seen == []
    if verb == "top":
        disordered(cut(verb, given_ | more, pieces), lambda _, one: carry_out(one, looker))
        assert looker.seen == []
