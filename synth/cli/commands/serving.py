"""The commands that run the service and hand out its keys."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from synth.cli.commands.asking import chosen_store, logging_to

if TYPE_CHECKING:
    from synth.service.store import Revoked, Store

USAGE = 2
_SECRET_CHARACTERS = 16
_EXTRA = frozenset(
    {"alembic", "fastapi", "prometheus_client", "sqlalchemy", "starlette", "uvicorn"}
)
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="sqlite:///FILE or postgresql://USER@HOST/NAME; else that before the command, or"
        " COLLSYNTH_STORE, or a file in your data folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of a service.")


def serve(
    host: Annotated[
        str, typer.Option(envvar="COLLSYNTH_HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="COLLSYNTH_PORT", min=0, max=65535, help="0: any that is free.")
    ] = 8000,
    store: StoreUrl = None,
    workers: Annotated[
        int | None,
        typer.Option(envvar="COLLSYNTH_WORKERS", min=1, help="Processes; else one a processor."),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(envvar="COLLSYNTH_EXECUTOR", help="A cluster instead: dask://HOST:PORT."),
    ] = None,
    keys: Annotated[
        bool,
        typer.Option("--keys", envvar="COLLSYNTH_KEYS", help="Ask for keys on this machine, too."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(envvar="COLLSYNTH_NAME", help="Who claims jobs; else machine and address."),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(envvar="COLLSYNTH_WAIT", min=0, help="Seconds until a question is a job."),
    ] = 2.0,
    grace: Annotated[
        float,
        typer.Option(envvar="COLLSYNTH_GRACE", min=0, help="Seconds for running jobs at the end."),
    ] = 10.0,
    job_seconds: Annotated[
        float,
        typer.Option(envvar="COLLSYNTH_JOB_SECONDS", min=1, help="The most that a job takes."),
    ] = 600.0,
    job_memory: Annotated[
        str,
        typer.Option(envvar="COLLSYNTH_JOB_MEMORY", help="The most memory that a job takes."),
    ] = "4GiB",
    keep_days: Annotated[
        int,
        typer.Option(
            envvar="COLLSYNTH_KEEP_DAYS",
            min=0,
            max=36500,
            help="Days until ended jobs, and answers, are forgotten; 0: never.",
        ),
    ] = 30,
    work_hours: Annotated[
        float,
        typer.Option(
            envvar="COLLSYNTH_WORK_HOURS",
            min=0,
            help="Hours of work that a team with keys may ask for in a day.",
        ),
    ] = 24.0,
    proxy_secret: Annotated[
        str | None,
        typer.Option(
            envvar="COLLSYNTH_PROXY_SECRET",
            help="Believe who a proxy says has signed in, if it sends this secret along.",
        ),
    ] = None,
    trusted_proxy: Annotated[
        str,
        typer.Option(
            envvar="COLLSYNTH_TRUSTED_PROXY",
            help="Addresses or networks of proxies whose X-Forwarded-For counts, and whose secret;"
            " else, with a secret, this machine.",
        ),
    ] = "",
    teams: Annotated[
        str,
        typer.Option(
            envvar="COLLSYNTH_TEAMS",
            help="GROUP=TEAM,...: teams of who signs in at the proxy; else the first group is it.",
        ),
    ] = "",
    admins: Annotated[
        str,
        typer.Option(
            envvar="COLLSYNTH_ADMINS", help="Groups whose people have the scope admin, too."
        ),
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings only.")] = False,
) -> None:
    """Serve every verb over HTTP, with jobs that survive and a page to look at."""
    with _reporting_mistakes():
        # Not at the top of the file: they load numpy, z3 and what the extra server installs.
        from synth.service.http.logs import json_log
        from synth.service.limits import Limits
        from synth.service.server import serve as serve_until_stopped
        from synth.service.settings import (
            Settings,
            default_name,
            is_loopback,
            listed,
            networks,
            store_url,
            teams_of_groups,
        )
        from synth.verbs.questions.notations import size_in_bytes

        settings = Settings(
            store_url=store_url(store or chosen_store.get()),
            name=name or default_name(host, port),
            host=host,
            port=port,
            workers=workers or os.cpu_count() or 1,
            executor=executor,
            keys=keys or not is_loopback(host) or bool(proxy_secret or trusted_proxy),
            proxy_secret=_checked_secret(proxy_secret, teams or admins),
            trusted_proxies=networks(trusted_proxy),
            teams=teams_of_groups(teams),
            admins=frozenset(listed(admins)),
            wait_seconds=wait,
            grace_seconds=grace,
            keep_days=keep_days or None,
            limits=Limits(
                job_seconds=job_seconds,
                job_memory_bytes=size_in_bytes(job_memory),
                work_seconds_per_day=work_hours * 3600,
            ),
        )
        with logging_to(json_log(sys.stderr), logging.WARNING if quiet else logging.INFO):
            serve_until_stopped(settings, typer.echo)


def _checked_secret(secret: str | None, people: str) -> str | None:
    """The secret of the proxy; None without one. Raises InputError for one that is guessed soon."""
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from hierarchies import InputError

    hint = "'openssl rand -hex 16' makes one; the proxy sends it as X-Collsynth-Proxy"
    if not secret:
        if people:
            raise InputError("nobody signs in without --proxy-secret", where="--teams", hint=hint)
        return None
    if len(secret) < _SECRET_CHARACTERS:
        problem = f"a secret of {len(secret)} characters, and not {_SECRET_CHARACTERS}"
        raise InputError(problem, where="--proxy-secret", hint=hint)
    return secret


@keys.command("create")
def create(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Whose jobs and systems it sees.")],
    name: Annotated[str, typer.Option(help="What it is for, so that it is known again.")] = "",
    rate: Annotated[float | None, typer.Option(help="Requests a second; else as set up.")] = None,
    jobs_per_day: Annotated[int | None, typer.Option(help="Jobs a day; else as set up.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, help="Days until it expires; else never.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What it may do: ask, keep (systems), admin; else 'ask,keep'."),
    ] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, once: only a digest is kept."""
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
        wished = [one.strip() for given in scope or ("ask,keep",) for one in given.split(",")]
        known = [one.value for one in Scope]
        for one in wished:
            if one not in known:
                raise InputError(f"{one[:40]!r} is no scope", hint=f"one of {', '.join(known)}")
        expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
        scopes = [one for one in Scope if one in wished]
        made = opened.keys.create(team, name, rate, jobs_per_day, expires=expires, scopes=scopes)
        _say(made.secret, {"id": made.id, "team": made.team, "secret": made.secret}, as_json)


