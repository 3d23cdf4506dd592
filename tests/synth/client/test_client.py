"""The Python client: waits, tries again, follows jobs, tells refusals as errors; twice nothing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from synth.ask.table import VERBS

httpx = pytest.importorskip("httpx", reason="needs httpx, of the extra client")

from synth.client import (  # noqa: E402
    Client,
    Event,
    Job,
    ServiceError,
    StillRunningError,
    named_text,
)
from synth.client.replies import parse_events  # noqa: E402

Answer = Callable[[Any], Any]
JOB = {"status": "running", "revision": 1, "best": None, "problem": None, "answer": None}


class Service:
    """Answers from a script, one line a request, and remembers what it was asked."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked: list[Any] = []
        self.pauses: list[float] = []

    def __call__(self, request: Any) -> Any:
        self.asked.append(request)
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def client(self, **how: Any) -> Client:
        transport = httpx.MockTransport(self)
        return Client(
            "http://service", "cs_1", transport=transport, sleep=self.pauses.append, **how
        )


def reply(body: Any, status: int = 200, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json=body, headers=named)


def job(**what: Any) -> Any:
    return reply({**JOB, **what})


def test_an_answer_that_comes_in_time_is_one_request() -> None:
    service = Service(reply({"schema_version": 1}))
    with service.client() as client:
        found = client.ask("top", {"k": 3}, system="dgx-h100", axes={"data": 8}, budget_seconds=5)
    assert found == {"schema_version": 1}
    [asked] = service.asked
    assert asked.url == "http://service/v1/top?budget=5"
    assert json.loads(asked.content) == {"k": 3, "system": "dgx-h100", "axes": {"data": 8}}
    assert asked.headers["Authorization"] == "Bearer cs_1"
    assert len(asked.headers["Idempotency-Key"]) == 32


def test_paths_in_a_question_are_sent_as_texts(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text('name = "ours"\n')
    (tmp_path / "a.log").write_text("# a\n")
    service = Service(reply({}))
    service.client().ask("doctor", system=tmp_path / "ours.toml", files=[tmp_path / "a.log"])
    sent = json.loads(service.asked[0].content)
    assert sent["system"] == {"name": "ours.toml", "text": 'name = "ours"\n'}
    assert sent["files"] == [{"name": "a.log", "text": "# a\n"}]
    assert named_text(tmp_path / "ours.toml", "ours.toml:4")["name"] == "ours.toml:4"


def test_a_file_that_cannot_be_read_is_a_mistake_in_the_question(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none", tmp_path / "x", tmp_path):
        with pytest.raises(InputError, match=r"cannot read the file|is not text"):
            Service().client().ask("top", system=path)


def test_a_job_is_followed_to_its_answer() -> None:
    service = Service(
        reply(JOB, 202, Location="/v1/jobs/j"),
        job(revision=1),
        job(revision=2, progress={"stage": "x", "done": 1, "of": 2}),
        job(revision=2),
        job(revision=3, status="done", answer="/v1/answers/k"),
        reply({"answer": {"it": 1}}),
    )
    seen: list[int] = []
    found = service.client().ask("top", on_progress=lambda now: seen.append(now["revision"]))
    assert found == {"it": 1}
    assert seen == [1, 2, 3]
    assert [asked.url.path for asked in service.asked] == [
        "/v1/top",
        *(["/v1/jobs/j"] * 4),
        "/v1/answers/k",
    ]


@pytest.mark.parametrize("busy", [429, 502, 503, 504, httpx.ConnectError("refused")])
def test_a_busy_service_is_asked_again_by_the_same_key(busy: Any) -> None:
    if isinstance(busy, int):
        busy = reply({"problem": "busy"}, busy, Retry_After="7")
    service = Service(busy, busy, reply({"it": 1}))
    assert service.client().ask("top") == {"it": 1}
    assert len({asked.headers["Idempotency-Key"] for asked in service.asked}) == 1
    assert service.pauses == ([0.25, 0.5] if isinstance(busy, Exception) else [7, 7])


def test_two_questions_have_two_keys() -> None:
    service = Service(reply({}), reply({}))
    client = service.client()
    client.ask("top")
    client.ask("top")
    assert len({asked.headers["Idempotency-Key"] for asked in service.asked}) == 2


def test_patience_ends() -> None:
    busy = {"problem": "too many", "detail": "too many; come back", "hint": "come back"}
    service = Service(reply(busy, 429, Retry_After="600"))
    with pytest.raises(ServiceError, match="too many; come back") as caught:
        service.client().ask("top")
    assert (caught.value.status, caught.value.hint) == (429, "come back")
    assert not service.pauses
    service = Service(httpx.ConnectError("refused"))
    with pytest.raises(ServiceError, match="cannot be reached: refused") as caught:
        service.client(patience_seconds=0).ask("top")
    assert caught.value.status is None


def test_mistakes_in_a_question_are_input_errors() -> None:
    body = {"problem": "no level 'pod'", "where": "axes", "hint": "known are: node, gpu"}
    service = Service(reply(body, 422))
    with pytest.raises(InputError) as caught:
        service.client().ask("top")
    assert str(caught.value) == "axes: no level 'pod'; known are: node, gpu"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500])
