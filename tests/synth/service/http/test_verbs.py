"""The service as its users see it: the answers of the command line, jobs, and permalinks."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the extra server")

from sqlalchemy import Engine, event

from hierarchies import InputError
from patience import PATIENCE_SECONDS
from replying import COMMANDS, SHAPES
from serving import Served, served
from synth.ask.questions.named_texts import MOST_FILES
from synth.ask.questions.question import Question
from synth.ask.table import VERBS
from synth.cli import ask as shell
from synth.cli.app import app
from synth.service.auth.identity import Caller
from synth.service.http.examples import EXAMPLES
from synth.service.jobs import broker
from synth.service.jobs.questions import PreparedQuestion, prepare
from synth.service.limits import Limits
from synth.service.workers import ProcessWorkers

LONG = {"system": "dgx-h100:16", "axes": {"data": 8, "tensor": 4, "expert": 4}, "reduce": ["data"]}
SLOW = {"digits": 4, "max_steps": 8, "across": True}
AT_ONCE = {"Prefer": "respond-async"}
PATIENT = {"Prefer": "wait=60"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service")) as found:
        yield found


def ended(server: Served, url: str) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        job = server.ask.get(url).json()
        if job["status"] not in ("queued", "running", "cancelling"):
            return job
        time.sleep(0.05)
    raise AssertionError(f"{job} has not ended")


def shapes() -> Iterator[Any]:
    """Every shape of answer; the second and later ones of a verb with the slow tests."""
    seen: set[str] = set()
    for name in SHAPES:
        verb = COMMANDS[name][0]
        yield pytest.param(name, marks=[pytest.mark.slow] if verb in seen else [])
        seen.add(verb)


@pytest.mark.parametrize("name", [*shapes()])
def test_both_faces_give_the_same_answer(
    server: Served, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = COMMANDS[name][0]
    put: list[Question] = []
    asked = shell.parse_question

    def noted(model: type[Question], given: object) -> Question:
        put.append(asked(model, given))
        return put[-1]

    monkeypatch.setattr(shell, "parse_question", noted)
    said = CliRunner().invoke(app, [*COMMANDS[name], "--json"])
    question = put[-1].model_dump(mode="json", by_alias=True)
    answer = server.ask.post(f"/v1/{verb}", json=question, headers=PATIENT)
    assert answer.status_code == 200, answer.text
    assert answer.headers["collsynth-outcome"] == {0: "ok", 1: "no"}[said.exit_code]
    if VERBS[verb].repeatable:
        assert answer.json() == json.loads(said.stdout)
        assert answer.text + "\n" == said.stdout
    else:
        assert set(answer.json()) == set(json.loads(said.stdout))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_its_example_and_remembers_it(server: Served, verb: str) -> None:
    first = server.ask.post(f"/v1/{verb}", json=EXAMPLES[verb], headers=PATIENT)
    again = server.ask.post(f"/v1/{verb}", json=EXAMPLES[verb], headers=PATIENT)
    assert (first.status_code, again.status_code) == (200, 200), first.text
    if VERBS[verb].repeatable:
        assert again.headers["collsynth-cache"] == "hit"
        assert again.content == first.content
        assert again.headers["content-location"] == first.headers["content-location"]
    else:
        assert again.headers["collsynth-cache"] == first.headers["collsynth-cache"] == "miss"
        assert again.headers["content-location"] != first.headers["content-location"]
    kept = server.ask.get(first.headers["content-location"]).json()
    assert kept["answer"] == first.json()
    assert kept["outcome"] == first.headers["collsynth-outcome"]
    assert (kept["verb"], kept["url"]) == (verb, first.headers["content-location"])
    once_more = server.ask.post(f"/v1/{verb}", json=kept["question"], headers=PATIENT)
    if VERBS[verb].repeatable:
        assert once_more.headers["content-location"] == first.headers["content-location"]


def test_one_question_in_two_spellings_has_one_answer(server: Served) -> None:
    question = {**EXAMPLES["top"], "bytes": "64MiB"}
    first = server.ask.post("/v1/top", json=question, headers=PATIENT)
    spelt = json.dumps({**dict(reversed(question.items())), "bytes": 64 * 2**20}, indent=1)
    again = server.ask.post(
        "/v1/top", content=spelt, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert again.headers["collsynth-cache"] == "hit"
    assert again.content == first.content


def test_mistakes_are_worded_as_on_the_command_line(server: Served) -> None:
    words = ["top", "dgx-h100:4", "--axes", "data=7", "--reduce", "data"]
    said = CliRunner().invoke(app, words)
    question = {"system": "dgx-h100:4", "axes": {"data": 7}, "reduce": ["data"]}
    problem = server.ask.post("/v1/top", json=question, headers=PATIENT)
    assert problem.status_code == 422
    assert problem.headers["content-type"] == "application/problem+json"
    assert said.stderr == f"collsynth: {problem.json()['detail']}\n"
    assert problem.json()["problem"]


BAD_STEPS = {
    "another model's input": ("shard", {"plan": "data=2; input heads as [data]"}, "no input"),
    "an axis twice": ("shard", {"plan": "data=2; input features as [data,data]"}, "occurs 2 times"),
    "not divided": ("shard", {"plan": "data=3; batch over data"}, "8 samples in 3 parts"),
    "no partial input": ("train", {"plan": "plan x\naxes data=2\nin features [-,-]{sum:data}"}, ""),
    "buckets of nothing": ("shard", {"plan": "data=2; batch over data; buckets of 0 MB"}, "0 MB"),
    "too few stages": ("shard", {"plan": "pipe=3; schedule 1f1b, 4 microbatches"}, "stages"),
    "own code": ("trace", {"model": "model.py:loss"}, "no model"),
    "a run here": ("train", {"plan": "data=2; batch over data", "check": True}, "check"),
    "no machine": ("train", {"plan": "data=2", "placement": [[1, 2]]}, "placement on no machine"),
}


@pytest.mark.parametrize(("verb", "asked", "said"), BAD_STEPS.values(), ids=BAD_STEPS)
def test_a_bad_step_is_refused_in_a_sentence(
    server: Served, verb: str, asked: dict[str, Any], said: str
) -> None:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    question = {"model": "mlp-tiny", **asked}
    answer = server.ask.post(f"/v1/{verb}", json=question, headers=PATIENT)
    assert 400 <= answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text
    assert said in answer.json()["detail"]


def test_a_question_that_takes_longer_is_a_job_with_events(server: Served) -> None:
    accepted = server.ask.post("/v1/top", json=LONG, headers=AT_ONCE)
    assert accepted.status_code == 202
    job = accepted.json()
    assert accepted.headers["location"] == job["url"]
    events = list(followed(server, job["url"]))
    assert [kind for kind, _, _ in events][-1] == "end"
    marks = [int(mark) for _, mark, _ in events if mark]
    assert marks == sorted(set(marks))
    last = events[-1][2]
    assert last["status"] == "done"
    assert last == server.ask.get(job["url"]).json()
    answer = server.ask.get(last["answer"]).json()["answer"]
    assert server.ask.post("/v1/top", json=LONG).json() == answer
    seen_all = followed(server, job["url"], {"Last-Event-ID": str(marks[-1])})
    assert [kind for kind, _, _ in seen_all] == ["end"]


def followed(
    server: Served, url: str, headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str | None, Any]]:
    """The events of a job: kind, id, data."""
    with server.ask.stream("GET", f"{url}/events", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for block in "".join(stream.iter_text()).split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if line)
            if "event" in lines:
                yield lines["event"], lines.get("id"), json.loads(lines["data"])


def test_a_job_is_cancelled_with_what_there_is(server: Served) -> None:
    job = server.ask.post("/v1/count", json=SLOW, headers=AT_ONCE).json()
    while server.ask.get(job["url"]).json()["status"] == "queued":
        time.sleep(0.01)
    told = server.ask.post(f"{job['url']}/cancel").json()
    assert told["status"] in ("cancelling", "cancelled")
    done = ended(server, job["url"])
    assert done["status"] == "cancelled"
    assert done["answer"] is None
    assert done["best"]["complete"] is False
    assert server.ask.post(f"{job['url']}/cancel").json() == done


def test_a_budget_ends_in_a_partial_answer_that_is_not_kept(server: Served) -> None:
    headers = {"Prefer": "wait=30"}
    for _ in range(2):
        part = server.ask.post("/v1/count?budget=0.3", json=SLOW, headers=headers)
        assert part.status_code == 200
        assert part.headers["collsynth-outcome"] == "partial"
        assert part.headers["collsynth-cache"] == "miss"
        assert "content-location" not in part.headers
        assert part.json()["complete"] is False


def test_an_idempotency_key_is_one_job(server: Served) -> None:
    question = {**EXAMPLES["place"], "axes": {"data": 16, "model": 2}}
    headers = {"Idempotency-Key": "ours-1", "Prefer": "respond-async"}
    first = server.ask.post("/v1/place", json=question, headers=headers)
    assert first.status_code == 202
    job = ended(server, first.headers["location"])
    again = server.ask.post("/v1/place", json=question, headers=headers)
    assert again.status_code == 200
    assert again.headers["content-location"] == job["answer"]
    other = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=headers)
    assert other.status_code == 409
    assert other.json()["where"] == "Idempotency-Key"
    known = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=PATIENT)
    assert known.status_code == 200
    assert server.ask.post("/v1/place", json=EXAMPLES["place"], headers=headers).status_code == 409


def test_a_known_answer_creates_no_job_for_any_key(server: Served) -> None:
    first = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=PATIENT)
    jobs = server.ask.get("/v1/jobs?verb=place&limit=200").json()
    for _ in range(2):
        headers = {"Idempotency-Key": "ours-3", "Prefer": "respond-async"}
        known = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=headers)
        assert (known.status_code, known.content) == (200, first.content)
        assert known.headers["collsynth-cache"] == "hit"
    assert server.ask.get("/v1/jobs?verb=place&limit=200").json() == jobs


def test_one_idempotency_key_from_many_at_once_is_one_job(server: Served) -> None:
    question = {**EXAMPLES["place"], "axes": {"data": 4, "model": 8}}
    headers = {"Idempotency-Key": "ours-2", **AT_ONCE}
    said: list[Any] = []

    def post() -> None:
        said.append(server.ask.post("/v1/place", json=question, headers=headers))

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in said} <= {200, 202}
    jobs = server.ask.get("/v1/jobs?verb=place&limit=200").json()["jobs"]
    mine = {answer.headers["location"] for answer in said if answer.status_code == 202}
    assert len(mine) == 1
    assert mine <= {job["url"] for job in jobs}


def test_jobs_are_listed_in_pages_newest_first(server: Served) -> None:
    for number in (2, 4, 8):
        question = {"system": f"dgx-h100:{number}", "axes": {"data": 8 * number}}
        server.ask.post("/v1/place", json=question, headers=PATIENT)
    whole = server.ask.get("/v1/jobs?limit=200").json()
    assert whole["next"] is None
    pages: list[Any] = []
    after = ""
    while True:
        page = server.ask.get(f"/v1/jobs?limit=2{after}").json()
        pages += page["jobs"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert pages == whole["jobs"]
    assert [job["created"] for job in pages] == sorted((j["created"] for j in pages), reverse=True)
    placed = server.ask.get("/v1/jobs?verb=place&status=done&limit=200").json()["jobs"]
    assert placed == [j for j in pages if (j["verb"], j["status"]) == ("place", "done")]
    assert placed
    for wrong in ("limit=0", "limit=201", "status=lost", "after=../..", f"after={'0' * 32}"):
        assert server.ask.get(f"/v1/jobs?{wrong}").status_code == 422


def test_a_failed_job_states_its_reason(server: Served) -> None:
    """Of a text that is too long to be read before it is a job."""
    text = "step s\nin x: f32[8] batch\n" + "# as traced\n" * 20_000 + "out y\n"
    question = {**EXAMPLES["shard"], "model": {"name": "long.step", "text": text}}
    job = server.ask.post("/v1/shard", json=question, headers=AT_ONCE).json()
    failed = ended(server, job["url"])
    assert failed["status"] == "failed"
    now = server.ask.post("/v1/shard", json=question, headers=PATIENT).json()
    assert {key: now[key] for key in ("status", "problem", "where", "hint")} == failed["problem"]


def test_a_system_of_ones_own_is_kept_and_asked_for_by_name(server: Served) -> None:
    text = server_description("ours")
    kept = server.ask.put("/v1/systems/ours", content=text, headers={"Content-Type": "text/plain"})
    assert kept.status_code == 200, kept.text
    assert kept.json()["text"] == text
    assert server.ask.get("/v1/systems/ours").json() == kept.json()
    assert server.ask.get("/v1/systems").json()["systems"] == [kept.json()]
    short = {"k": 1, "max_steps": 3, "stripes": False}
    question = {"axes": {"data": 32}, "reduce": ["data"], **short}
    by_name = server.ask.post("/v1/top", json={"system": "ours:4", **question}, headers=PATIENT)
    assert by_name.status_code == 200, by_name.text
    given = {"name": "ours:4", "text": text}
    by_text = server.ask.post("/v1/top", json={"system": given, **question}, headers=PATIENT)
    assert by_text.headers["content-location"] == by_name.headers["content-location"]
    changed = text.replace("= 450", "= 45")
    assert changed != text
    server.ask.put("/v1/systems/ours", json={"text": changed})
    now = server.ask.post("/v1/top", json={"system": "ours:4", **question}, headers=PATIENT)
    assert now.headers["content-location"] != by_name.headers["content-location"]
    assert server.ask.delete("/v1/systems/ours").status_code == 204
    assert server.ask.get("/v1/systems/ours").status_code == 404
    assert server.ask.delete("/v1/systems/ours").status_code == 404
    gone = server.ask.post("/v1/top", json={"system": "ours:4", **question}, headers=PATIENT)
    assert gone.status_code == 422


def a_log(times: float, collective: str = "all_gather") -> str:
    rows = [f"{size},{times * (3e-5 + size / 80e9)}" for size in (2**n for n in range(10, 31, 2))]
    head = [f"# collective: {collective}", "# nodes: 2", "# ranks: 16", "bytes,seconds"]
    return "\n".join([*head, *rows])


def test_baselines_are_kept_by_machine_and_test_and_compared_with(server: Served) -> None:
    """Kept under names that questions use, or all of a machine; no other machine's."""
    plain = {"Content-Type": "text/plain"}
    url = "/v1/baselines/dgx-a100/all-gather-2x8"
    kept = server.ask.put(url, content=a_log(1.0), headers=plain)
    assert kept.status_code == 200, kept.text
    assert kept.json()["url"] == url
    reduced = a_log(1.0, "all_reduce")
    other = "/v1/baselines/dgx-a100/all-reduce-2x8"
    assert server.ask.put(other, json={"text": reduced}).status_code == 200
    assert server.ask.get(url).json() == kept.json()
    listed = server.ask.get("/v1/baselines").json()["baselines"]
    assert [one["test"] for one in listed] == ["all-gather-2x8", "all-reduce-2x8"]
    assert listed[1] == {
        "machine": "dgx-a100",
        "test": "all-reduce-2x8",
        "url": other,
        "changed": server.ask.get(other).json()["changed"],
        "bytes": len(reduced.encode()),
    }

    def asked(names: list[str], times: float, system: str = "dgx-a100:2") -> httpx.Response:
        files = [{"name": "new.csv", "text": a_log(times)}]
        question = {"system": system, "files": files, "baseline": names}
        return server.ask.post("/v1/doctor", json=question, headers=PATIENT)

    for names in (["kept"], ["all-gather-2x8"]):
        reply = asked(names, 1.0)
        assert reply.status_code == 200, reply.text
        [run] = reply.json()["runs"]
        assert run["past"]["sources"] == ["all-gather-2x8"]
        assert reply.headers["collsynth-outcome"] == "ok"
        assert asked(names, 1.4).headers["collsynth-outcome"] == "no"
    refused = asked(["all-reduce-2x8"], 1.0).json()
    assert "the baseline is of another test" in refused["problem"]
    for names, system in ((["lost"], "dgx-a100:2"), (["kept"], "azure-ndv4:2")):
        refused = asked(names, 1.0, system).json()
        assert f"no baseline '{names[0]}' is kept" in refused["problem"]
    changed = server.ask.put(url, content=a_log(1.4), headers=plain)
    assert changed.status_code == 200
    assert asked(["kept"], 1.4).headers["collsynth-outcome"] == "ok"
    for address in (url, other):
        assert server.ask.delete(address).status_code == 204
    assert server.ask.get(url).status_code == 404
    assert server.ask.delete(url).status_code == 404


