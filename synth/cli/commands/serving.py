"""The command that runs the service, and helpers of the commands of the service."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from synth.cli.commands.asking import chosen_store, log_to
from synth.cli.commands.verbs import keyword

if TYPE_CHECKING:
    from synth.service.settings import Settings

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
        help="sqlite:///FILE or postgresql://USER@HOST/NAME; default: --store before the command,"
        " COLLSYNTH_STORE, or a file in your data folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings only.")]


def _option(usual: Any, help: str, **bounds: int) -> Any:
    """A field of ``ServeOptions``: its default and its help."""
    return field(default=usual, metadata={"help": help, **bounds})


@dataclass(frozen=True)
class ServeOptions:
    """The options of a server: each is a flag, and a variable COLLSYNTH_* of the same name."""

    host: str = _option("127.0.0.1", "Address to listen on.")
    port: int = _option(8000, "Port; 0: any free port.", min=0, max=65535)
    workers: int | None = _option(None, "Worker processes; default: one per processor.", min=1)
    executor: str | None = _option(None, "Dask cluster instead of processes: dask://HOST:PORT.")
    keys: bool = _option(False, "Require keys on this machine as well.")
    name: str | None = _option(None, "Name that claims jobs; default: machine and address.")
    wait: float = _option(2.0, "Seconds until a question becomes a job.", min=0)
    grace: float = _option(10.0, "Seconds that running jobs have at shutdown.", min=0)
    job_seconds: float = _option(600.0, "Maximal seconds of a job.", min=1)
    job_memory: str = _option("4GiB", "Maximal memory of a job.")
    keep_days: int = _option(
        30, "Days until ended jobs and answers are deleted; 0: never.", min=0, max=36500
    )
    work_hours: float = _option(24.0, "Hours of work per day for a team with keys.", min=0)
    proxy_secret: str | None = _option(
        None, "Trust the user that a proxy names, if it sends this secret."
    )
    trusted_proxy: str = _option(
        "",
        "Addresses or networks of trusted proxies, for X-Forwarded-For and the secret; default,"
        " with a secret: this machine.",
    )
    teams: str = _option(
        "", "GROUP=TEAM,...: the team of users of the proxy; default: the first group."
    )
    admins: str = _option("", "Groups whose members also have the scope admin.")

    def settings(self, store: str | None) -> Settings:
        """The settings of a server of that store. Raises InputError for what cannot be used."""
        # Not at the top of the file: they load numpy, z3 and what the extra server installs.
        from synth.ask.questions.notations import size_in_bytes
        from synth.service import settings as made
        from synth.service.limits import Limits

        proxied = bool(self.proxy_secret or self.trusted_proxy)
        return made.Settings(
            store_url=made.store_url(store or chosen_store.get()),
            name=self.name or made.default_name(self.host, self.port),
            host=self.host,
            port=self.port,
            workers=self.workers or os.cpu_count() or 1,
            executor=self.executor,
            keys=self.keys or not made.is_loopback(self.host) or proxied,
            proxy_secret=_check_secret(self.proxy_secret, self.teams or self.admins),
            trusted_proxies=made.parse_networks(self.trusted_proxy),
            teams=made.teams_of_groups(self.teams),
            admins=frozenset(made.split_commas(self.admins)),
            wait_seconds=self.wait,
            grace_seconds=self.grace,
            keep_days=self.keep_days or None,
            limits=Limits(
                job_seconds=self.job_seconds,
                job_memory_bytes=size_in_bytes(self.job_memory),
                work_seconds_per_day=self.work_hours * 3600,
            ),
        )


def serve(store: str | None, quiet: bool, **given: Any) -> None:
    """Serve every verb over HTTP, with durable jobs and a web page."""
    with report_mistakes():
        # Not at the top of the file: they load what the extra server installs.
        from synth.service.http.logs import json_log
        from synth.service.server import serve as serve_until_stopped

        settings = ServeOptions(**given).settings(store)
        with log_to(json_log(sys.stderr), logging.WARNING if quiet else logging.INFO):
            serve_until_stopped(settings, typer.echo)


def _parameters() -> Iterator[Parameter]:
    """The flags of ``serve`` as typer has them."""
    kinds = get_type_hints(ServeOptions)
    for setting in fields(ServeOptions):
        word = f"--{setting.name.replace('_', '-')}"
        option = typer.Option(word, envvar=f"COLLSYNTH_{setting.name.upper()}", **setting.metadata)
        yield keyword(setting.name, Annotated[kinds[setting.name], option], setting.default)
    yield keyword("store", StoreUrl, None)
    yield keyword("quiet", Quiet, False)


serve.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]
serve.__annotations__ = {parameter.name: parameter.annotation for parameter in _parameters()}


def _check_secret(secret: str | None, people: str) -> str | None:
    """The secret of the proxy; None without one. Raises InputError for one that is too short."""
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from hierarchies import InputError

    hint = "'openssl rand -hex 16' makes one; the proxy sends it as X-Collsynth-Proxy"
    if not secret:
        if people:
            raise InputError("--teams and --admins need --proxy-secret", where="--teams", hint=hint)
        return None
    if len(secret) < _SECRET_CHARACTERS:
        problem = f"{len(secret)} characters, fewer than {_SECRET_CHARACTERS}"
        raise InputError(problem, where="--proxy-secret", hint=hint)
    return secret


@contextmanager
def report_mistakes() -> Iterator[None]:
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
        typer.echo(
            "collsynth: the server is not installed: pip install 'collsynth[server]'", err=True
        )
        raise typer.Exit(USAGE) from None
