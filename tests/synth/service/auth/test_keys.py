"""Keys: who has none, a wrong one, or another team's is told nothing; and nobody asks too often."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from secrets import compare_digest
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from sqlalchemy import update

from hierarchies import load
from patience import until
from serving import Served, ThreadWorkers, served
from synth.service.auth.keys import Authenticator, RateLimiter
from synth.service.errors import RefusalError
from synth.service.http.examples import EXAMPLES
from synth.service.http.logs import JsonLines
from synth.service.limits import Limits
from synth.service.metrics import Metrics
from synth.service.settings import parse_networks
from synth.service.store import Key, Scope, Store, digest_of
from synth.service.store.keys import Keys as StoredKeys
from synth.service.store.tables import JOB
from synth.service.threads import Threads

PATIENT = {"Prefer": "wait=60"}
AT_ONCE = {"Prefer": "respond-async"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = Limits(failed_sign_ins_per_minute=1e6)
    with served(tmp_path_factory.mktemp("keys"), keys=True, limits=limits) as found:
        yield found


def with_key(server: Served, team: str, **limits: Any) -> dict[str, str]:
    made = server.service.store.keys.create(team, "for a test", **limits)
    return {"Authorization": f"Bearer {made.secret}", **PATIENT}


def without_id(answer: httpx.Response) -> Any:
    return {**answer.json(), "request_id": None}


ROUTES = [
    ("POST", "/v1/top"),
    ("GET", "/v1/jobs"),
    ("GET", f"/v1/jobs/{'0' * 32}"),
    ("GET", f"/v1/jobs/{'0' * 32}/events"),
    ("POST", f"/v1/jobs/{'0' * 32}/cancel"),
    ("GET", f"/v1/answers/{'0' * 64}"),
    ("GET", "/v1/systems"),
    ("GET", "/v1/systems/ours"),
    ("PUT", "/v1/systems/ours"),
    ("DELETE", "/v1/systems/ours"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_without_a_key_or_with_a_wrong_one(server: Served, method: str, path: str) -> None:
    answer = server.ask.request(method, path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    real = with_key(server, "red")["Authorization"].removeprefix("Bearer ")
    wrong = [
        "cs_",
        "x",
        "\xe9",
        f"cs_{'0' * 16}_{'0' * 64}",
        real[:-1] + ("0" if real[-1] != "0" else "1"),
        real.upper(),
        f"{real}0",
    ]
    told = []
    for key in wrong:
        for header in ({"Authorization": f"Bearer {key}".encode()}, {"X-API-Key": key.encode()}):
            refused = server.ask.request(method, path, headers=header)
            told.append((refused.status_code, without_id(refused)))
    assert all(one == told[0] for one in told)
    assert told[0][0] == 403
    assert "team" not in json.dumps(told[0])


def test_a_complete_but_refused_key_gets_a_reason(server: Served) -> None:
    """And nobody else: half a revoked key is refused as what never was a key."""
    keys = server.service.store.keys
    revoked = keys.create("red", "")
    over = keys.create("red", "", expires=datetime(2026, 1, 31, 12, tzinfo=UTC))
    keys.revoke(revoked.id)

    def told(secret: str) -> tuple[int, str, str]:
        answer = server.ask.get("/v1/jobs", headers={"X-API-Key": secret})
        return answer.status_code, answer.json()["problem"], answer.json()["hint"]

    for secret, said in (
        (revoked.secret, "this key has been revoked"),
        (over.secret, "this key expired on 2026-01-31, 12:00 UTC"),
    ):
        status, problem, hint = told(secret)
        assert (status, problem) == (403, said)
        assert "collsynth keys create" in hint
        assert told(secret[:-1] + "x") == told("cs_")
        page = server.ask.post("/login", data={"key": secret})
        assert (page.status_code, said in page.text) == (403, True)


def test_open_values_stay_open(server: Served) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert server.ask.get(path).status_code == 200


@pytest.mark.parametrize("how", ["Authorization", "X-API-Key"])
def test_a_key_may_come_in_two_ways(server: Served, how: str) -> None:
    secret = server.service.store.keys.create("red", "").secret
    value = {"Authorization": f"bearer {secret}"}
    assert server.ask.get("/v1/jobs", headers={how: value.get(how, secret)}).status_code == 200


def test_a_session_is_not_the_key_and_ends_with_it(server: Served) -> None:
    """Whoever gets hold of the cookie has no key, and a key in the cookie is no session."""
    keys = server.service.store.keys
    made, other = keys.create("red", ""), keys.create("red", "")

    def sign_in(secret: str) -> dict[str, str]:
        said = server.ask.post("/login", data={"key": secret}).headers["set-cookie"]
        server.ask.cookies.clear()
        assert secret not in said
        return {"Cookie": said.partition(";")[0]}

    def asked(headers: dict[str, str]) -> int:
        return server.ask.get("/v1/jobs", headers=headers).status_code

    first, second, third = sign_in(made.secret), sign_in(made.secret), sign_in(other.secret)
    assert first != second
    assert [asked(one) for one in (first, second, third)] == [200, 200, 200]
    token = first["Cookie"].partition("=")[2]
    assert asked({"Authorization": f"Bearer {token}"}) == 403
    assert asked({"Cookie": f"collsynth_session={made.secret}"}) == 403
    server.ask.post("/logout", headers=first | {"Origin": server.url.rstrip("/")})
    server.ask.cookies.clear()
    assert [asked(one) for one in (first, second)] == [403, 200]
    gone = keys.revoke(made.id)
    assert gone is not None
    assert (gone.sessions, gone.key.revoked) == (1, False)
    assert [asked(one) for one in (second, third)] == [403, 200]


def test_a_session_does_not_outlive_its_time(tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'keys.db'}") as store:
        store.migrate()
        key = store.keys.one(store.keys.create("red", "").id)
        assert key is not None
        over, open_ = store.keys.begin_session(key, -1), store.keys.begin_session(key, 60)
        assert store.keys.of_session(digest_of(over)) is None
        assert store.keys.of_session(digest_of(open_)) == key


def test_a_key_expires_and_says_when_it_was_used(server: Served) -> None:
    keys = server.service.store.keys
    soon = datetime.now(UTC) + timedelta(days=1)
    good = keys.create("red", "", expires=soon)
    over = keys.create("red", "", expires=datetime.now(UTC) - timedelta(seconds=1))
    codes = [
        server.ask.get("/v1/jobs", headers={"X-API-Key": one.secret}).status_code
        for one in (good, over)
    ]
    assert codes == [200, 403]
    used, unused = keys.one(good.id), keys.one(over.id)
    assert used is not None
    assert unused is not None
    assert (used.state, unused.state) == ("valid", "expired")
    assert (used.last_used is not None, unused.last_used) == (True, None)


def test_a_key_may_do_what_it_is_for(server: Served) -> None:
    keys = server.service.store.keys
    asks, keeps, sees = (
        {"X-API-Key": keys.create("scopes", "", scopes=scopes).secret}
        for scopes in ([Scope.ASK], [Scope.KEEP], [Scope.ADMIN, Scope.ASK])
    )

    def asked(headers: dict[str, str]) -> httpx.Response:
        own = {**EXAMPLES["place"], "axes": {"scoped": 32}}
        return server.ask.post("/v1/place", json=own, headers=headers)

    def kept(headers: dict[str, str]) -> httpx.Response:
        return server.ask.put("/v1/systems/ours", json={"text": system_text()}, headers=headers)

    assert [one.status_code for one in (asked(asks), kept(asks))] == [200, 403]
    assert [one.status_code for one in (asked(keeps), kept(keeps))] == [403, 200]
    assert "does not have the scope" in asked(keeps).json()["detail"]
    slow = with_key(server, "slow") | {"Prefer": "respond-async"}
    job = server.ask.post("/v1/run", json=EXAMPLES["run"], headers=slow).json()["url"]
    assert server.ask.get(job, headers=asks).status_code == 404
    assert server.ask.get(job, headers=sees).status_code == 200


READ = ["/v1/jobs", f"/v1/jobs/{'0' * 32}", f"/v1/answers/{'0' * 64}", "/v1/systems"]


@pytest.mark.parametrize(
    ("scope", "codes"),
    [
        (Scope.ASK, [200, 404, 404, 200, 403, 403, 404]),
        (Scope.KEEP, [403, 403, 403, 200, 403, 404, 403]),
        (Scope.ADMIN, [200, 404, 403, 403, 200, 403, 404]),
    ],
)
def test_no_scope_lets_in_where_another_is_asked_for(
    server: Served, scope: Scope, codes: list[int]
) -> None:
    """404: it is admitted, and there is nothing. What is sent along makes no scope wider."""
    secret = server.service.store.keys.create("scopes", "", scopes=[scope]).secret
    headers = {"X-API-Key": secret, "X-Scope": "admin", "X-Forwarded-Groups": "admin"}
    found = [server.ask.get(path, headers=headers) for path in (*READ, "/metrics")]
    found.append(server.ask.delete("/v1/systems/none", headers=headers))
    found.append(server.ask.post(f"/v1/jobs/{'0' * 32}/cancel", headers=headers))
    assert [one.status_code for one in found] == codes
    for one in found:
        if one.status_code == 403:
            assert f"it has {scope}" in one.json()["problem"]
            assert "collsynth keys create --scope" in one.json()["hint"]


def test_metrics_are_for_operators_only(server: Served) -> None:
    """They name teams."""
    assert server.ask.get("/metrics").status_code == 401
    assert server.ask.get("/metrics", headers=with_key(server, "red")).status_code == 403
    assert server.ask.get("/healthz").status_code == 200


def test_wrong_keys_are_limited_and_right_ones_are_not(tmp_path: Path) -> None:
    with served(tmp_path, keys=True, limits=Limits(failed_sign_ins_per_minute=5)) as server:
        wrong = {"X-API-Key": "cs_wrong"}
        codes = [server.ask.get("/v1/jobs", headers=wrong).status_code for _ in range(7)]
        assert codes == [403] * 5 + [429] * 2
        refused = server.ask.post("/login", data={"key": "cs_wrong"})
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        assert server.ask.get("/v1/jobs", headers=with_key(server, "red")).status_code == 200


def test_wrong_keys_are_limited_by_network_and_by_key(tmp_path: Path) -> None:
    """Who tries a key from many addresses is stopped, too; others at those addresses are not."""
    how: Any = {
        "limits": Limits(failed_sign_ins_per_minute=3),
        "trusted_proxies": parse_networks("127.0.0.1"),
    }
    with served(tmp_path, keys=True, **how) as server:
        good = server.service.store.keys.create("red", "").secret
        wrong, other = f"{good[:-1]}x", f"cs_{'0' * 16}_{'0' * 64}"

        def tried(key: str, address: str) -> int:
            headers = {"X-API-Key": key, "X-Forwarded-For": f"192.0.2.99, {address}"}
            return server.ask.get("/v1/jobs", headers=headers).status_code

        assert [tried(wrong, f"192.0.2.{n}") for n in range(5)] == [403] * 3 + [429] * 2
        assert [tried(other, f"192.0.2.{n}") for n in range(3)] == [403] * 3
        assert tried(good, "192.0.2.4") == 200
        assert [tried(f"x{n}", f"2001:db8::{n}") for n in range(5)] == [403] * 3 + [429] * 2
        assert tried("x", "2001:db8:0:1::1") == 403


def test_refused_callers_are_logged_without_the_key(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    good = server.service.store.keys.create("red", "")
    wrong = f"{good.secret[:-4]}0000"
    with caplog.at_level(logging.INFO, "collsynth"):
        for key in (wrong, "hunter2"):
            assert server.ask.get("/v1/jobs", headers={"X-API-Key": key}).status_code == 403
            server.ask.post("/login", data={"key": key})
    said = logged(caplog)
    refused = [json.loads(one) for one in said if "not admitted" in json.loads(one)["message"]]
    assert [(one["address"], one["key"]) for one in refused] == [
        *[("127.0.0.1", good.id)] * 2,
        *[("127.0.0.1", None)] * 2,
    ]
    assert not any(word in line for word in (wrong[20:], "hunter2") for line in said)


def test_entries_of_another_team_look_nonexistent(server: Served) -> None:
    red, blue = with_key(server, "red"), with_key(server, "blue")
    mine = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=red)
    place = mine.headers["content-location"]
    [job] = server.ask.get("/v1/jobs?verb=place", headers=red).json()["jobs"]
    server.ask.put("/v1/systems/ours", json={"text": system_text()}, headers=red)
    for method, path, nobody in (
        ("GET", place, f"/v1/answers/{'0' * 64}"),
        ("GET", job["url"], f"/v1/jobs/{'0' * 32}"),
        ("GET", f"{job['url']}/events", f"/v1/jobs/{'0' * 32}/events"),
        ("POST", f"{job['url']}/cancel", f"/v1/jobs/{'0' * 32}/cancel"),
        ("GET", "/v1/systems/ours", "/v1/systems/none"),
        ("DELETE", "/v1/systems/ours", "/v1/systems/none"),
    ):
        theirs = server.ask.request(method, path, headers=blue)
        nothing = server.ask.request(method, nobody, headers=blue)
        assert theirs.status_code == nothing.status_code == 404
        assert without_id(theirs) == without_id(nothing)
    assert server.ask.get("/v1/jobs", headers=blue).json()["jobs"] == []
    assert server.ask.get("/v1/systems", headers=blue).json()["systems"] == []
    after = server.ask.get(f"/v1/jobs?after={job['id']}", headers=blue)
    never = server.ask.get(f"/v1/jobs?after={'0' * 32}", headers=blue)
    assert after.status_code == never.status_code == 422
    question = {"system": "ours", "axes": {"data": 16}}
    assert server.ask.post("/v1/place", json=question, headers=red).status_code == 200
    assert server.ask.post("/v1/place", json=question, headers=blue).status_code == 422
    asked = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=blue)
    assert asked.content == mine.content
    assert server.ask.get(place, headers=blue).status_code == 200


def test_a_wrong_key_is_looked_up_each_time_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    """Else it would be told, by the time it takes, which ids there are, and which are in use."""
    looked: list[str] = []

    class Watched(StoredKeys):
        def one(self, id: str) -> Key | None:
            looked.append(id)
            return super().one(id)

    async def admitted(keys: Authenticator, secret: str) -> int:
        before = len(looked)
        with suppress(RefusalError):
            await keys.admit(secret)
        return len(looked) - before

    async def all_of_them() -> None:
        good, bad = store.keys.create("red", ""), store.keys.create("red", "")
        store.keys.revoke(bad.id)
        keys = Authenticator(store, threads, Limits())
        assert [await admitted(keys, good.secret) for _ in range(3)] == [1, 0, 0]
        changed = good.secret[:-1] + ("0" if good.secret[-1] != "0" else "1")
        for wrong in (changed, bad.secret, f"cs_{'0' * 16}_{'0' * 64}", "x", ""):
            assert [await admitted(keys, wrong) for _ in range(3)] == [1, 1, 1]

    threads = Threads(Metrics(), "keys")
    with Store(f"sqlite:///{tmp_path / 'keys.db'}") as store:
        store.migrate()
        store.keys = Watched(store.keys._database)
        asyncio.run(all_of_them())
    threads.close()


def test_every_attempt_is_compared_once_in_constant_time(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digests of one length, whether there is such a key or not, and whatever became of it."""
    compared: list[tuple[int, int]] = []

    def counted(given: str, kept: str) -> bool:
        compared.append((len(given), len(kept)))
        return compare_digest(given, kept)

    keys = server.service.store.keys
    good, bad = keys.create("red", ""), keys.create("red", "")
    keys.revoke(bad.id)
    monkeypatch.setattr("synth.service.store.records.compare_digest", counted)
    wrong = [f"{good.secret[:-1]}x", bad.secret, f"cs_{'0' * 16}_{'0' * 64}", "x", good.secret]
    for secret in wrong:
        compared.clear()
        server.ask.get("/v1/jobs", headers={"X-API-Key": secret})
        assert compared == [(64, 64)]