def keep(server: Served, *texts: str) -> None:
    for number, text in enumerate(texts):
        reply = server.ask.put(f"/v1/baselines/dgx-a100/log{number}", json={"text": text})
        assert reply.status_code == 200, reply.text


def compare(server: Served, names: list[Any], system: Any = "dgx-a100:2") -> httpx.Response:
    files = [{"name": "new.csv", "text": a_log(1.0)}]
    question = {"system": system, "files": files, "baseline": names}
    return server.ask.post("/v1/doctor", json=question, headers=PATIENT)


@pytest.mark.parametrize(
    ("names", "sources"),
    [
        (["kept"] * 2000, ["log0", "log1"]),
        (["log1", "log1"], ["log1"]),
        (["log1", "kept", "log0"], ["log1", "log0"]),
    ],
)
def test_each_baseline_is_in_a_question_once(
    tmp_path: Path, names: list[str], sources: list[str]
) -> None:
    with served(tmp_path) as found:
        keep(found, a_log(1.0), a_log(1.1))
        reply = compare(found, names)
        assert reply.status_code == 200, reply.text
        [run] = reply.json()["runs"]
        assert run["past"]["sources"] == sources
        answer = found.ask.get(reply.headers["content-location"]).json()
        assert [one["name"] for one in answer["question"]["baseline"]] == sources


