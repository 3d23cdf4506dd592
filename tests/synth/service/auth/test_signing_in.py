"""Who signs in at a proxy, and what others try with its headers and with sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import compare_digest
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from sqlalchemy import select
from starlette.datastructures import Headers
from typer.testing import CliRunner

from hierarchies import InputError
from patience import PATIENCE_SECONDS
from serving import Served, served
from synth.cli.app import app
from synth.service.auth.proxy import Proxy
from synth.service.http.authentication import COOKIE
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits
from synth.service.settings import parse_networks, teams_of_groups
from synth.service.store import Person, Store, digest_of
from synth.service.store.tables import SESSION

SECRET = "hush-hush-hush-hush"
THROUGH = {"X-Collsynth-Proxy": SECRET}
ANN = {"X-Forwarded-Email": "ann@example.org", "X-Forwarded-Groups": "red,blue", **THROUGH}
BOB = {"X-Forwarded-Email": "bob@example.org", "X-Forwarded-Groups": "blue", **THROUGH}
OFTEN = Limits(failed_sign_ins_per_minute=1e6)
PATIENT = {"Prefer": "wait=60"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("people")
    with served(folder, keys=True, proxy_secret=SECRET, limits=OFTEN) as found:
        yield found


@contextmanager
def browser(server: Served) -> Iterator[httpx.Client]:
    """Somebody with cookies of their own, at the service's own page."""
    headers = {"Origin": server.url.rstrip("/")}
    with httpx.Client(
        base_url=server.url, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS
    ) as client:
        yield client


def signed_in(client: httpx.Client, who: dict[str, str]) -> str:
    """Sign in; the token of the session."""
    answer = client.get("/login", headers=who)
    assert answer.status_code == 303, answer.text
    return client.cookies[COOKIE]


def session(token: str) -> dict[str, str]:
    return {"Cookie": f"{COOKIE}={token}"}


def code(server: Served, headers: dict[str, str]) -> int:
    return server.ask.get("/v1/jobs", headers=headers).status_code


def test_a_sign_in_at_the_proxy_is_sufficient(server: Served) -> None:
    with browser(server) as client:
        first = client.get("/jobs", headers=ANN)
        assert first.headers["location"] == "/login?next=/jobs"
        entry = client.get(first.headers["location"], headers=ANN)
        assert (entry.status_code, entry.headers["location"]) == (303, "/jobs")
        said = entry.headers["set-cookie"].lower()
        assert all(word in said for word in ("httponly", "samesite=lax", "path=/", "max-age=43200"))
        assert client.get("/jobs").status_code == 200
        asked = client.post("/v1/place", json=EXAMPLES["place"], headers=PATIENT)
        assert asked.status_code == 200
        [job] = client.get("/v1/jobs").json()["jobs"]
        assert job["asked_by"] == "ann@example.org"
    red = server.service.store.keys.create("red", "").secret
    [same] = server.ask.get("/v1/jobs", headers={"X-API-Key": red}).json()["jobs"]
    assert same == job


def test_headers_of_the_proxy_count_where_one_signs_in_and_nowhere_else(server: Served) -> None:
    assert code(server, ANN) == 401
    assert code(server, {**ANN, **session("0" * 64)}) == 403
    assert server.ask.get("/jobs", headers=ANN).headers["location"] == "/login?next=/jobs"


ONE = [(name.lower(), text) for name, text in ANN.items()]
FORGED = {
    "no secret": ONE[:2],
    "a wrong secret": [*ONE[:2], ("x-collsynth-proxy", SECRET[:-1])],
    "a longer secret": [*ONE[:2], ("x-collsynth-proxy", f"{SECRET}x")],
    "an empty secret": [*ONE[:2], ("x-collsynth-proxy", "")],
    "two secrets": [*ONE, ("x-collsynth-proxy", "guess")],
    "two names": [*ONE, ("x-forwarded-email", "root@example.org")],
    "no name": ONE[1:],
    "an empty name": [("x-forwarded-email", ""), *ONE[1:]],
    "a name that is not UTF-8": [("x-forwarded-email", b"ann\xff"), *ONE[1:]],
    "a name that turns the line": [("x-forwarded-email", "\u202enna".encode()), *ONE[1:]],
    "a secret that is not UTF-8": [*ONE[:2], ("x-collsynth-proxy", SECRET.encode() + b"\xff")],
    "another header": [("x-forwarded-user", "ann@example.org"), *ONE[1:]],
}


@pytest.mark.parametrize("headers", FORGED.values(), ids=FORGED)
def test_forged_headers_sign_nobody_in(server: Served, headers: list[tuple[str, str]]) -> None:
    answer = server.ask.get("/login", headers=httpx.Headers(headers))
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