class NobodyWorks(ThreadWorkers):
    """Every job stays where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = 0


def test_a_revoked_key_receives_no_more_events(tmp_path: Path) -> None:
    with served(tmp_path, NobodyWorks(), keys=True) as server:
        red = with_key(server, "red") | {"Prefer": "respond-async"}
        job = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=red).json()["id"]
        with server.ask.stream("GET", f"/v1/jobs/{job}/events", headers=red) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: progress"
            [key] = server.service.store.keys.known("red")
            assert server.service.store.keys.revoke(key.id)
            server.service.store.jobs.cancel(job)
            rest = "\n".join(lines)
        assert "no longer valid" in rest
        assert "event: end" not in rest


@pytest.mark.parametrize("ending", ["signs out", "revoked"])
def test_an_ended_session_receives_no_more_events(tmp_path: Path, ending: str) -> None:
    with served(tmp_path, NobodyWorks(), keys=True) as server:
        keys = server.service.store.keys
        made = keys.create("red", "")
        token = server.ask.post("/login", data={"key": made.secret}).cookies["collsynth_session"]
        server.ask.cookies.clear()
        cookie = {"Cookie": f"collsynth_session={token}", "Origin": server.url.rstrip("/")}
        asked = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=cookie | AT_ONCE)
        job = asked.json()["id"]
        with server.ask.stream("GET", f"/v1/jobs/{job}/events", headers=cookie) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: progress"
            if ending == "revoked":
                keys.revoke(made.id)
            else:
                server.ask.post("/logout", headers=cookie)
            server.service.store.jobs.cancel(job)
            rest = "\n".join(lines)
        assert "no longer valid" in rest
        assert "event: end" not in rest


def system_text() -> str:
    from hierarchies import describe_system, load

    return describe_system(load("dgx-h100:2"))


def test_a_key_may_ask_so_often(server: Served) -> None:
    slow = with_key(server, "slow", rate_per_second=1)
    said = [server.ask.get("/v1/jobs", headers=slow) for _ in range(4)]
    codes = [answer.status_code for answer in said]
    assert codes[:2] == [200, 200]
    assert 429 in codes
    refused = said[codes.index(429)]
    assert int(refused.headers["retry-after"]) >= 1
    assert server.ask.get("/v1/jobs", headers=with_key(server, "slow")).status_code == 200


def test_a_key_may_bring_so_many_jobs_a_day(server: Served) -> None:
    few = with_key(server, "few", jobs_per_day=2)
    for number in (1, 2, 4):
        question = {"system": f"dgx-a100:{number}", "axes": {"data": 8 * number}}
        answer = server.ask.post("/v1/place", json=question, headers=few)
        assert answer.status_code == (429 if number == 4 else 200)
    assert 86_000 < int(answer.headers["retry-after"]) <= 86_400
    assert "UTC on" in answer.json()["hint"]
    again = {"system": "dgx-a100:1", "axes": {"data": 8}}
    assert server.ask.post("/v1/place", json=again, headers=few).status_code == 200


def test_many_at_once_bring_no_more_jobs_than_one_after_the_other(server: Served) -> None:
    few = with_key(server, "many", jobs_per_day=3) | {"Prefer": "respond-async"}

    def brought(number: int) -> int:
        question = {"system": "dgx-h100:4", "axes": {f"axis{number}": 32}}
        return server.ask.post("/v1/place", json=question, headers=few).status_code

    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(brought, range(16)))
    assert (codes.count(202), codes.count(429)) == (3, 13)


def test_a_job_that_is_found_again_is_not_counted_twice(server: Served) -> None:
    two = with_key(server, "again", jobs_per_day=2) | {"Idempotency-Key": "same"}
    for number, status in ((1, 200), (1, 200), (2, 200), (4, 429), (1, 200)):
        question = {"system": f"p2-a100:{number}", "axes": {"data": 16 * number}}
        more = {} if number == 1 else {"Idempotency-Key": str(number)}
        answer = server.ask.post("/v1/place", json=question, headers=two | more)
        assert answer.status_code == status


def test_a_bucket_fills_as_time_goes_by() -> None:
    now = 0.0
    rates = RateLimiter(lambda: now)

    def taken(times: int) -> int:
        count = 0
        for _ in range(times):
            with suppress(RefusalError):
                rates.take("key", 5)
                count += 1
        return count

    assert taken(100) == 10
    with pytest.raises(RefusalError) as caught:
        rates.take("key", 5)
    assert caught.value.headers["Retry-After"] == "1"
    now = 1.0
    assert taken(100) == 5
    now = 1000.0
    assert taken(100) == 10


def test_memory_about_callers_is_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has many addresses cannot fill up the memory: entries weigh what they take."""
    monkeypatch.setattr("synth.service.auth.keys._REMEMBERED_BYTES", 2**16)
    rates = RateLimiter()
    tracemalloc.start()
    try:
        for number in range(2000):
            rates.take(f"2001:db8:0:{number:x}::/64", 0.5)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2**17