@pytest.mark.parametrize("names", [["kept"], ["log0", "log1"]])
def test_a_question_is_no_longer_with_its_baselines_than_a_body(
    tmp_path: Path, names: list[str]
) -> None:
    text = a_log(1.0)
    sent = len(text) + 200
    with served(tmp_path, limits=Limits(body_bytes=sent + 3 * len(text) // 2)) as found:
        keep(found, text, text)
        refused = compare(found, names)
        assert refused.status_code == 422, refused.text
        assert f"have {2 * len(text)} bytes" in refused.json()["problem"]
        assert refused.json()["where"] == "baseline"
        assert compare(found, ["log0"]).status_code == 200


def test_a_short_question_with_long_baselines_is_read_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(verb: str, given: object) -> PreparedQuestion:
        threads.append(threading.current_thread().name)
        return prepare(verb, given)

    monkeypatch.setattr(broker, "prepare", noted)
    with served(tmp_path) as found:
        keep(found, a_log(1.0) + "\n" + "# a remark\n" * 4000)
        for names in ([], ["kept"]):
            assert compare(found, names).status_code == 200
    loop, reader = threads
    assert not loop.startswith("collsynth-threads")
    assert reader.startswith("collsynth-threads")


def test_baselines_count_as_bytes_of_the_bodies_of_a_team(tmp_path: Path) -> None:
    text = a_log(1.0)
    with served(tmp_path, limits=Limits(body_bytes_at_once_per_team=2 * len(text))) as found:
        keep(found, text, text)
        refused = compare(found, ["kept"])
        assert refused.status_code == 429, refused.text
        assert "bodies" in refused.json()["problem"]


def test_no_text_is_read_to_keep_or_list_baselines(tmp_path: Path) -> None:
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *more: object) -> None:
        statements.append(" ".join(statement.split()))

    with served(tmp_path) as found:
        keep(found, a_log(1.0))
        event.listen(Engine, "before_cursor_execute", note)
        try:
            keep(found, a_log(1.0), a_log(1.1))
            assert len(found.ask.get("/v1/baselines").json()["baselines"]) == 2
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    read = [each for each in statements if each.startswith("SELECT") and "baseline" in each]
    assert read
    assert not [each for each in read if re.search(r"(SELECT|,) baseline\.text", each)]


def test_a_question_names_as_many_baselines_as_it_may_have_files(server: Served) -> None:
    refused = compare(server, [f"log{number}" for number in range(MOST_FILES + 1)])
    assert refused.status_code == 422
    assert refused.json()["where"] == "baseline"
    assert str(MOST_FILES) in refused.text


def test_only_questions_that_have_baselines_get_their_texts(tmp_path: Path) -> None:
    with served(tmp_path) as found:
        keep(found, a_log(1.0))
        question = {"system": "dgx-a100:2", "axes": {"data": 16}, "reduce": ["data"]}
        refused = found.ask.post("/v1/top", json={**question, "baseline": ["kept"]})
        assert refused.status_code == 422
        assert "bytes,seconds" not in refused.text
        given = {**question, "baseline": ["kept"]}
        assert asyncio.run(found.service.broker.whole(Caller(), "top", given))[0] is given


@pytest.mark.parametrize("system", [{"text": "x"}, {"name": 3, "text": "x"}, {}, None])
def test_a_system_without_a_name_is_refused_also_beside_a_baseline(
    server: Served, system: Any
) -> None:
    refused = compare(server, ["kept"], system)
    assert refused.status_code == 422, refused.text
    assert refused.json()["where"].startswith("system")


def test_systems_that_a_question_repeats_count_each_time(tmp_path: Path) -> None:
    text = server_description("ours")
    with served(tmp_path, limits=Limits(description_bytes=len(text) + 10)) as found:
        assert found.ask.put("/v1/systems/ours", json={"text": text}).status_code == 200
        question = {"systems": ["ours:4"] * 64, "axes": {"data": 32}, "reduce": ["data"]}
        refused = found.ask.post("/v1/sweep", json=question)
        assert refused.status_code == 422
        with pytest.raises(InputError) as error:
            asyncio.run(found.service.broker.whole(Caller(), "sweep", question))
        assert error.value.problem == f"a description of {64 * len(text)} characters"
        assert error.value.problem == refused.json()["problem"]


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("dgx-a100/kept", a_log(1.0), "'kept' names no test"),
        ("dgx-a100/a b", a_log(1.0), "'a b' is not a valid name"),
        ("a b/test", a_log(1.0), "'a b' is not a valid name"),
        ("dgx-a100/test", "a day", "no table of nccl-tests"),
    ],
)
def test_a_baseline_is_a_log_with_two_names(
    server: Served, path: str, text: str, said: str
) -> None:
    reply = server.ask.put(f"/v1/baselines/{path}", json={"text": text})
    assert reply.status_code == 422
    assert said in reply.json()["problem"]


