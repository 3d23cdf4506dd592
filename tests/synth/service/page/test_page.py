"""The page as browsers without scripts see it: forms, answers, jobs, keys, and what is refused."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from importlib import resources
from itertools import chain
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from sqlalchemy import update

from hierarchies import load
from patience import PATIENCE_SECONDS
from serving import Served, StuckWorkers, served
from synth.ask.reply import Outcome, Reply
from synth.service.auth.identity import LOCAL
from synth.service.http.examples import EXAMPLES
from synth.service.jobs.questions import prepare
from synth.service.page.rendering import POLICY, static_files
from synth.service.page.responses import prefers_page
from synth.service.store import JobClaim, NewJob, Status
from synth.service.store.tables import JOB
from synth.show.report.rendering import Paragraph, blocks
from synth.show.terminal.table import TABLES

FORM = {
    "system": "dgx-h100",
    "count": "4",
    "axis_name": ["data", "model"],
    "axis_size": ["8", "4"],
    "reduce": "0",
    "request": "all-reduce",
    "bytes": "1GiB",
    "k": "3",
}
PART = {"X-Part": "1"}
LONG = {**FORM, "count": "16", "axis_name": ["a", "b", "c"], "axis_size": ["8", "4", "4"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("page"), wait_seconds=PATIENCE_SECONDS) as found:
        yield found


@pytest.fixture(scope="module")
def answer(server: Served) -> str:
    response = server.ask.post("/", data=FORM)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def test_the_form_is_there_and_carries_its_policy(server: Served) -> None:
    response = server.ask.get("/")
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    for match in re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text):
        found = server.ask.get(unescape(match))
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]


def test_static_files_have_correct_content_types(server: Served) -> None:
    for path, file in static_files().items():
        response = server.ask.get(f"/static/{path}")
        assert response.content == file.content
        assert response.headers["content-type"] == file.media_type
        again = {"If-None-Match": response.headers["etag"]}
        assert server.ask.get(f"/static/{path}", headers=again).status_code == 304
    for path in ("nothing.js", "../rendering.py", "%2e%2e/rendering.py", "vendor"):
        assert server.ask.get(f"/static/{path}").status_code == 404


def test_a_form_put_without_a_script_leads_to_a_permalink(server: Served, answer: str) -> None:
    assert re.fullmatch("/answers/[0-9a-f]{64}", answer)
    page = server.ask.get(answer)
    assert page.status_code == 200
    reply = server.ask.get(f"/v1{answer}").json()["answer"]
    first, elsewhere_first = reply["answers"][0], reply["elsewhere"][0]
    for said in (
        "all-reduce of 1 GiB over data on dgx-h100:4",
        f"{first['seconds'] * 1e3:.3g} ms",
        "tie",
        "proved",
        "450 GB/s",
        "[[4, 2], [1, 4]]",
    ):
        assert said in page.text
    order = "placement in frameworks' default order (JAX, torch): the last axis innermost"
    assert order in unescape(page.text)
    assert "not priced: communication over model" in page.text
    elsewhere = re.sub(
        "</?a[^>]*>", "", page.text.partition("If no other axis communicated</h2>")[2]
    )
    figures = (
        f"{elsewhere_first['answer']['seconds'] * 1e3:.3g}",
        f"{elsewhere_first['gain']:.2f}x",
    )
    for said in ("[[1, 8], [4, 1]]", "all-reduce root inside", *figures):
        assert said in elsewhere
    assert server.ask.post("/", data=FORM).headers["location"] == answer
    assert server.ask.get(f"/v1{answer}").json()["answer"]["answers"][0]["rank"] == 1
    assert 'name="axis_name" value="model"' in server.ask.get(f"/?like={answer[9:]}").text


def test_the_advice_comes_first_and_slower_rows_are_folded(server: Served) -> None:
    asked = {"system": "p2-a100:4", "axes": {"data": 64}, "reduce": ["data"], "max_steps": 3}
    where = _answered(server, {**asked, "k": 4})
    page = unescape(server.ask.get(where).text)
    verdict, _, rest = page.partition('aria-label="Ranking"')
    assert re.search(r'<h2 id="verdict-title">1\.\d\dx: do this</h2>', verdict)
    assert "fast.install_ddp(model)" in verdict
    file = re.search(
        rf'href="({where}/files/torch/collsynth_torch_[0-9a-f]{{6}}\.py\?answer=0)"', verdict
    )
    assert file
    assert "import torch" in server.ask.get(file[1]).text
    assert "fast.install_ddp" not in rest.partition('id="chosen"')[0]
    each = {**SO_FAR["top"][0], "k": 2, "max_steps": 3, "per_placement": True}
    where = _answered(server, each)
    page = server.ask.get(where).text
    assert '<h2 id="verdict-title">Keep the default</h2>' in page
    kept, _, folded = page.partition("certainly slower than the best default</summary>")
    numbers = [set(re.findall(r'data-answer="(\d+)"', part)) for part in (kept, folded)]
    assert all(numbers)
    assert not numbers[0] & numbers[1]
    opened = server.ask.get(f"{where}?answer={min(numbers[1])}").text
    assert '<details class="slower" open>' in opened
    assert '<details class="slower" open>' not in page


def _answered(server: Served, question: dict[str, Any]) -> str:
    """The page of an answer."""
    reply = server.ask.post("/v1/top", json=question, headers={"Prefer": "wait=60"})
    return str(reply.headers["content-location"].removeprefix("/v1"))


def test_a_job_put_by_the_form_has_the_page_of_a_plan(server: Served) -> None:
    first = {**FORM, "k": "2", "segments": "1", "max_steps": "2"}
    sent = {"sent_reduce": "model", "sent_bytes": "64MiB", "sent_times": "160", "sent_hidden": ""}
    put = server.ask.post("/", data={**first, **sent, "sent_request": "all-reduce"})
    assert put.status_code == 303, put.text
    where = put.headers["location"]
    page = server.ask.get(where)
    for said in (
        "2 collectives on dgx-h100:4",
        "all-reduce over model",
        "Next best placements",
    ):
        assert said in page.text
    assert "[[2, 4], [2, 2]]" in page.text.partition("Next best placements")[2]
    assert "If no other axis communicated" not in page.text
    assert "gainst message size" not in page.text
    again = server.ask.get(f"/?like={where[9:]}").text
    assert 'name="sent_times" value="160"' in again
    drawn = server.ask.get(f"{where}/timeline?answer=1", headers=PART)
    assert 'class="timeline"' in drawn.text


def test_an_answer_of_other_code_is_shown_even_where_it_cannot_be_drawn(server: Served) -> None:
    for number, body in enumerate((b"{}", b'{"answers": [{}]}', b"[1, 2]")):
        put = prepare("top", {**EXAMPLES["top"], "k": 20 + number})
        kept = replace(put.answered(Reply({}, Outcome.OK), 1.0), edition="another", body=body)
        server.service.store.answers.keep(kept)
        server.service.store.answers.saw(LOCAL, put.key)
        shown = server.ask.get(f"/answers/{put.key}")
        assert shown.status_code == 200
        assert "This answer is from another version of collsynth" in shown.text


def test_rows_parts_and_files_are_below_the_permalink(server: Served, answer: str) -> None:
    second = server.ask.get(f"{answer}?answer=1").text
    assert re.search(r"Answer 2: [\d.]+ ms", second)
    assert "Answer 3:" in server.ask.get(f"{answer}/chosen?answer=2", headers=PART).text
    drawn = server.ask.get(f"{answer}/timeline?answer=1", headers=PART)
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="timeline"' in drawn.text
    assert "<html" not in drawn.text
    assert "<html" in server.ask.get(f"{answer}/timeline").text
    code = server.ask.get(f"{answer}/code/torch", headers=PART)
    assert "import torch" in code.text
    file = server.ask.get(f"{answer}/files/trace/trace.json")
    assert file.json()["traceEvents"]
    assert file.headers["content-disposition"] == 'attachment; filename="trace.json"'
    curves = server.ask.post(f"{answer}/sizes", headers=PART)
    while 'class="waiting"' in curves.text:
        curves = server.ask.post(f"{answer}/sizes", headers=PART)
    assert 'class="curve"' in curves.text
    whole = re.search(r'href="(/answers/[0-9a-f]{64})">Full answer', curves.text)
    assert whole
    assert "The best by message size" in server.ask.get(whole[1]).text
    assert whole[1] in server.ask.get("/jobs").text  # it is the one that has what to run
    assert whole[1].removeprefix("/answers/") in server.ask.get("/compare").text


def test_inexpressible_programs_show_a_reason_in_place_of_code(server: Served, answer: str) -> None:
    response = server.ask.get(f"{answer}/code/jax?answer=2", headers=PART)
    assert response.status_code == 200
    gather = server.ask.post("/", data={**FORM, "request": "all-gather"}).headers["location"]
    assert "def all_gather(" in server.ask.get(f"{gather}/code/torch", headers=PART).text
    assert 'class="timeline"' in server.ask.get(f"{gather}/timeline", headers=PART).text
    sent = server.ask.post("/", data={**FORM, "request": "broadcast"}).headers["location"]
    refused = server.ask.get(f"{sent}/code/mscclpp", headers=PART)
    assert refused.status_code == 200
    assert "whichever rank is the root" in refused.text
    assert server.ask.get(f"{sent}/code/mscclpp").status_code == 422


def test_a_wrong_form_comes_back_with_what_is_wrong_and_what_was_sent(server: Served) -> None:
    hostile = '<script>"'
    response = server.ask.post("/", data={**FORM, "bytes": "much", "without": hostile})
    assert response.status_code == 422
    assert "the size &#39;much&#39; cannot be read" in response.text
    assert "<script>&" not in response.text
    assert 'value="&lt;script&gt;&#34;"' in response.text
    assert 'name="axis_name" value="model"' in response.text


def test_the_check_agrees_with_the_form(server: Served) -> None:
    found = server.ask.post("/check", data={**FORM, "k": "x"}).json()
    assert found["wrong"] == {"k": "k is 'x'; a whole number is needed"}
    assert found["facts"]["axes"] == "product 32 of 32 devices; 3 placements"
    short = server.ask.post("/check", data={**FORM, "count": "1"}).json()
    assert "multiply to 32 devices" in short["wrong"]["axes"]
    assert "axes" not in short["facts"]


def test_a_system_of_ones_own_is_pasted_or_chosen_by_name(server: Served) -> None:
    text = (resources.files("hierarchies") / "catalogue" / "dgx-a100.toml").read_text("utf-8")
    devices = str(load("dgx-a100").devices)
    fields = {**FORM, "own": text, "count": "", "axis_name": "data", "axis_size": devices}
    posted = server.ask.post("/", data=fields)
    assert posted.status_code == 303, posted.text
    assert server.ask.get(posted.headers["location"]).status_code == 200
    server.ask.put("/v1/systems/ours", content=text, headers={"Content-Type": "text/plain"})
    assert '<option value="ours"' in server.ask.get("/").text
    named = server.ask.post("/", data={**fields, "own": "", "system": "ours"})
    assert named.status_code == 303, named.text


def test_a_long_question_is_a_job_that_can_be_cancelled(server: Served) -> None:
    body = {"system": "dgx-h100:16", "axes": {"a": 8, "b": 4, "c": 4}, "reduce": ["a"]}
    at_once = {"Prefer": "respond-async"}
    job = server.ask.post("/v1/top", json=body, headers=at_once).json()["id"]
    page = server.ask.get(f"/jobs/{job}", follow_redirects=False)
    assert page.status_code in (200, 303)
    cancelled = server.ask.post(f"/jobs/{job}/cancel")
    assert cancelled.headers["location"] == f"/jobs/{job}"
    assert server.ask.get(f"/jobs/{job}/best").status_code == 200
    listed = server.ask.get("/jobs").text
    assert f'href="/jobs/{job}"' in listed


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("stuck"), StuckWorkers()) as found:
        yield found


SO_FAR: dict[str, tuple[dict[str, Any], list[str]]] = {
    "top": (
        {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}, "reduce": ["data"]},
        ["all-gather node inside", "[[4, 2], [1, 4]]", "18.9 ms"],
    ),
    "plan": (
        {"system": "dgx-h100:2", "job": "mixtral-8x7b-experts", "k": 2, "segments": 1},
        ["Exposed", "data=1, expert=8, tensor=2", "[[1, 1], [2, 4], [1, 2]]", "10.8 s"],
    ),
}


@pytest.mark.parametrize("verb", SO_FAR)
def test_a_job_shows_the_best_so_far_while_it_runs_and_when_it_was_cancelled(
    stuck: Served, verb: str
) -> None:
    """Found and priced, and neither proved nor compared: not all is there that answers have."""
    asked, said = SO_FAR[verb]
    url = stuck.ask.post(f"/v1/{verb}", json=asked, headers={"Prefer": "respond-async"}).json()
    job, url = f"/jobs/{url['id']}", url["url"]
    while stuck.ask.get(url).json()["best"] is None:
        time.sleep(0.05)
    _check_best(stuck, job, said)
    assert '<span class="status running">' in stuck.ask.get(job).text
    stuck.ask.post(f"{job}/cancel")
    while stuck.ask.get(url).json()["status"] != "cancelled":
        time.sleep(0.05)
    _check_best(stuck, job, said)
    assert '<span class="status cancelled">' in stuck.ask.get(job).text
    for part in ("chosen", "timeline", "code/torch", "files/torch/x"):
        assert stuck.ask.get(f"{job}/{part}").status_code == 404


def _check_best(stuck: Served, job: str, said: list[str]) -> None:
    for part in (stuck.ask.get(job), stuck.ask.get(f"{job}/best")):
        assert part.status_code == 200
        assert "not proved yet" in part.text
        for words in said:
            assert words in unescape(part.text)


def test_a_job_that_lost_its_worker_three_times_shows_what_it_had_found(stuck: Served) -> None:
    body = prepare("top", {**SO_FAR["top"][0], "k": 7})
    job = stuck.service.store.jobs.submit(NewJob(LOCAL, None, "top", body.text, body.key)).job
    leader = {"rank": 1, "axes": {"data": 8}, "placement": [[8]], "program": "p"}
    answers = [{**leader, "seconds": 0.5, "proof": "not yet"}]
    _end_thrice(stuck, job.id, json.dumps({"answers": answers, "complete": False}).encode())
    page = stuck.ask.get(f"/jobs/{job.id}")
    assert page.status_code == 200
    assert "lost its worker 3 times" in page.text
    assert "not proved yet" in page.text
    [row] = re.findall(rf'<tr>(?:(?!<tr>).)*"/jobs/{job.id}".*?</tr>', _flat(stuck, "/jobs"))
    assert "placements priced, 3 of 8" in row


def _flat(server: Served, path: str) -> str:
    """A page on one line."""
    return " ".join(server.ask.get(path).text.split())


def _end_thrice(stuck: Served, job: str, best: bytes) -> None:
    """What the dispatcher writes when a job's worker dies each time; its own server is busy."""
    claims = stuck.service.store.claims
    with_it = JOB.c.id == job
    for _ in range(3):
        with claims._database.writing() as connection:
            taken = {"status": Status.RUNNING, "token": "t", "owner": "elsewhere"}
            connection.execute(update(JOB).where(with_it).values(taken))
        found = stuck.service.store.jobs.one(job)
        assert found is not None
        claim = JobClaim(found, "elsewhere", "t")
        claims.note(claim, {"stage": "placements priced", "done": 3, "of": 8}, best)
        claims.lose(claim)


