"""Questions by several processes: however many, the answer is that of one, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import InputError, Reduction, System, placements, row_major_placement
from partitioned import RANGE, SUPERPOD, Given, body_of, told
from results.speedup.perfect import Several, perfectly
from strategies import AXIS_NAMES, systems
from synth.ask.partition import LibraryCache, Piece, carry_out
from synth.ask.questions.question import axes_of, parse_question
from synth.ask.ranking import TopQuestion
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS
from synth.collective.price import segments
from synth.collective.ranking import answers, library
from synth.collective.ranking.candidates import CandidateSearch
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.search import forks
from synth.step.search.composing.composer import Composer
from synth.step.search.planning import Planner


def answered(verb: str, given: Given, watcher: Watcher) -> Reply:
    return VERBS[verb].answer(parse_question(VERBS[verb].question, given), watcher)


@contextmanager
def forks_from_the_second_item() -> Iterator[None]:
    with patch.object(forks, "WORTH_SECONDS", 0):
        yield


@contextmanager
def known(system: System) -> Iterator[None]:
    """A system that no catalogue has, by its name."""
    before = TopQuestion.machine

    def machine(question: TopQuestion) -> System:
        return system if question.system == system.name else before(question)

    with patch.object(TopQuestion, "machine", machine):
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
    assume(row_major_placement(system.hierarchy, axes_of(axes)) is not None)
    return system, question


@given(questions(), st.sampled_from([2, 3, 8, 100]))
@examples(10, 30)
def test_by_however_many_the_answer_is_the_same(
    asked_of: tuple[System, Given], processes: int
) -> None:
    system, question = asked_of
    with known(system):
        alone = body_of("top", question)
        with perfectly(lambda: 0.0, 0.0):
            assert told(answered("top", question, Several(processes))) == alone


@pytest.mark.parametrize(
    "more",
    [
        {"k": 1},
        {"k": 12},
        {"k": 2, "per_placement": True, "stripes": False},
        {"k": 50, "stripes": False, "reduce": ["data", "model"]},
        {"bytes": "64KiB..512KiB", "stripes": False},
        {"placement": [[1, 4, 1, 8], [2, 1, 4, 1]]},
        {"exact": True, "reduce": ["data", "model"]},
    ],
)
def test_by_processes_that_are_there_the_answer_is_the_same(more: Given) -> None:
    question = SUPERPOD | more
    with forks_from_the_second_item():
        assert told(answered("top", question, Several(3))) == body_of("top", question)


def test_what_a_process_keeps_changes_no_answer() -> None:
    """One cache of programs and proofs for several questions, one after the other."""
    libraries = LibraryCache()
    small = {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}}
    for question in (
        SUPERPOD | small,
        SUPERPOD | small | {"k": 3},
        SUPERPOD | {"k": 5},
        RANGE,
        SUPERPOD | {"k": 2, "max_steps": 3, "stripes": False},
        RANGE | {"request": "all-gather"},
    ):
        found = carry_out(Piece(verb="top", question=question), Watcher(), libraries)
        assert json.dumps(found["body"]) == body_of("top", question)[0]


# Work that is stopped.


class Patience(Several):
    """Stops when asked for the n-th time."""

    def __init__(self, times: int, processes: int = 1) -> None:
        super().__init__(processes)
        self.left = times

    def go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("times", [0, 1, 5, 30, 200])
@pytest.mark.parametrize("given_", [SUPERPOD | {"stripes": False}, RANGE])
def test_stopped_searches_give_correct_answers(given_: Given, times: int, processes: int) -> None:
    alone, _ = body_of("top", given_)
    whole = json.loads(alone)
    with perfectly(lambda: 0.0, 0.0):
        reply = answered("top", given_, Patience(times, processes))
    if reply.body["complete"]:
        assert json.dumps(reply.body) == alone
        return
    assert reply.outcome is Outcome.PARTIAL
    if "stretches" in reply.body:
        assert reply.body["stretches"]
        assert {one["bytes"] for one in reply.body["sizes"]} <= _sizes(whole)
        return
    ranks = [answer["rank"] for answer in reply.body["answers"]]
    assert ranks == list(range(1, len(ranks) + 1)) != []
    seconds = [answer["seconds"] for answer in reply.body["answers"]]
    assert seconds == sorted(seconds)
    assert all(s >= t["seconds"] for s, t in zip(seconds, whole["answers"], strict=False))
    assert reply.body["considered"]["placements"] <= whole["considered"]["placements"]


def _sizes(body: Given) -> set[int]:
    return {one["bytes"] for one in body["sizes"]}


# Several systems.


@pytest.mark.parametrize("size", [RANGE["bytes"], "64MiB"])
def test_a_sweep_over_systems_holds_the_answer_of_each(size: object) -> None:
    shared = {key: value for key, value in RANGE.items() if key != "system"} | {"max_steps": 2}
    names = ["dgx-h100:4", "p2-a100:2", "dgx-a100:4"]
    question = shared | {"systems": names, "bytes": size}
    alone = body_of("sweep", question)
    each = [body_of("top", shared | {"system": name, "bytes": size})[0] for name in names]
    assert [json.dumps(body) for body in json.loads(alone[0])["systems"]] == each
    with forks_from_the_second_item():
        assert told(answered("sweep", question, Several(2))) == alone
    with perfectly(lambda: 0.0, 0.0):
        assert told(answered("sweep", question, Several(100))) == alone


def test_a_sweep_that_is_stopped_has_the_systems_it_came_to() -> None:
    question = {**RANGE, "systems": ["dgx-h100:4", "dgx-a100:4"]}
    del question["system"]
    reply = answered("sweep", question, Patience(0))
    assert reply.outcome is Outcome.PARTIAL
    assert reply.body["complete"] is False
    assert len(reply.body["systems"]) == 1


@pytest.mark.parametrize("processes", [1, 3])
def test_the_first_system_that_does_not_fit_is_named(processes: int) -> None:
    question = {**RANGE, "systems": ["dgx-h100:4", "dgx-a100:2", "p2-v100:8"]}
    del question["system"]
    with (
        forks_from_the_second_item(),
        pytest.raises(InputError, match="multiply to 32") as raised,
    ):
        answered("sweep", question, Several(processes))
    assert "dgx-a100:2" in raised.value.where


# The best so far.


class Looker(Several):
    """Looks at the best so far whenever they change."""

    def __init__(self, processes: int = 1) -> None:
        super().__init__(processes)
        self.seen: list[Sequence[ProvisionalResult]] = []

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        self.seen.append(best())


def test_the_best_so_far_get_better_and_end_as_the_answers() -> None:
    question = parse_question(TopQuestion, SUPERPOD | {"k": 3})
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
    body = VERBS["plan"].answer(parse_question(VERBS["plan"].question, given), looker).body
    last = [
        ([list(row) for row in one.placement], one.seconds, {a.name: a.size for a in one.axes})
        for one in looker.seen[-1]
    ]
    keys = ("placement", "exposed_seconds", "axes")
    assert last == [tuple(one[key] for key in keys) for one in body["ranking"]]


@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("top", {"bytes": [2**16, 2**20]}),
        ("sweep", {"systems": ["dgx-h100:4", "dgx-a100:4"], "bytes": 2**20}),
        ("cost", {"slow": {"node3": 0.5}, "bytes": 2**20}),
    ],
)
def test_several_sizes_or_machines_report_no_best_so_far(
    verb: str, more: Given, processes: int
) -> None:
    """They would be those of one of them: a smaller size or another machine is not better."""
    given_ = {key: value for key, value in RANGE.items() if verb != "sweep" or key != "system"}
    looker = Looker(processes)
    with perfectly(lambda: 0.0, 0.0):
        answered(verb, given_ | more, looker)
    assert looker.seen == []


# How much is done, by however many.


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each of COUNTED is done meanwhile."""
    found: Counter[str] = Counter()

    def noting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            found[name] += 1
            return call(*given, **named)

        return noted

    with ExitStack() as stack:
        for name, (owner, call) in COUNTED.items():
            stack.enter_context(patch.object(owner, call, noting(name, getattr(owner, call))))
        yield found