def test_no_secret_and_no_question_is_logged(server: Served) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("collsynth")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        red = with_key(server, "red")
        secret = red["Authorization"].removeprefix("Bearer ")
        question = {"system": "dgx-h100:4", "axes": {"hush": 8, "model": 4}, "reduce": ["hush"]}
        headers = {**red, "X-Request-ID": "mine-1"}
        server.ask.post("/v1/top?budget=99&token=abc", json=question, headers=headers)
        server.ask.post("/v1/top", content=b"{hush", headers=headers)
        server.ask.get(f"/{secret[-20:]}", headers={"X-API-Key": secret})
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    [asked] = [one for one in lines if one.get("request_id") == "mine-1" and one["status"] == 200]
    assert (asked["route"], asked["team"], asked["method"]) == ("/v1/top", "red", "POST")
    for word in (secret, "hush", "token"):
        assert word not in stream.getvalue()


def test_a_team_may_use_so_much_work_in_a_day_and_let_so_many_bytes_wait(tmp_path: Path) -> None:
    limits = Limits(work_seconds_per_day=1.0, queued_bytes_per_team=5000)
    with served(tmp_path, NobodyWorks(), keys=True, limits=limits) as server:
        red, blue = (
            with_key(server, team) | {"Prefer": "respond-async"} for team in ("rust", "sky")
        )

        def asked(headers: dict[str, str], **more: object) -> httpx.Response:
            question = {**EXAMPLES["place"], **more}
            return server.ask.post("/v1/place", json=question, headers=headers)

        catalogue = resources.files("hierarchies") / "catalogue"
        described = (catalogue / "dgx-h100.toml").read_text("utf-8")
        text = {"name": "long", "text": "# " + "x" * 6000 + "\n" + described}
        refused = asked(red, system=text, axes={"data": load("dgx-h100").devices})
        assert (refused.status_code, "5000 bytes" in refused.text) == (429, True)
        worked = asked(red).json()["id"]
        change = update(JOB).where(JOB.c.id == worked).values(work_seconds=2.0)
        with server.service.store.jobs._database.writing() as connection:
            connection.execute(change)
        server.service.broker._quotas._worked.clear()
        refused = asked(red, axes={"other": 32})
        assert (refused.status_code, "1 s of work" in refused.text) == (429, True)
        assert 86_000 < int(refused.headers["retry-after"]) <= 86_400
        assert "UTC on" in refused.json()["hint"]
        assert asked(blue, axes={"other": 32}).status_code == 202