def test_a_failed_job_states_its_reason_and_no_best_answer(server: Served) -> None:
    put = prepare("top", {**SO_FAR["top"][0], "k": 8})
    job = server.service.store.jobs.submit(NewJob(LOCAL, None, "top", put.text, put.key)).job
    with server.service.store.claims._database.writing() as connection:
        why = {"problem": "it is too dark", "where": "", "hint": ""}
        failed = {"status": Status.FAILED, "problem": why, "token": None}
        connection.execute(update(JOB).where(JOB.c.id == job.id).values(failed))
    page = server.ask.get(f"/jobs/{job.id}").text
    assert page.count(">failed<") == 1
    assert "it is too dark" in page
    assert "Nothing yet" not in page
    assert "Best so far" not in page
    [row] = re.findall(rf'<tr>(?:(?!<tr>).)*"/jobs/{job.id}".*?</tr>', _flat(server, "/jobs"))
    assert "it is too dark" in row
    assert f'action="/jobs/{job.id}/again"' in row
    again = server.ask.post(f"/jobs/{job.id}/again")
    assert again.status_code == 303
    assert again.headers["location"] != f"/jobs/{job.id}"
    assert 'name="axis_name" value="model"' in server.ask.get(f"/?like={job.id}").text


def test_jobs_have_names_and_the_page_s_own_are_not_among_them(server: Served, answer: str) -> None:
    server.ask.get(f"{answer}/code/mpi", headers=PART)
    listed = server.ask.get("/jobs?status=&verb=top&order=oldest").text
    assert "all-reduce of 1 GiB over data on dgx-h100:4, data=8 model=4" in unescape(listed)
    assert '<option value="lower">List the groups of a program</option>' in listed
    assert '<th scope="col">By</th>' not in listed
    assert "No such jobs" in server.ask.get("/jobs?verb=emit").text
    assert server.ask.get("/v1/jobs?verb=emit").json()["jobs"] == []
    assert "No such jobs" in server.ask.get("/jobs?verb=top&status=partial").text
    assert server.ask.get("/jobs?order=never").status_code == 404