@keys.command("list")
def list_(
    team: Annotated[str | None, typer.Option(help="Only those of this team.")] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """List the keys: whose they are, for how long and what for, and when they were last used."""
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
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As 'collsynth keys list' has it.")],
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel what it asked that has not ended, too.")
    ] = False,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Admit a key no longer, and say what that was and what goes on; servers notice in seconds."""
    with _store(store) as opened:
        gone = opened.keys.revoke(key_id)
        if gone is None:
            # Not at the top of the file: it loads numpy, and --help must not wait for it.
            from hierarchies import InputError

            hint = "'collsynth keys list' lists them"
            raise InputError(f"there is no key {key_id[:40]!r}", hint=hint)
        for job in gone.jobs if cancel else ():
            opened.jobs.cancel(job)
        _say(_revoked(gone, cancel), _revoked_json(gone, cancel), as_json)


def _revoked(gone: Revoked, cancelled: bool) -> str:
    key = gone.key
    again = " again: it was revoked before" if key.revoked else ""
    used = f"{key.last_used:%Y-%m-%d %H:%M} UTC" if key.last_used else "never"
    jobs = f"jobs {'cancelled' if cancelled else 'that go on'}: {len(gone.jobs)}"
    hint = "; 'collsynth keys revoke --cancel' ends them" if gone.jobs and not cancelled else ""
    return (
        f"revoked {key.id} of {key.team}{f' ({key.name})' if key.name else ''}{again};"
        f" last used {used}; sessions ended: {gone.sessions}; {jobs}{hint}"
    )


def _revoked_json(gone: Revoked, cancelled: bool) -> dict[str, Any]:
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
def _reporting_mistakes() -> Iterator[None]:
    """A caller's mistake, and an extra that is not installed, as one line and exit code 2."""
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from hierarchies import InputError

    try:
        yield
    except InputError as error:
        typer.echo(f"collsynth: {error}", err=True)
        raise typer.Exit(USAGE) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        typer.echo("collsynth: this needs more: pip install 'collsynth[server]'", err=True)
        raise typer.Exit(USAGE) from None


@contextmanager
def _store(url: str | None) -> Iterator[Store]:
    with _reporting_mistakes():
        # Not at the top of the file: it loads what the extra server installs.
        from synth.service.settings import store_url
        from synth.service.store import Store

        opened = Store(store_url(url or chosen_store.get()))
        try:
            opened.migrate()
            yield opened
        finally:
            opened.close()
