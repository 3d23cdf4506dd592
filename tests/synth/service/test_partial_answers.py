"""Partial is partial: whatever ends work before its time, nobody is given that as the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from asked_plans import ASKED
from patience import until
from serving import HereTicket, Served, StuckWorkers, ThreadWorkers, served
from synth.ask.partition import Piece
from synth.ask.questions.question import parse_question
from synth.ask.ranking import TopQuestion
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.service.cache import Cache
from synth.service.http.examples import EXAMPLES
from synth.service.jobs import runner
from synth.service.store import Status, Store
from synth.service.workers import OverTimeError, Progress

PART = {"schema_version": 1, "complete": False}
PARTIAL = [verb for verb in VERBS if VERBS[verb].partial]
WAIT = {"Prefer": "wait=60"}


class Answering(ThreadWorkers):
    """Every piece comes to the same result, or ends with an error, after a best so far."""

    def __init__(self, end: dict[str, Any] | Exception, best: bytes | None = None) -> None:
        super().__init__()
        self.end, self.best = end, best
        self.asked = 0

    def submit(self, piece: Piece, **how: Any) -> HereTicket:
        self.asked += 1
        ticket = HereTicket()
        if self.best is not None:
            how["on_progress"](Progress("placements priced", 1, 2, self.best))
        if isinstance(self.end, Exception):
            ticket.future.set_exception(self.end)
        else:
            ticket.future.set_result(self.end)
        return ticket


def put(server: Served, verb: str, **params: Any) -> Any:
    return server.ask.post(f"/v1/{verb}", json=EXAMPLES[verb], headers=WAIT, params=params)


def job_of(server: Served) -> Any:
    return server.ask.get(
        f"/v1/jobs/{server.ask.get('/v1/jobs?limit=1').json()['jobs'][0]['id']}"
    ).json()


def test_the_command_line_keeps_no_partial_answer(tmp_path: Path) -> None:
    """By what the body says of a verb that answers in part, and by the outcome of any verb."""
    with Store(f"sqlite:///{tmp_path / 'cache.db'}") as store:
        store.migrate()
        cache = Cache(store)
        for verb in VERBS:
            question = parse_question(VERBS[verb].question, EXAMPLES[verb])
            for outcome in (Outcome.PARTIAL, *(Outcome if verb in PARTIAL else ())):
                cache.keep(verb, question, Reply(PART, outcome), 1.0)
                assert cache.find(verb, question) is None, (verb, outcome)
            cache.keep(verb, question, Reply({**PART, "complete": True}, Outcome.NO), 1.0)
            assert (cache.find(verb, question) is not None) == VERBS[verb].repeatable, verb


@pytest.mark.parametrize("outcome", Outcome)
def test_a_partial_answer_is_never_a_hit(tmp_path: Path, outcome: Outcome) -> None:
    """Whatever a worker says of it, neither the same team nor another is given it again."""
    workers = Answering({"body": PART, "outcome": int(outcome)})
    with served(tmp_path, workers) as server:
        for verb in PARTIAL:
            before = workers.asked
            for _ in range(2):
                reply = put(server, verb)
                assert (reply.status_code, reply.json()) == (200, PART)
                assert reply.headers["collsynth-outcome"] == "partial"
                assert reply.headers["collsynth-cache"] == "miss"
                assert "content-location" not in reply.headers
            assert workers.asked == before + 2
            assert job_of(server)["status"] == Status.PARTIAL
        workers.end = {"body": {**PART, "complete": True}, "outcome": 0}
        for verb in PARTIAL:
            assert [put(server, verb).headers["collsynth-cache"] for _ in range(2)] == [
                "miss",
                "hit",
            ]


def test_a_budget_that_ends_is_no_failure(tmp_path: Path) -> None:
    """Also where nothing was found by then, and where a verb cannot answer in part."""
    with served(tmp_path, Answering(OverTimeError("the time was up"))) as server:
        for verb in VERBS:
            reply = put(server, verb, budget=1)
            assert (reply.status_code, reply.json()) == (200, {"answers": [], "complete": False})
            assert reply.headers["collsynth-outcome"] == "partial"
            ended = job_of(server)
            assert (ended["verb"], ended["status"], ended["problem"]) == (verb, "partial", None)
            assert ended["headline"] == "Partial: Nothing was found"
            shown = server.ask.get(f"/jobs/{ended['id']}")
            assert (
                "The work stopped at the end of its budget, before it found an answer" in shown.text
            )


BEST = json.dumps(
    {
        "answers": [
            {
                "rank": 1,
                "axes": {"data": 8},
                "placement": [[8]],
                "program": "data=8; batch over data; zero=3",
                "seconds": 0.5,
                "proof": "not yet",
            }
        ],
        "complete": False,
    }
).encode()


def test_a_budget_that_ends_leaves_the_best_so_far(tmp_path: Path) -> None:
    """Even what was found so late that nobody had noted it yet."""
    with served(tmp_path, Answering(OverTimeError("the time was up"), BEST)) as server:
        reply = put(server, "plan", budget=1)
        assert reply.json() == json.loads(BEST)
        ended = job_of(server)
        assert ended["best"] == json.loads(BEST)
        assert ended["headline"] == "Partial: 500 ms, not proved yet"
        assert "zero=3" in server.ask.get(f"/jobs/{ended['id']}").text


def test_a_page_whose_time_was_up_is_no_mistake_of_ours(tmp_path: Path) -> None:
    """Forms lead to the job; parts of answers that could not be made say so."""
    workers = Answering(OverTimeError("the time was up"))
    with served(tmp_path, workers) as server:
        few = {**EXAMPLES["top"], "k": 1, "max_steps": 1, "stripes": False, "segments": 1}
        body = VERBS["top"].answer(parse_question(TopQuestion, few), Watcher()).body
        workers.end = {"body": body, "outcome": 0}
        key = put(server, "top").headers["content-location"].removeprefix("/v1")
        workers.end = OverTimeError("the time was up")
        asked_for = [("GET", f"{key}/code/torch"), ("GET", f"{key}/timeline")]
        asked_for.append(("POST", f"{key}/sizes"))
        for method, path in asked_for:
            reply = server.ask.request(method, path)
            assert reply.status_code == 503, (path, reply.text)
            assert "the time limit was reached" in reply.text
        put(server, "count")
        again = server.ask.post(f"/jobs/{job_of(server)['id']}/again")
        assert again.status_code == 303
        assert again.headers["location"].startswith("/jobs/")


def test_a_plan_that_is_cancelled_keeps_the_best_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans are told as they are composed: work that does not hear of its end loses nothing."""
    monkeypatch.setattr(runner, "CANCEL_SECONDS", 0.05)
    with served(tmp_path, StuckWorkers()) as server:
        question = {**ASKED, "k": 1, "explain": ""}
        at_once = {"Prefer": "respond-async"}
        job = server.ask.post("/v1/plan", json=question, headers=at_once).json()["url"]
        until(lambda: server.ask.get(job).json()["best"])
        server.ask.post(f"{job}/cancel")
        until(lambda: server.ask.get(job).json()["status"] == "cancelled")
        found = server.ask.get(job).json()
        assert found["best"]["answers"][0]["program"].startswith("pipe=2 data=2 tensor=2; ")
        assert found["headline"].startswith("Partial: ")
        shown = server.ask.get(job.removeprefix("/v1"))
        assert "pipe=2 data=2 tensor=2" in shown.text
        assert "Nothing" not in shown.text


def test_a_plan_cut_short_is_no_answer_to_the_next_question(tmp_path: Path) -> None:
    question = {**ASKED, "k": 1, "explain": "", "pin": "data=8 remat=no microbatches=1 bucket=25MB"}
    with served(tmp_path) as server:
        part = server.ask.post("/v1/plan", json=question, headers=WAIT, params={"budget": 1e-6})
        assert part.headers["collsynth-outcome"] == "partial"
        assert part.json()["complete"] is False
        assert part.json()["plans"]
        whole = server.ask.post("/v1/plan", json=question, headers=WAIT)
        assert whole.headers["collsynth-outcome"] == "ok"
        assert whole.headers["collsynth-cache"] == "miss"
        assert whole.json()["complete"] is True