def test_a_list_shows_results_of_jobs_and_searches_them(server: Served, answer: str) -> None:
    said = f'<a href="{answer}"><bdi>Keep the default</bdi>'
    today = datetime.now(UTC).date()
    for chosen in ("text=DEFAULT+dgx-h100:4", f"day={today}", "status=done&verb=top"):
        assert said in _flat(server, f"/jobs?{chosen}"), chosen
    for chosen in ("text=default+plan", f"day={today - timedelta(days=2)}"):
        assert said not in _flat(server, f"/jobs?{chosen}"), chosen
    listed = server.ask.get("/v1/jobs", params={"text": "keep", "day": str(today)}).json()["jobs"]
    headlines = {one["headline"].split(";")[0] for one in listed}
    assert headlines <= {"Keep the default", "Partial: Keep the default"}
    yesterday = unescape(server.ask.get("/jobs?status=done&text=a+b").text)
    assert f"/jobs?text=a+b&status=done&day={today - timedelta(days=1)}" in yesterday


def test_jobs_are_listed_in_pages(server: Served) -> None:
    for number in range(60):
        body = {"digits": 1, "max_steps": 1 + number % 3, "across": number % 2 == 0}
        server.ask.post("/v1/count", json=body, headers={"Prefer": "respond-async"})
        server.ask.post("/v1/run", json=RUN, headers={"Prefer": "respond-async"})
    first = server.ask.get("/jobs").text
    older = re.search(r'href="(/jobs\?after=[0-9a-f]{32})" rel="next"', first)
    assert older
    second = server.ask.get(older[1]).text
    jobs = [set(re.findall(r'"/jobs/([0-9a-f]{32})"', text)) for text in (first, second)]
    assert len(jobs[0]) == 50
    assert not jobs[0] & jobs[1]