def test_a_team_keeps_so_many_baselines(tmp_path: Path) -> None:
    with served(tmp_path, limits=Limits(baselines_per_team=1)) as few:
        body = {"text": a_log(1.0)}
        assert few.ask.put("/v1/baselines/dgx-a100/one", json=body).status_code == 200
        assert few.ask.put("/v1/baselines/dgx-a100/one", json=body).status_code == 200
        refused = few.ask.put("/v1/baselines/dgx-a100/two", json=body)
        assert refused.status_code == 409
        assert "baselines" in refused.json()["problem"]


def test_a_team_keeps_so_many_bytes_of_baselines(tmp_path: Path) -> None:
    short, long = a_log(1.0), a_log(1.0) + "\n# é"
    with served(tmp_path, limits=Limits(baselines_bytes_per_team=2 * len(long.encode()))) as few:
        keep(few, long, long)
        assert few.ask.put("/v1/baselines/dgx-a100/log2", json={"text": short}).status_code == 409
        keep(few, short, long)  # replaces both
        longer = {"text": f"{long}\n# and more of it: {'x' * len(short)}"}
        assert few.ask.put("/v1/baselines/dgx-a100/log0", json=longer).status_code == 409


def test_a_team_keeps_so_many_systems_and_so_much(tmp_path: Path) -> None:
    texts = {f"ours{number}": server_description(f"ours{number}") for number in range(8)}
    headers = {"Content-Type": "text/plain"}

    def put(name: str) -> httpx.Response:
        url = f"/v1/systems/{name}"
        return few.ask.put(url, content=texts[name], headers=headers)

    size = len(texts["ours0"].encode())
    for limits in (Limits(systems_per_team=3), Limits(systems_bytes_per_team=3 * size + size // 2)):
        folder = tmp_path / str(limits.systems_per_team)
        folder.mkdir()
        with served(folder, limits=limits) as few, ThreadPoolExecutor(8) as pool:
            answers = dict(zip(texts, pool.map(put, texts), strict=True))
            kept = [name for name, answer in answers.items() if answer.status_code == 200]
            assert len(kept) == 3
            assert {answer.status_code for answer in answers.values()} == {200, 409}
            assert put(kept[0]).status_code == 200


def server_description(name: str) -> str:
    from hierarchies import describe_system, load

    text = describe_system(load("dgx-h100:2"))
    return text.replace('name = "dgx-h100"', f'name = "{name}"', 1)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("dgx-h100", "", "is in the catalogue"),
        (".hidden", "", "not a valid name of a system"),
        ("-x", "", "not a valid name of a system"),
        ("a b", "", "not a valid name of a system"),
        ("ours", "name = 1", "ours"),
        ("ours", "[[[", "not a TOML file"),
        ("ours", "a" * (2**18 + 1), "at most"),
    ],
)
def test_a_system_that_cannot_be_kept(server: Served, name: str, text: str, told: str) -> None:
    headers = {"Content-Type": "text/plain"}
    refused = server.ask.put(f"/v1/systems/{name}", content=text, headers=headers)
    assert refused.status_code == 422, refused.text
    assert told in refused.json()["detail"]