def test_other_refusals_are_service_errors(status: int) -> None:
    body = {"problem": "no", "where": "w", "hint": "h", "type": "urn:x", "request_id": "r"}
    with pytest.raises(ServiceError) as caught:
        Service(reply(body, status)).client().answer("k")
    told = caught.value
    assert (told.status, told.problem, told.where, told.hint) == (status, "no", "w", "h")
    assert (told.type, told.request_id) == ("urn:x", "r")


def test_a_refusal_that_is_no_json_is_reported_by_its_status() -> None:
    with pytest.raises(ServiceError, match="answered with status 500"):
        Service(httpx.Response(500, text="<html>")).client().answer("k")


def test_a_failed_job_explains_its_failure() -> None:
    problem = {"status": 422, "problem": "bad", "where": "axes", "hint": ""}
    started = reply(JOB, 202, Location="/v1/jobs/j")
    service = Service(started, job(status="failed", problem=problem))
    with pytest.raises(InputError, match="axes: bad"):
        service.client().ask("top")
    service = Service(started, job(status="failed", problem={"status": 500, "problem": "lost"}))
    with pytest.raises(ServiceError, match="lost"):
        service.client().ask("top")


@pytest.mark.parametrize("status", ["partial", "cancelled"])
def test_an_ended_job_keeps_its_partial_result(status: str) -> None:
    service = Service(job(status=status, best={"complete": False}), job(status=status))
    handle = service.client().job("j")
    assert handle.id == "j"
    assert handle.result() == {"complete": False}
    with pytest.raises(ServiceError, match=f"the job was {status}"):
        handle.result()


def test_waiting_ends_and_can_go_on() -> None:
    service = Service(
        reply(JOB, 202, Location="/v1/jobs/j"),
        job(best={"complete": False}),
        job(status="done", answer="/v1/answers/k"),
        reply({"answer": {"it": 1}}),
    )
    with pytest.raises(StillRunningError, match="/v1/jobs/j has not ended") as caught:
        service.client().ask("top", wait_seconds=0)
    assert caught.value.best == {"complete": False}
    assert service.asked[0].headers["Prefer"] == "wait=0"
    assert caught.value.job.result() == {"it": 1}


def test_submitting_comes_back_at_once() -> None:
    service = Service(reply(JOB, 202, Location="/v1/jobs/j"), job(status="cancelled"))
    handle = service.client().submit("top", idempotency_key="mine")
    assert service.asked[0].headers["Prefer"] == "respond-async"
    assert service.asked[0].headers["Idempotency-Key"] == "mine"
    assert handle.cancel()["status"] == "cancelled"
    assert service.asked[1].url.path == "/v1/jobs/j/cancel"


def test_a_known_answer_is_a_job_that_is_done() -> None:
    service = Service(reply({"it": 1}))
    handle = service.client().submit("top")
    assert handle.result() == {"it": 1}
    assert handle.status()["status"] == handle.cancel()["status"] == "done"
    assert [event.kind for event in handle.events()] == ["end"]
    assert len(service.asked) == 1


def test_jobs_are_listed_page_by_page() -> None:
    service = Service(
        reply({"jobs": [{"id": "b"}], "next": "b"}), reply({"jobs": [{"id": "a"}], "next": None})
    )
    assert [found["id"] for found in service.client().jobs(status="done")] == ["b", "a"]
    assert [str(asked.url.query, "ascii") for asked in service.asked] == [
        "status=done",
        "status=done&after=b",
    ]