RUN = {
    "program": "all-reduce root inside",
    "system": "dgx-h100:1",
    "axes": {"data": 8},
    "reduce": ["data"],
    "bytes": 1024,
    "repeat": 1,
}


@pytest.mark.parametrize("verb", [verb for verb in EXAMPLES if verb not in ("top", "plan")])
def test_other_verbs_answers_are_what_the_command_line_prints(server: Served, verb: str) -> None:
    reply = server.ask.post(f"/v1/{verb}", json=EXAMPLES[verb], headers={"Prefer": "wait=60"})
    page = server.ask.get(reply.headers["content-location"].removeprefix("/v1"))
    assert page.status_code == 200
    text, body = unescape(page.text), reply.json()
    for block in blocks(TABLES[verb](body)) if verb in TABLES else ():
        cells = [block.text] if isinstance(block, Paragraph) else [*chain(*block.rows)]
        assert all(cell in text for cell in cells)
    for file in body.get("files", ()):
        assert f'<span class="name">{file["name"]}</span>' in text
        assert file["text"] in text
    assert f'"schema_version": {body["schema_version"]}' in text
    [job] = server.ask.get("/v1/jobs", params={"verb": verb, "limit": 1}).json()["jobs"]
    assert f"<title>{job['name']} " in text
    assert f"<h1><bdi>{job['name']}</bdi>" in text
    if 'id="verdict-title"' in text:
        assert f'id="verdict-title">{job["headline"]}</h2>' in text