def test_refusals_of_the_framework_are_problem_documents(server: Served) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/v1/top", 405),
        ("DELETE", "/v1/jobs", 405),
        ("GET", f"/v1/jobs/{'0' * 32}", 404),
        ("GET", f"/v1/jobs/{'0' * 32}/events", 404),
        ("POST", f"/v1/jobs/{'0' * 32}/cancel", 404),
        ("GET", "/v1/jobs/1", 422),
        ("GET", f"/v1/answers/{'0' * 64}", 404),
        ("GET", "/v1/answers/..", 404),
    ):
        refused = server.ask.request(method, path)
        assert refused.status_code == status, (method, path, refused.text)
        assert refused.headers["content-type"] == "application/problem+json"
        problem = refused.json()
        assert problem["status"] == status
        assert problem["problem"] in problem["detail"]
        assert problem["request_id"] == refused.headers["x-request-id"]


def test_a_method_that_is_not_answered_names_those_that_are(server: Served) -> None:
    for path, methods in (
        ("/v1/systems", "GET, POST"),
        ("/v1/top", "POST"),
        ("/v1/systems/ours", "DELETE, GET, PUT"),
    ):
        refused = server.ask.patch(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, methods)


def test_a_request_keeps_its_id_if_that_is_sane(server: Served) -> None:
    sane = server.ask.get("/healthz", headers={"X-Request-ID": "build-17.3"})
    assert sane.headers["x-request-id"] == "build-17.3"
    odd = server.ask.get("/healthz", headers={"X-Request-ID": 'x" y=1'})
    assert len(odd.headers["x-request-id"]) == 32


