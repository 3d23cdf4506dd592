"""The commands that create, list and revoke the keys of a service, and sign people out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from synth.cli.commands.asking import chosen_store
from synth.cli.commands.serving import AsJson, StoreUrl, report_mistakes

if TYPE_CHECKING:
    from synth.service.store import EndedSessions, RevokedKey, Store

Cancel = Annotated[bool, typer.Option("--cancel", help="Also cancel unfinished jobs.")]
keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke the keys of a service.")


@keys.command("create")
def create(
    team: Annotated[
        str, typer.Argument(metavar="TEAM", help="Team whose jobs and systems it can see.")
    ],
    name: Annotated[str, typer.Option(help="Name to recognise it by.")] = "",
    rate: Annotated[
        float | None, typer.Option(help="Requests per second; default: the server's setting.")
    ] = None,
    jobs_per_day: Annotated[
        int | None, typer.Option(help="Jobs per day; default: the server's setting.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, help="Days until it expires; default: never.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Scopes: ask, keep (systems, baselines), admin; default: 'ask,keep'."),
    ] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it once: only a digest is stored."""
    with _store(store) as opened:
        # Not at the top of the file: it loads numpy, and --help must not wait for it.
        from hierarchies import InputError
        from synth.service.store import Scope

        if rate is not None and not rate > 0:
            problem, hint = f"{rate:g} requests a second", "above 0, or leave it out"
            raise InputError(problem, where="--rate", hint=hint)
        if jobs_per_day is not None and jobs_per_day < 0:
            problem, hint = f"{jobs_per_day} jobs a day", "0 or more, or leave it out"
            raise InputError(problem, where="--jobs-per-day", hint=hint)
        wished = [word.strip() for given in scope or ("ask,keep",) for word in given.split(",")]
        known = [known_scope.value for known_scope in Scope]
        for word in wished:
            if word not in known:
                raise InputError(f"{word[:40]!r} is not a scope", hint=f"one of {', '.join(known)}")
        expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
        scopes = [known_scope for known_scope in Scope if known_scope in wished]
        made = opened.keys.create(team, name, rate, jobs_per_day, expires=expires, scopes=scopes)
        _say(made.secret, {"id": made.id, "team": made.team, "secret": made.secret}, as_json)


@keys.command("list")
def list_(
    team: Annotated[str | None, typer.Option(help="Only keys of this team.")] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """List the keys with their team, state, scopes, expiry and last use."""
    with _store(store) as opened:
        found = [
            {
                "id": key.id,
                "team": key.team,
                "state": key.state,
                "created": f"{key.created:%Y-%m-%d}",
                "expires": f"{key.expires:%Y-%m-%d}" if key.expires else "never",
                "last_used": f"{key.last_used:%Y-%m-%d}" if key.last_used else "never",
                "scopes": key.scopes.replace(" ", ","),
                "name": key.name,
            }
            for key in opened.keys.known(team)
        ]
        if found or as_json:
            _say(_columns(found), found, as_json)


@keys.command("revoke")
def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id as listed by 'collsynth keys list'.")
    ],
    cancel: Cancel = False,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key, and report its last use and its open jobs; servers notice within seconds."""
    with _store(store) as opened:
        gone = opened.keys.revoke(key_id, cancel=cancel)
        if gone is None:
            # Not at the top of the file: it loads numpy, and --help must not wait for it.
            from hierarchies import InputError

            hint = "'collsynth keys list' lists them"
            raise InputError(f"there is no key {key_id[:40]!r}", hint=hint)
        _say(_revoked_text(gone, cancel), _revoked_json(gone, cancel), as_json)


def _revoked_text(gone: RevokedKey, cancelled: bool) -> str:
    key = gone.key
    again = " again: it was revoked before" if key.revoked else ""
    used = f"{key.last_used:%Y-%m-%d %H:%M} UTC" if key.last_used else "never"
    return (
        f"revoked {key.id} of {key.team}{f' ({key.name})' if key.name else ''}{again};"
        f" last used {used}; {_remains_text(gone, cancelled, 'revoke')}"
    )


def _remains_text(gone: RevokedKey | EndedSessions, cancelled: bool, command: str) -> str:
    """The sessions that ended, and the jobs that were cancelled or continue."""
    jobs = f"jobs {'cancelled' if cancelled else 'that continue'}: {len(gone.jobs)}"
    going_on = gone.jobs and not cancelled
    hint = f"; 'collsynth keys {command} --cancel' ends them" if going_on else ""
    return f"sessions ended: {gone.sessions}; {jobs}{hint}"


def _revoked_json(gone: RevokedKey, cancelled: bool) -> dict[str, Any]:
    return {
        "id": gone.key.id,
        "team": gone.key.team,
        "name": gone.key.name,
        "state": "revoked",
        "was": gone.key.state,
        "sessions": gone.sessions,
        "jobs": list(gone.jobs),
        "cancelled": cancelled,
    }


@keys.command("sign-out")
def sign_out(
    person: Annotated[
        str | None, typer.Argument(metavar="PERSON", help="Name that the proxy gives.")
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="Everybody, including those signed in with a key.")
    ] = False,
    cancel: Cancel = False,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """End all sessions of a person, and report the open jobs; the person may sign in again."""
    with _store(store) as opened:
        # Not at the top of the file: it loads numpy, and --help must not wait for it.
        from hierarchies import InputError

        if (person is None) != everybody or (everybody and cancel):
            problem = "no person is named"
            raise InputError(problem, hint="give a name, optionally with --cancel, or --all alone")
        if person is None:
            ended = opened.keys.sign_all_out()
            _say(f"signed out everybody; sessions ended: {ended}", {"sessions": ended}, as_json)
            return
        gone = opened.keys.sign_out(person, cancel=cancel)
        if not (gone.sessions or gone.jobs):
            hint = "give the name that the proxy has for them; jobs have it as asked_by"
            raise InputError(f"nobody is signed in as {person[:80]!r}", hint=hint)
        said = f"signed out {person}; {_remains_text(gone, cancel, 'sign-out')}"
        _say(said, {"person": person, **asdict(gone), "cancelled": cancel}, as_json)


def _columns(rows: list[dict[str, str]]) -> str:
    """Rows below the names of their columns."""
    if not rows:
        return ""
    lines = [[name.replace("_", " ") for name in rows[0]], *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(map(str.ljust, line, widths)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def _say(text: str, body: Any, as_json: bool) -> None:
    typer.echo(json.dumps(body) if as_json else text)


@contextmanager
def _store(url: str | None) -> Iterator[Store]:
    with report_mistakes():
        # Not at the top of the file: it loads what the extra server installs.
        from synth.service.settings import store_url
        from synth.service.store import Store

        opened = Store(store_url(url or chosen_store.get()))
        try:
            opened.migrate()
            yield opened
        finally:
            opened.close()