def test_plans_have_a_page(server: Served) -> None:
    patient = {"Prefer": "wait=60"}
    asked = {"system": "dgx-h100:2", "job": "mixtral-8x7b-experts", "k": 2}
    plan = server.ask.post("/v1/plan", json=asked, headers=patient)
    where = plan.headers["content-location"].removeprefix("/v1")
    page = server.ask.get(where)
    assert "tokens to experts and back" in page.text
    assert "Next best placements" in page.text
    assert "exposed communication 10.8 s a step" in page.text
    entry = server.ask.get(f"{where}/timeline?answer=5", headers=PART)
    assert 'class="timeline"' in entry.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/answers/{'0' * 64}", 404),
        ("GET", "/answers/short", 404),
        ("GET", f"/jobs/{'0' * 32}", 404),
        ("GET", f"/jobs/{'0' * 32}/timeline", 404),
        ("GET", f"/answers/{'0' * 64}/code/torch", 404),
        ("GET", "/nobody/x/chosen", 404),
        ("POST", "/check", 415),
    ],
)
def test_refusals_are_pages(server: Served, method: str, path: str, status: int) -> None:
    response = server.ask.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["content-security-policy"] == POLICY


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("GET", "/nothing", {}, 404),
        ("GET", "/answers/", {}, 404),
        ("GET", "/logout", {}, 405),
        ("GET", "/", {"Host": "elsewhere.example"}, 403),
        ("POST", "/", {"Origin": "https://elsewhere.example"}, 403),
    ],
)
def test_a_refusal_before_any_page_is_a_page_to_browsers_and_a_problem_to_others(
    server: Served, method: str, path: str, more: dict[str, str], status: int
) -> None:
    page = server.ask.request(method, path, headers={"Accept": BROWSER, **more})
    problem = server.ask.request(method, path, headers=more)
    assert page.status_code == problem.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == POLICY
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["problem"] in unescape(page.text)
    assert page.headers.get("allow") == problem.headers.get("allow")