def test_metrics_count_and_name_routes_not_addresses(server: Served) -> None:
    server.ask.get("/nothing/at-all")
    server.ask.post("/v1/top", json=EXAMPLES["top"], headers=PATIENT)
    server.ask.post("/v1/top", json=EXAMPLES["top"], headers=PATIENT)
    told = server.ask.get("/metrics", follow_redirects=False)
    assert told.status_code == 200
    assert told.headers["content-type"].startswith("text/plain")
    assert 'collsynth_requests_total{method="POST",route="/v1/top",status="200"}' in told.text
    assert 'collsynth_questions_total{found="memory",verb="top"}' in told.text
    assert 'collsynth_jobs{status="done"}' in told.text
    assert 'route="unmatched"' in told.text
    assert "at-all" not in told.text


def test_health_and_readiness(server: Served) -> None:
    for path in ("/healthz", "/readyz"):
        told = server.ask.get(path)
        assert (told.status_code, told.json()["status"]) == (200, "ok")


def test_processes_answer_as_threads_do(server: Served, tmp_path: Path) -> None:
    with served(tmp_path, ProcessWorkers(1)) as other:
        question = EXAMPLES["top"]
        there = other.ask.post("/v1/top", json=question, headers=PATIENT)
        here = server.ask.post("/v1/top", json=question, headers=PATIENT)
        assert there.status_code == 200, there.text
        assert there.content == here.content