SWEEP: Given = {
    "systems": ["dgx-h100:2", "p2-v100:2"],
    "axes": {"data": 8, "model": 2},
    "reduce": ["data"],
    "bytes": [2**20, 2**22],
    "k": 1,
}

COUNTED: dict[str, tuple[Any, str]] = {
    "placements searched": (CandidateSearch, "distinct"),
    "programs followed": (segments._ChoiceSearch, "follow"),
    "programs proved": (answers, "judge_symbolically"),
    "answers priced": (answers, "answer_of_parts"),
    "states explored": (library, "explore_moves"),
    "insides written": (Composer, "_tried"),
    "plans simulated": (Planner, "_simulated"),
}


@pytest.mark.parametrize(
    ("verb", "question"),
    [
        ("top", SUPERPOD | {"reduce": ["data", "model"], "k": 3}),
        ("top", SUPERPOD | {"axes": {"data": 8, "model": 8, "pipe": 4}, "reduce": ["data"]}),
        ("top", SUPERPOD | {"per_placement": True, "k": 1}),
        ("top", RANGE),
        ("plan", {"system": "dgx-h100:4", "job": "gpt-18b-3d", "stripes": False}),
        ("plan", {"system": "dgx-h100:1", "model": "gpt2-tiny", "batch": 64, "k": 3}),
        ("sweep", SWEEP),
        ("cost", RANGE | {"slow": {"node3": 0.5}, "bytes": 2**20}),
    ],
)
def test_a_hundred_do_hardly_more_than_one(
    verb: str, question: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself would search its own first placements, and write out all by itself."""
    monkeypatch.setenv("COLLSYNTH_CACHE", "none")  # each counts all that it needs
    with counted() as one:
        alone = told(answered(verb, question, Watcher()))
    assert one
    for processes in (2, 100):
        with counted() as many, perfectly(lambda: 0.0, 0.0):
            assert told(answered(verb, question, Several(processes))) == alone
        for name, count in one.items():
            assert many[name] <= 1.2 * count, (name, processes)
        assert set(many) == set(one)