def test_the_api_refuses_browsers_in_json(server: Served) -> None:
    for path in ("/v1/nothing", f"/v1/answers/{'0' * 64}"):
        refused = server.ask.get(path, headers={"Accept": BROWSER})
        assert refused.headers["content-type"] == "application/problem+json"


def test_a_mistake_of_ours_is_a_page_too(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(server.service.broker, "jobs", broken)
    page = server.ask.get("/jobs", headers={"Accept": BROWSER, "X-Request-ID": "mine"})
    assert page.status_code == 500
    assert page.headers["content-type"].startswith("text/html")
    assert "in the log under mine" in page.text
    assert "ZeroDivision" not in page.text


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("text/html;q=0.5, application/json;q=0.4", True),
        ("", False),
        ("*/*", False),
        ("application/json, text/html", False),
        ("text/html;q=0.4, application/problem+json", False),
        ("text/html;q=0", False),
        ("text/html;q=much,;;,", True),
    ],
)
def test_the_accept_header_decides_between_page_and_json(accept: str, html: bool) -> None:
    assert prefers_page(accept) == html


def test_a_rank_is_looked_for_without_a_script_and_as_a_part(server: Served, answer: str) -> None:
    for path in (f"{answer}?answer=0&rank=30", f"{answer}/machine?answer=0&rank=+30+"):
        shown = server.ask.get(path).text
        assert "<strong>Rank 30</strong> is <code>node3/gpu6</code>" in shown
        assert '"here": 30' in unescape(shown)
    for wrong in ("32", "-1", "<b>", "&#39;"):
        shown = server.ask.get(answer, params={"rank": wrong}).text
        assert "ranks are whole numbers from 0 to 31" in shown
        assert "<b>" not in shown
    assert server.ask.get(answer, params={"rank": "1" * 10}).status_code == 404
    assert "is <code>node" not in server.ask.get(answer).text