@pytest.mark.parametrize(
    "limits",
    [Limits(queued_bytes_per_team=150), Limits(queued_jobs_per_team=1)],
    ids=["bytes", "jobs"],
)
def test_what_has_ended_does_not_wait(tmp_path: Path, limits: Limits) -> None:
    """Who waits for each job never has more than one, however fast they come."""
    with served(tmp_path, limits=limits) as server:
        for number in range(1, 6):
            question = {**EXAMPLES["place"], "axes": {f"axis{number}": 32}}
            answer = server.ask.post("/v1/place", json=question, headers={"Prefer": "wait=60"})
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "address",
    [
        "/v1/jobs?key={}",
        "/v1/jobs?access_token={}&limit=3",
        "/v1/jobs?%6bey=%63s{}",
        "/login?next=/{}",
        "/{}",
        "/static/{}",
        "/v1/systems/{}",
    ],
)
def test_a_key_in_an_address_is_refused_and_not_logged(
    server: Served, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    """Even beside a right one: who sends it so once would do so again."""
    secret = server.service.store.keys.create("red", "").secret
    sent = address.format(secret.removeprefix("cs") if "%63s" in address else secret)
    with caplog.at_level(logging.INFO, "collsynth"):
        answer = server.ask.get(sent, headers={"X-API-Key": secret, "Accept": "application/json"})
        assert answer.status_code == 400
        until(lambda: any('"status": 400' in line for line in logged(caplog)))
    assert answer.json()["where"] == "address"
    assert "revoke it" in answer.json()["hint"]
    assert secret[-40:] not in answer.text
    assert not any(secret[-40:] in line for line in logged(caplog))


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is in the log: a request is noted once it is answered."""
    return [JsonLines().format(one) for one in caplog.records]
