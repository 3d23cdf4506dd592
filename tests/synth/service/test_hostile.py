"""What strangers may send: each of it is refused with a 4xx that says what is wrong."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from each import each

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import PATIENCE_SECONDS, until
from server_process import MAIN, started
from serving import Served, served
from synth.ask.table import VERBS
from synth.service.connections import BoundedConnection, ThrottledWarning, handle_accept_errors
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits

PATIENT = {"Prefer": "wait=60"}
JSON = {"Content-Type": "application/json"}
TOP = dict(EXAMPLES["top"])
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "ha">{LAUGHS}]><topology>&l9;</topology>'
READER = '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><topology>&x;</topology>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = Limits(body_bytes=2**21, body_seconds=1.0)
    with served(tmp_path_factory.mktemp("hostile"), limits=limits) as found:
        yield found


def told(answer: httpx.Response, status: int = 422) -> str:
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 10_000
    problem = answer.json()
    assert problem["status"] == status
    return str(problem["detail"])


def posted(server: Served, question: object, verb: str = "top") -> httpx.Response:
    raw = question if isinstance(question, bytes) else json.dumps(question).encode()
    return server.ask.post(f"/v1/{verb}", content=raw, headers={**JSON, **PATIENT})


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"[" * 2**19, "values"),
        (b'{"a":' * 2**16, "nested"),
        (b'{"system": {"name": ' * 1000, "nested"),
        (json.dumps({f"key{number}": 1 for number in range(10_001)}).encode(), "10001 keys"),
        (json.dumps(TOP).encode().replace(b"3", b"NaN"), "NaN"),
        (json.dumps(TOP).encode().replace(b"3", b"-Infinity"), "Infinity"),
        (json.dumps(TOP).encode().replace(b"3", b"1e400"), "cannot be represented"),
        (json.dumps(TOP).encode().replace(b"3", b"9" * 5000), "5000 digits"),
        (json.dumps(TOP).encode().replace(b"dgx", b"\xff\xfe"), "UTF-8"),
        (json.dumps(TOP).encode().replace(b"dgx", b"\\ud83d"), "surrogate"),
        (json.dumps(TOP).encode()[:-1] + b', "k": 4}', "twice"),
        (b"", "not JSON"),
        (b"\x00" * 100, "not JSON"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_invalid_json_is_a_400(server: Served, raw: bytes, what: str) -> None:
    assert what in told(posted(server, raw), 400)


@each("verb", VERBS)
@each("question", [None, [], "x", 1, True, [{}]])
def test_json_that_is_no_question(server: Served, verb: str, question: object) -> None:
    told(posted(server, question, verb))


@pytest.mark.parametrize("verb", VERBS)
def test_unknown_keys_are_refused_however_they_are_named(server: Served, verb: str) -> None:
    for name in ("__class__", "__proto__", "x" * 5000, "", "\u0000", "\u202e", "{{7*7}}", "%s%n"):
        told(posted(server, {**EXAMPLES[verb], name: 1}, verb))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"k": 10**99}, "k"),
        ({"k": -(10**99)}, ""),
        ({"k": 1001}, "k"),
        ({"k": 3.5}, "k"),
        ({"k": "3"}, "k"),
        ({"max_steps": 9}, "max_steps"),
        ({"max_steps": 10**40}, "max_steps"),
        ({"axes": {"data": 10**80}}, ""),
        ({"axes": {"data": -8, "model": -4}}, ""),
        ({"axes": {}}, ""),
        ({"axes": {f"a{n}": 1 for n in range(9_000)}}, ""),
        ({"bytes": 10**80}, ""),
        ({"bytes": "9" * 10_000}, ""),
        ({"bytes": "1e999"}, ""),
        ({"bytes": [2**10, 2**20, 2**30]}, ""),
        ({"segments": 10**50}, ""),
        ({"placement": [[10**50]]}, ""),
        ({"placement": [[]] * 10_000}, ""),
        ({"reduce": ["data"] * 50_000}, ""),
        ({"reduce": [""]}, ""),
        ({"without": ["node99999999999999999999/gpu5"]}, ""),
        ({"slow": {"node0": 1e-320}}, ""),
        ({"slow": {"../../node0": 0.5}}, ""),
        ({"system": "dgx-h100:99999999999"}, "dgx-h100.toml"),
        ({"system": "dgx-h100:100000"}, "system"),
        ({"system": "dgx-h100:-1"}, ""),
        ({"system": "dgx-h100:" + "9" * 5000}, ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_numbers_beyond_all_measure(server: Served, change: dict[str, Any], where: str) -> None:
    answer = posted(server, TOP | change)
    told(answer)
    assert where in answer.json()["where"]


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", " Infinity ", "1e400", "9" * 400])
def test_a_text_that_would_be_no_finite_number(server: Served, text: str) -> None:
    for verb, key in (("job", "memory_GB"), ("job", "most_bubble"), ("run", "timeout_seconds")):
        answer = posted(server, {**EXAMPLES[verb], key: text}, verb)
        told(answer)
        assert answer.json()["where"] == key


NAMES = [
    "/etc/passwd",
    "../../../etc/passwd",
    "....//....//etc/passwd",
    "file:///etc/passwd",
    "C:\\windows\\win.ini",
    "\\\\host\\share",
    "/proc/self/environ",
    "/dev/zero",
    "pyproject.toml",
    "./dgx-h100.toml",
    "dgx-h100.toml",
    "catalogue/dgx-h100",
    "dgx-h100\u0000.toml",
    "dgx-h100\n",
    "{{ 7 * 7 }}",
    "${jndi:ldap://127.0.0.1/a}",
    "%(system)s",
    "{0.__class__}",
    "<script>alert(1)</script>",
    "'; DROP TABLE job; --",
    "a" * 100_000,
    "",
    " ",
    "‮",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:30])
def test_a_name_is_a_name_and_no_path_or_template(server: Served, name: str) -> None:
    detail = told(posted(server, TOP | {"system": name}))
    assert ("catalogue" if len(name) < 4096 else "cannot be used") in detail
    told(posted(server, {"system": "dgx-h100:4", "job": name}, "plan"))
    network = {"kind": "slurm", "files": [{"name": "topology.conf", "text": ""}], "inside": name}
    told(posted(server, network, "import"))
    for text in ("", "49", "x = 1"):
        given = {"name": name, "text": text}
        detail = told(posted(server, TOP | {"system": given}))
        assert "root:" not in detail
        told(posted(server, {"kind": "hwloc", "files": [given]}, "import"))
        told(posted(server, {"system": "dgx-h100:4", "files": [given]}, "doctor"))


@pytest.mark.parametrize("name", NAMES[:-4], ids=lambda name: repr(name)[:30])
def test_a_name_in_an_address(server: Served, name: str) -> None:
    from urllib.parse import quote

    for method, content in (("GET", None), ("DELETE", None), ("PUT", b"name = 1")):
        answer = server.ask.request(
            method,
            f"/v1/systems/{quote(name[:2000], safe='')}",
            content=content,
            headers={"Content-Type": "text/plain"},
        )
        assert 400 <= answer.status_code < 500
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("text", [BOMB, READER], ids=["bomb", "reader"])
@pytest.mark.parametrize("kind", ["nccl-xml", "hwloc", "rocm-smi"])
def test_xml_bombs(server: Served, kind: str, text: str) -> None:
    files = [{"name": "topology.xml", "text": text}]
    begun = time.monotonic()
    detail = told(posted(server, {"kind": kind, "files": files}, "import"))
    assert "root:" not in detail
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("kind", ["kubernetes", "slurm", "topograph", "jax", "ibnetdiscover"])
@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n" * 1,
        "[" * 50_000,
        "{" * 50_000,
        "!!python/object/apply:os.system ['true']",
        "\x00\x01",
        "SwitchName=s[0-99999999999] Nodes=n[0-99999999999]",
    ],
    ids=lambda text: text[:20],
)
def test_other_bombs(server: Served, kind: str, text: str) -> None:
    files = [{"name": "file", "text": text}]
    told(posted(server, {"kind": kind, "files": files}, "import"))


WIDE = "1" * 2**18
OPEN = "bytes,seconds\n" + '"' + "1,1\n" * 2**16
LOOPS = (
    "step s\nin x: f32[8] batch\n"
    + "".join(
        f"v{n}: f32[8] = scan(x) length={10**18} num_carry=1 num_consts=0 {{\nin x: f32[8]\n"
        for n in range(16)
    )
    + "}\n" * 16
)


@pytest.mark.parametrize(
    ("verb", "text", "said"),
    [
        ("import", f"3\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n{WIDE},1,1,1\n", "characters"),
        ("import", ",,,", "neither GraphML, JSON nor TACOS's CSV"),
        ("doctor", f"bytes,seconds\n{WIDE},2\n", "no table"),
        ("calibrate", OPEN, "20000 rows"),
        ("doctor", 'collective, gpus\n"' + "1,1\n" * 2**16, "20000 rows"),
        ("trace", f"step s\nin x: f32[{','.join('9' * 6000)}] batch\nout x\n", "6000 dimensions"),
        ("simulate", f"step s\nin x: f32[{','.join('9' * 64)}] batch\nout x\n", "so many elements"),
        ("shard", LOOPS, "so many turns"),
    ],
    ids=["cell", "nothing", "number", "quotation", "rccl", "dimensions", "elements", "loops"],
)
def test_files_beyond_the_range_of_numbers(server: Served, verb: str, text: str, said: str) -> None:
    """Each of these was a mistake of the service once."""
    file = {"name": "file", "text": text}
    question: dict[str, object] = {"system": "dgx-a100:1", "files": [file]}
    if verb == "import":
        question = {"kind": "graph", "files": [file]}
    elif verb in ("trace", "simulate", "shard"):
        more = {} if verb == "trace" else {"system": "dgx-a100:1", "plan": "data=8"}
        question = {"model": file, **more}
    assert said in told(posted(server, question, verb))


@pytest.mark.parametrize(
    "program", ["all-reduce root inside; " * 5000, "(" * 100_000, "\u0000", "#"]
)
def test_programs_that_are_none(server: Served, program: str) -> None:
    question = {**EXAMPLES["check"], "program": program}
    answer = posted(server, question, "check")
    assert answer.status_code == 422 or answer.headers["collsynth-outcome"] == "no"


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a." * 50_000 + "b = 1",
        "[" + "a." * 50_000 + "b]",
        "a = " + "9" * 100_000,
        "name = '\u0000'",
        "a = nan",
        'name = "x"\n[device]\n' + "[[level]]\n" * 50_000,
    ],
    ids=lambda text: text[:16],
)
def test_descriptions_that_are_none(server: Served, text: str) -> None:
    given = {"name": "mine.toml", "text": text}
    told(posted(server, TOP | {"system": given}))
    headers = {"Content-Type": "text/plain"}
    told(server.ask.put("/v1/systems/mine", content=text.encode(), headers=headers))


def test_a_system_of_more_devices_than_are_served(server: Served) -> None:
    detail = told(posted(server, TOP | {"system": "dgx-h100:4096", "axes": {"data": 32768}}))
    assert "32768 devices" in detail
    assert "16384" in detail


def test_an_answer_of_more_devices_than_are_served(server: Served) -> None:
    """What is handed out brings its machine along."""
    answer = posted(server, TOP | {"max_steps": 2, "stripes": False, "k": 1}).json()
    answer["system"]["levels"][0]["count"] = 4096
    answer["answers"][0] |= {"axes": {"data": 32768}, "placement": [[4096, 8]]}
    for verb, more in (("emit", {"target": "json"}), ("run", {})):
        assert "32768 devices" in told(posted(server, {"from": answer, **more}, verb))
    less = {"system": "dgx-h100:1", "without": ["node0/gpu7"], "axes": {"data": 7}, "k": 1}
    answer = posted(server, {**less, "reduce": ["data"]}).json()
    answer["uneven"]["devices"] = [*range(20_000)]
    told_of = told(posted(server, {"from": answer, "target": "json"}, "emit"))
    assert "20000 devices" in told_of


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(server: Served) -> None:
    assert "larger" in told(posted(server, b" " * (2**21 + 1)), 413)

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b" " * 2**16

    try:
        answer = server.ask.post("/v1/top", content=endless(), headers=JSON)
    except httpx.WriteError:
        return  # the server hung up, having said why to whoever listens while sending
    assert "larger" in told(answer, 413)


def test_a_question_without_files_has_a_small_body(server: Served) -> None:
    for verb in ("count", "systems", "order"):
        raw = json.dumps(EXAMPLES[verb]).encode() + b" " * 2**16
        status = 413 if verb != "systems" else 200
        assert posted(server, raw, verb).status_code == status


def test_a_body_of_very_many_values_costs_nobody_anything(server: Served) -> None:
    raw = b'{"files": [' + b"{}," * (2**21 // 3 - 10) + b"{}]}"
    for verb in ("import", "diff", "emit"):
        assert "values" in told(posted(server, raw, verb), 400)
    assert posted(server, EXAMPLES["count"], "count").status_code == 200


def open_to(server: Served, *sent: bytes) -> socket.socket:
    url = httpx.URL(server.url)
    made = socket.create_connection((url.host, url.port or 80), timeout=PATIENCE_SECONDS)
    for part in sent:
        made.sendall(part)
    return made


UNFINISHED = (b"", b"GET / HT", b"POST /v1/top HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
TYPED = b"Content-Type: application/json\r\n\r\n{"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("sent", [*UNFINISHED, WHOLE + b"GET / HT"])
def test_a_request_that_does_not_come_is_waited_for_no_longer(
    server: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("synth.service.connections.HEADER_SECONDS", 0.2)
    with open_to(server, sent) as connection:
        found = b""
        while more := connection.recv(2**16):
            found += more
    assert found.startswith(b"HTTP/1.1 200" if WHOLE in sent else b"")


def test_unfinished_requests_neither_stop_the_server_nor_fill_the_log(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(BoundedConnection, "most", 20)
    monkeypatch.setattr(BoundedConnection, "seldom", ThrottledWarning())
    caplog.clear()
    with ExitStack() as opened, caplog.at_level("INFO"):
        for number in range(1000):
            opened.enter_context(open_to(server, UNFINISHED[number % 3]))
            if number % 100 == 99:
                assert server.ask.get("/healthz").status_code == 200
        logged = [record for record in caplog.records if record.name.split(".")[0] != "httpx"]
        warned = [record.getMessage() for record in logged if record.levelname != "INFO"]
        assert warned == ["more than 20 connections: idle ones are closed"]
        assert len(logged) < 30


def test_of_warnings_that_are_alike_one_is_logged_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    seldom = ThrottledWarning(60.0, lambda: now[0])
    for second in range(0, 180, 10):
        now[0] = float(second)
        seldom.warn("at %d", second)
    assert caplog.messages == ["at 0", "at 60", "at 120"]


def test_running_out_of_file_descriptors_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    try:
        handle_accept_errors(loop)
        for _ in range(1000):
            error = OSError(errno.EMFILE, "Too many open files")
            loop.call_exception_handler({"message": "accept", "exception": error})
        assert caplog.messages == ["no connection can be accepted: Too many open files"]
        loop.call_exception_handler({"message": "other", "exception": OSError(errno.EBADF, "bad")})
        assert caplog.messages[1:] == ["other"]
    finally:
        loop.close()


@pytest.mark.slow
def test_more_connections_than_files_are_bounded(tmp_path: Path) -> None:
    """A process of its own, as it is to have few files: other requests are answered meanwhile."""
    store = f"sqlite:///{tmp_path / 'store.db'}"
    words = ["bash", "-c", 'ulimit -n 512 && exec "$@"', "bash", *MAIN, "serve", "--port", "0"]
    with started([*words, "--workers", "1", "--store", store], os.environ) as process:
        assert process.stdout is not None
        url = httpx.URL(process.stdout.readline().strip())
        with ExitStack() as opened:
            for _ in range(1100):
                where = (url.host, url.port or 80)
                one = opened.enter_context(socket.create_connection(where, PATIENCE_SECONDS))
                one.sendall(UNFINISHED[1])
            healthy = httpx.get(url.join("/healthz"), timeout=PATIENCE_SECONDS, trust_env=False)
        assert healthy.status_code == 200
        process.terminate()
        _, logged = process.communicate(timeout=PATIENCE_SECONDS)
    assert "Traceback" not in logged
    assert len(logged.splitlines()) < 20


def test_bodies_that_do_not_come_keep_nobody_out(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is a request that is being answered."""
    monkeypatch.setattr(BoundedConnection, "most", 20)
    head = b"POST /v1/top HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    with ExitStack() as opened:
        for _ in range(100):
            opened.enter_context(open_to(server, head, TYPED))
        assert server.ask.get("/healthz").status_code == 200