def test_secrets_of_proxies_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def counted(given: bytes, kept: bytes) -> bool:
        compared.append((given, kept))
        return compare_digest(given, kept)

    monkeypatch.setattr("synth.service.auth.proxy.compare_digest", counted)
    proxy = Proxy(parse_networks("10.0.0.1"), SECRET)
    for given in ("", "x", SECRET[:-1], f"{SECRET}x", SECRET):
        compared.clear()
        headers = Headers({**ANN, "X-Collsynth-Proxy": given})
        assert (proxy.name("10.0.0.1", headers) is None) == (given != SECRET)
        assert compared == [(given.encode(), SECRET.encode())]


@pytest.mark.parametrize("where", ["10.0.0.1", "::1", "127.0.0.2/32"])
def test_from_an_address_that_is_not_trusted_even_the_secret_is_nothing(
    tmp_path: Path, where: str
) -> None:
    how: Any = {"proxy_secret": SECRET, "trusted_proxies": parse_networks(where)}
    with served(tmp_path, keys=True, **how) as server:
        answer = server.ask.get("/login", headers={**ANN, "X-Forwarded-For": where})
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)


def test_a_trusted_proxy_without_a_secret_signs_nobody_in(tmp_path: Path) -> None:
    """It was set up for addresses only, and passes on what its clients send."""
    how: Any = {"trusted_proxies": parse_networks("127.0.0.1")}
    with served(tmp_path, keys=True, **how) as server:
        answer = server.ask.get("/login", headers=ANN)
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)


def test_a_cookie_is_worth_nothing_after_its_owner_has_signed_out(server: Served) -> None:
    with browser(server) as client:
        token = signed_in(client, ANN)
        assert code(server, session(token)) == 200
        out = client.post("/logout", headers=ANN)
        assert out.headers["location"] == "/signed-out"
        assert COOKIE not in client.cookies
        stays = client.get("/signed-out", headers=ANN)
        assert (stays.status_code, "set-cookie" in stays.headers) == (200, False)
    refused = server.ask.get("/v1/jobs", headers=session(token))
    assert (refused.status_code, refused.json()["problem"]) == (403, "this session has ended")
    assert server.ask.get("/jobs", headers=session(token)).status_code == 303


def test_a_sign_out_by_command_takes_effect_at_the_next_request(tmp_path: Path) -> None:
    """The command knows the store alone, and no server."""
    with served(tmp_path, keys=True, proxy_secret=SECRET) as server, browser(server) as client:
        key = server.service.store.keys.create("red", "").secret
        tokens = []
        for who in (ANN, ANN, BOB):
            tokens.append(signed_in(client, who))
            client.cookies.clear()  # else the session that is begun in ends
        tokens.append(client.post("/login", data={"key": key}).cookies[COOKIE])
        client.cookies.clear()

        def codes() -> list[int]:
            return [code(server, session(token)) for token in tokens]

        assert codes() == [200] * 4
        store = ("--store", f"sqlite:///{tmp_path / 'service.db'}")
        run = partial(CliRunner().invoke, app)
        said = run(["keys", "sign-out", "ann@example.org", *store])
        assert "sessions ended: 2" in said.stdout
        assert codes() == [403, 403, 200, 200]
        assert run(["keys", "sign-out", "ann@example.org", *store]).exit_code == 2
        assert "sessions ended: 2" in run(["keys", "sign-out", "--all", *store]).stdout
        assert codes() == [403] * 4
        assert code(server, {"X-API-Key": key}) == 200


def test_forged_cookies_are_refused(server: Served) -> None:
    with browser(server) as client:
        token = signed_in(client, ANN)
    key = server.service.store.keys.create("red", "")
    kept = digest_of(token)
    wrong = [
        "",
        token[:-1],
        token.upper(),
        f"{token}0",
        kept,
        key.id,
        key.secret,
        "ann@example.org",
    ]
    assert [code(server, session(one)) for one in wrong] == [403] * len(wrong)
    assert code(server, session(token)) == 200
    assert code(server, {"Authorization": f"Bearer {token}"}) == 403


def test_nobody_is_given_a_session_that_another_has_chosen(server: Served) -> None:
    """Session fixation: the token from before the sign-in is neither taken over nor left alive."""
    with browser(server) as eve, browser(server) as ann:
        theirs = signed_in(eve, BOB)
        for planted in ("0" * 64, theirs):
            ann.cookies.clear()
            answer = ann.get("/login", headers={**ANN, **session(planted)})
            token = answer.cookies[COOKIE]
            assert token != planted
            assert code(server, session(token)) == 200
            assert code(server, session(planted)) == 403
        key = server.service.store.keys.create("red", "").secret
        answer = ann.post("/login", data={"key": key}, headers=session(token))
        assert answer.cookies[COOKIE] not in (token, key)
        assert code(server, session(token)) == 403