def test_systems_are_kept_by_name(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("x = 1\n")
    service = Service(reply({"name": "a b"}), reply({"systems": []}), httpx.Response(204))
    client = service.client()
    client.put_system("a b", tmp_path / "my.toml")
    assert client.systems() == []
    client.delete_system("a b")
    assert [asked.method for asked in service.asked] == ["PUT", "GET", "DELETE"]
    assert service.asked[0].url.raw_path == b"/v1/systems/a%20b"
    assert json.loads(service.asked[0].content) == {"text": "x = 1\n"}


def test_baselines_are_kept_by_machine_and_test(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("# a log\n")
    service = Service(reply({"test": "a b"}), reply({"baselines": [{}]}), httpx.Response(204))
    client = service.client()
    client.put_baseline("dgx-a100", "a b", tmp_path / "log.txt")
    assert client.baselines() == [{}]
    client.delete_baseline("dgx-a100", "a b")
    assert [asked.method for asked in service.asked] == ["PUT", "GET", "DELETE"]
    assert service.asked[0].url.raw_path == b"/v1/baselines/dgx-a100/a%20b"
    assert service.asked[2].url.raw_path == b"/v1/baselines/dgx-a100/a%20b"
    assert json.loads(service.asked[0].content) == {"text": "# a log\n"}


def test_events_are_followed_over_broken_connections() -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b': hello\nevent: progress\nid: 4\ndata: {"done": 1}\n\nevent: be'
            raise httpx.ReadError("gone")

    end = b'event: best\ndata: {"a":\ndata: 1}\n\nevent: end\nid: 9\ndata: {}\n\n'
    service = Service(httpx.Response(200, stream=Broken()), job(), httpx.Response(200, content=end))
    found = list(service.client().job("j").events())
    assert found == [Event("progress", {"done": 1}), Event("best", {"a": 1}), Event("end", {})]
    assert service.asked[2].headers["Last-Event-ID"] == "4"


def test_events_are_followed_through_a_restart_of_the_service() -> None:
    end = httpx.Response(200, content=b"event: end\ndata: {}\n\n")
    service = Service(reply({}, 503), job(), reply({}, 429), job(), end)
    assert list(service.client().job("j").events()) == [Event("end", {})]
    with pytest.raises(ServiceError) as caught:
        list(Service(reply({}, 404)).client().job("j").events())
    assert caught.value.status == 404


@given(st.lists(st.tuples(st.sampled_from(["progress", "best"]), st.integers(0, 99), st.text())))
def test_events_are_read_as_they_were_written(sent: list[tuple[str, int, str]]) -> None:
    lines: list[str] = []
    for kind, mark, text in sent:
        said = json.dumps({"text": text}, indent=1)
        lines += [f"event: {kind}", f"id: {mark}", ": comment"]
        lines += [f"data: {line}" for line in said.splitlines()] + [""]
    read = [
        (event.kind, int(mark), event.data["text"]) for mark, event in parse_events(iter(lines))
    ]
    assert read == sent


def test_no_key_of_a_question_is_a_word_of_the_client() -> None:
    for method in (Client.ask, Client.submit):
        words = {
            name
            for name, parameter in inspect.signature(method).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        for verb in VERBS.values():
            assert not words & set(verb.question.model_fields), verb


@contextmanager
def _real(folder: Path) -> Iterator[Any]:
    if find_spec("synth.service.server") is None or find_spec("serving") is None:
        pytest.skip("needs the service")
    pytest.importorskip("fastapi", reason="needs the extra server")
    from serving import served

    with served(folder) as running:
        yield running


def test_a_real_service_answers_as_the_command_line_does(tmp_path: Path) -> None:
    import hierarchies

    question = {"system": "p2-a100:2", "axes": {"data": 32}, "reduce": ["data"], "k": 1}
    catalogue = Path(hierarchies.__file__).parent / "catalogue"
    with _real(tmp_path) as running, Client(running.url, transport=httpx.HTTPTransport()) as client:
        found = client.ask("top", question)
        assert found["answers"][0]["proof"] == "proved"
        handle = client.submit("top", {**question, "bytes": "64KiB"})
        assert [event.kind for event in handle.events()][-1] == "end"
        assert handle.result()["answers"][0]["proof"] == "proved"
        assert handle.status()["status"] == "done"
        assert client.answer(handle.status()["answer_key"])["outcome"] == "ok"
        assert {listed["status"] for listed in client.jobs()} == {"done"}
        text = (catalogue / "p2-a100.toml").read_text(encoding="utf-8")
        client.put_system("ours", text.replace('name = "p2-a100"', 'name = "ours"'))
        assert client.ask("systems", system="ours")["system"]["name"] == "ours"
        client.delete_system("ours")
        with pytest.raises(InputError, match="ours"):
            client.ask("systems", system="ours")


def test_a_job_is_a_handle_and_no_question() -> None:
    assert Job(Service().client(), "/v1/jobs/abc").id == "abc"


def test_the_client_without_its_extra_names_it() -> None:
    code = "import sys; sys.modules['httpx'] = None; import synth.client"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "synth.client needs httpx: pip install 'collsynth[client]'" in told.stderr