def test_an_answer_that_nobody_takes_is_kept_no_longer(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[BoundedConnection] = []
    ended = BoundedConnection.connection_lost

    def noted(self: BoundedConnection, error: Exception | None) -> None:
        lost.append(self)
        ended(self, error)

    monkeypatch.setattr(BoundedConnection, "connection_lost", noted)
    monkeypatch.setattr("synth.service.connections.SENT_SECONDS", 0.2)
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40
    with ExitStack() as opened:
        for _ in range(5):
            opened.enter_context(open_to(server, asked))
        assert until(lambda: len(lost) >= 5)
        whole = server.ask.get("/openapi.json")
    assert whole.json()["openapi"]


def raw_answer(server: Served, *parts: bytes, pause_seconds: float = 0.0) -> bytes:
    url = httpx.URL(server.url)
    with socket.create_connection(
        (url.host, url.port or 80), timeout=PATIENCE_SECONDS
    ) as connection:
        found = b""
        with suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
                time.sleep(pause_seconds)
        with suppress(ConnectionError):
            while more := connection.recv(65536):
                found += more
    return found


def test_a_body_that_comes_too_slowly(server: Served) -> None:
    head = b"POST /v1/top HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    slow = raw_answer(server, head + b"Content-Length: 100\r\nConnection: close\r\n\r\n", b"{")
    assert b" 408 " in slow.split(b"\r\n", 1)[0]
    assert b"did not arrive" in slow


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/top HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/top HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 2**22 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2**22 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda sent: str(sent[:24]),
)
def test_non_http_bytes_are_refused(server: Served, sent: bytes) -> None:
    answer = raw_answer(server, sent)
    assert not answer or b" 400 " in answer.split(b"\r\n", 1)[0]
    assert server.ask.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "x" * 900]
)
def test_a_body_with_another_content_type_is_refused(server: Served, kind: str) -> None:
    raw = json.dumps(TOP).encode()
    headers = {"Content-Type": kind} if kind else {}
    assert "application/json" in told(server.ask.post("/v1/top", content=raw, headers=headers), 415)


def test_headers_and_parameters_of_no_use(server: Served) -> None:
    for headers in ({"Idempotency-Key": "a b"}, {"Idempotency-Key": "x" * 201}):
        told(server.ask.post("/v1/top", json=TOP, headers=headers))
    for query in ("budget=0", "budget=-1", "budget=nan", "budget=inf", "budget=x"):
        told(server.ask.post(f"/v1/top?{query}", json=TOP))
    for prefer in ("wait=-1", "wait=99999999999", "wait", ";;;", "handling=lenient"):
        answer = server.ask.post("/v1/place", json=EXAMPLES["place"], headers={"Prefer": prefer})
        assert answer.status_code == 200


def test_nothing_of_this_broke_the_server(server: Served) -> None:
    assert server.ask.get("/readyz").json()["status"] == "ok"
    assert 'status="500"' not in server.ask.get("/metrics").text