def test_a_session_does_not_pass_to_the_next_user_of_the_browser(server: Served) -> None:
    with browser(server) as client:
        token = signed_in(client, ANN)
        assert code(server, {**session(token), **ANN}) == 200
        refused = server.ask.get("/v1/jobs", headers={**session(token), **BOB})
        assert refused.status_code == 403
        assert "not to the person signed in now" in refused.json()["problem"]
        assert client.get("/jobs", headers=BOB).headers["location"] == "/login?next=/jobs"
        assert signed_in(client, BOB) != token
        assert code(server, session(token)) == 403


def test_sessions_end_with_their_time_and_are_kept_as_digests(tmp_path: Path) -> None:
    ann = Person("ann@example.org", "red", "ask keep")
    with Store(f"sqlite:///{tmp_path / 'people.db'}") as store:
        store.migrate()
        over, open_ = (store.keys.begin_session(ann, seconds) for seconds in (-1, 60))
        assert store.keys.of_session(digest_of(over)) is None
        assert store.keys.of_session(digest_of(open_)) == ann
        assert store.keys.of_session(open_) is None
        with store._database.reading() as connection:
            rows = str(connection.execute(select(SESSION)).all())
        assert open_ not in rows
        tokens = [store.keys.begin_session(ann, 60 + number) for number in range(100)]
        assert store.keys.of_session(digest_of(open_)) is None
        assert store.keys.of_session(digest_of(tokens[0])) == ann


def test_where_nobody_signs_in_at_a_proxy_any_more_their_sessions_are_over(tmp_path: Path) -> None:
    with served(tmp_path, keys=True, proxy_secret=SECRET) as server, browser(server) as client:
        token = signed_in(client, ANN)
    with served(tmp_path, keys=True) as server:
        assert code(server, session(token)) == 403


TEAMS = "ml-infra=infra, cn=research=science,staff=others"


@pytest.mark.parametrize(
    ("groups", "team"),
    [
        ("staff,ml-infra", "infra"),
        ("cn=research", "science"),
        (" staff ", "others"),
        ("Staff", None),
        ("infra", None),
        ("", None),
    ],
)
def test_groups_have_their_teams(groups: str, team: str | None) -> None:
    proxy = Proxy(parse_networks("10.0.0.0/8"), SECRET, teams_of_groups(TEAMS))
    headers = Headers({**ANN, "X-Forwarded-Groups": groups})
    if team is None:
        with pytest.raises(Exception, match="no group of ann@example"):
            proxy.person("10.1.2.3", headers)
        return
    assert proxy.person("10.1.2.3", headers) == Person("ann@example.org", team, "ask keep")
    assert proxy.person("11.1.2.3", headers) is None


def test_without_teams_the_first_group_is_the_team() -> None:
    proxy = Proxy(parse_networks("::1"), SECRET, admins=frozenset({"ops"}))
    for groups, team, scopes in (
        ("red,blue", "red", "ask keep"),
        ("", "ann@example.org", "ask keep"),
        ("red,ops", "red", "ask keep admin"),
    ):
        found = proxy.person("::1", Headers({**ANN, "X-Forwarded-Groups": groups}))
        assert found == Person("ann@example.org", team, scopes)


def test_a_person_without_a_team_gets_no_session(tmp_path: Path) -> None:
    how: Any = {"proxy_secret": SECRET, "teams": {"ops": "infra"}, "admins": frozenset({"ops"})}
    with served(tmp_path, keys=True, **how) as server, browser(server) as client:
        refused = client.get("/login", headers=ANN)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        assert "no group of" in refused.text
        signed_in(client, {**ANN, "X-Forwarded-Groups": "ops"})
        assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("peer", "told", "address"),
    [
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.3", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("", "198.51.100.1", ""),
    ],
)
def test_a_client_has_the_address_that_the_proxy_saw(peer: str, told: str, address: str) -> None:
    """What stands before it in the header the client may have written itself."""
    assert (
        Proxy(parse_networks("10.0.0.0/8")).address(peer, Headers({"X-Forwarded-For": told}))
        == address
    )


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "300.1.1.1", "10.0.0.1 10.0.0.2"])
def test_invalid_networks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--trusted-proxy"):
        parse_networks(text)


@pytest.mark.parametrize("text", ["red", "=red", "red=", "red=blue,="])
def test_what_gives_no_group_a_team_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--teams"):
        teams_of_groups(text)