def test_odd_parts_are_refused(server: Served, answer: str) -> None:
    for path in ("code/exe", "files/torch/nothing.py", "files/exe/x", "chosen?answer=99"):
        assert server.ask.get(f"{answer}/{path}").status_code in (404, 422)
    assert server.ask.get(f"{answer}?answer=-1").status_code == 404


def test_pages_of_other_sites_cannot_put_questions(server: Served) -> None:
    other = {"Origin": "https://elsewhere.example"}
    assert server.ask.post("/", data=FORM, headers=other).status_code == 403


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("keys"), keys=True, wait_seconds=PATIENCE_SECONDS) as found:
        yield found


def entered(guarded: Served, team: str) -> httpx.Client:
    secret = guarded.service.store.keys.create(team, "browser").secret
    client = httpx.Client(base_url=guarded.url, trust_env=False, timeout=PATIENCE_SECONDS)
    response = client.post("/login", data={"key": secret, "next": "/jobs"})
    assert (response.status_code, response.headers["location"]) == (303, "/jobs")
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie
    client.headers["Origin"] = guarded.url.rstrip("/")
    return client


def test_without_a_key_there_is_only_the_way_to_give_one(guarded: Served) -> None:
    for path in ("/", "/jobs", f"/answers/{'0' * 64}"):
        response = guarded.ask.get(path)
        assert response.status_code == 303
        assert response.headers["location"].startswith("/login?next=")
    assert guarded.ask.get("/login").status_code == 200
    assert guarded.ask.get("/static/page.css").status_code == 200
    assert guarded.ask.get(f"/answers/{'0' * 64}/chosen", headers=PART).status_code == 401


def test_every_wrong_key_is_answered_alike(guarded: Served) -> None:
    known = guarded.service.store.keys.create("seen", "old")
    wrong = ["", "x", "cs_" + "0" * 16 + "_" + "0" * 64, known.secret[:-1]]
    answers = {guarded.ask.post("/login", data={"key": key}).text for key in wrong}
    assert len(answers) == 1
    assert "this key is not valid" in answers.pop()


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil", "jobs", "/\n/x"]
)
def test_after_a_login_nobody_is_sent_elsewhere(guarded: Served, after: str) -> None:
    secret = guarded.service.store.keys.create("team", "browser").secret
    response = guarded.ask.post("/login", data={"key": secret, "next": after})
    guarded.ask.cookies.clear()
    assert response.headers["location"] == "/"


def test_teams_do_not_see_each_others_answers_and_jobs(guarded: Served) -> None:
    with closing(entered(guarded, "one")) as one, closing(entered(guarded, "two")) as two:
        answer: Any = one.post("/", data=FORM).headers["location"]
        assert one.get(answer).status_code == 200
        assert two.get(answer).status_code == 404
        assert two.get(f"{answer}/timeline").status_code == 404
        listed = one.get("/jobs").text
        assert re.search('<th scope="col">By</th>.*<td><bdi>browser</bdi></td>', listed, re.DOTALL)
        [job] = re.findall(r'"/jobs/([0-9a-f]{32})"', listed)
        assert two.get(f"/jobs/{job}").status_code == 404
        assert "No jobs yet" in two.get("/jobs").text
        assert one.post("/logout").headers["location"] == "/login"
        assert one.get("/jobs").status_code == 303


def test_over_https_the_cookie_is_for_https_only(guarded: Served) -> None:
    secret = guarded.service.store.keys.create("team", "browser").secret
    headers = {"X-Forwarded-Proto": "https"}
    response = guarded.ask.post("/login", data={"key": secret}, headers=headers)
    guarded.ask.cookies.clear()
    assert "secure" in response.headers["set-cookie"].lower()
