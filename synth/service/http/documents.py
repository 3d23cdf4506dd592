"""The OpenAPI document: schemas of questions and answers, and an example of each question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from synth.ask.answers.ranked import BestSoFar
from synth.ask.identity.edition import edition
from synth.ask.table import VERBS
from synth.service.http.authentication import scopes_of
from synth.service.http.commands import Curl
from synth.service.http.examples import EXAMPLES
from synth.service.http.problems import PROBLEM_JSON, Problem
from synth.service.http.reading import JSON
from synth.service.http.state import state_of
from synth.service.jobs.bodies import JobBody
from synth.service.limits import Limits
from synth.service.store import Scope

Responses = dict[int | str, dict[str, Any]]
_COMPONENTS = "#/components/schemas/{model}"
_MEANINGS = {
    400: "The body is not JSON that every parser reads alike.",
    401: "A key is needed.",
    403: "The key is not valid or lacks the scope, or the request comes from another site's page.",
    404: "It does not exist, or belongs to another team.",
    408: "The body did not arrive in time.",
    409: "It conflicts with the present state.",
    413: "The body is too large.",
    415: "The Content-Type of the body is not supported.",
    422: "The question is invalid; the problem says what is wrong, where, and how to correct it.",
    429: "The key sends too many requests or jobs; Retry-After says when to try again.",
    500: "An internal error; the log has the reason under the request's id.",
    503: "The service is temporarily unavailable; Retry-After says when to try again.",
}


_INTRODUCTION = """\
Every verb of the command line takes its question by POST and answers with the same JSON as
`--json`. Keys of a question that are not listed are refused. Times are in seconds and sizes in
bytes unless a key names another unit; devices count host by host, from 0.

# Keys
Where a server requires a key, send it as `Authorization: Bearer cs_...` or `X-API-Key: cs_...`; an
operator creates it with `collsynth keys create TEAM`. Its scopes are `ask` (questions, jobs,
answers), `keep` (systems and baselines of the team) and `admin` (jobs of all teams, metrics). The
commands of this page take the server and the key from two variables:
`export COLLSYNTH_URL=http://127.0.0.1:8000 COLLSYNTH_KEY=cs_...`

# Jobs
A question that is not answered in time (`Prefer: wait=60` waits up to a minute) is answered with
202, a job, and its address in `Location`. Read the job until its `status` is `done`, or follow its
events; then `answer` is the address of the answer.

# Errors
Every refusal is `application/problem+json`: `problem` is what was given and what is wrong with it,
`where` names the key, and `hint` is what would be right.

# Limits of this server
"""


class Health(BaseModel):
    """Whether the server is live or ready, and the reasons if it is not."""

    status: str
    edition: str
    problems: list[str]


def problems(*statuses: int) -> Responses:
    """Return the refusals of a route: the given statuses, and those of every route."""
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({401, 403, 422, 429, 500, 503, *statuses})
    }


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def question_responses(verb: str) -> Responses:
    """Return the responses of a verb's route: its answer, a job, or a refusal."""
    return {
        200: {
            "description": (
                "The answer, as the command line prints it with --json. If the budget ended"
                " first, the best found by then: complete is false, and the outcome partial."
            ),
            "model": VERBS[verb].reply | BestSoFar,
            "headers": {
                "Collsynth-Outcome": _header("ok, no, or partial: how the command line would exit"),
                "Collsynth-Cache": _header("hit or miss: whether it was known before"),
                "Content-Location": _header("the permalink of the answer"),
            },
        },
        202: {
            "description": "The question takes longer: poll the job.",
            "model": JobBody,
            "headers": {"Location": _header("the job"), "Retry-After": _header("seconds")},
        },
        **problems(400, 408, 409, 413, 415),
    }


def question_body(verb: str) -> dict[str, Any]:
    """Return the request body of a verb's route: the schema of its question and an example."""
    name = VERBS[verb].question.__name__
    content = {
        "schema": {"$ref": _COMPONENTS.format(model=name)},
        "example": EXAMPLES[verb],
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def describe(app: FastAPI, limits: Limits, curl: Curl) -> None:
    """Add questions, limits and commands to an app's OpenAPI document.

    The document is generated on first request, and its JSON is cached: anybody may request it, and
    encoding it takes longer than most answers.
    """

    def described() -> Mapping[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app, limits, curl)
        return app.openapi_schema

    @cache
    def text() -> bytes:
        return json.dumps(described()).encode()

    async def document(request: Request) -> Response:
        return Response(await state_of(request).broker.run_in_turn("", text), media_type=JSON)

    app.openapi = described  # type: ignore[method-assign, assignment]
    app.add_api_route("/openapi.json", document, include_in_schema=False)


def _schema(app: FastAPI, limits: Limits, curl: Curl) -> dict[str, Any]:
    schema = get_openapi(
        title="collsynth",
        version=edition(),
        summary="Synthesizes, proves and ranks hierarchical collectives for clusters.",
        description=_INTRODUCTION + _limits_text(limits),
        routes=app.routes,
        tags=app.openapi_tags,
        separate_input_output_schemas=False,
    )
    models: list[type[BaseModel]] = [Problem, *(verb.question for verb in VERBS.values())]
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, "validation") for model in models
    ]
    _, definitions = models_json_schema(modes, ref_template=_COMPONENTS)
    schema.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
    for route in app.state.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = schema["paths"][route.path_format][method.lower()]
                _complete(operation, scopes_of(route.dependant), limits)
                command = curl.command(operation["operationId"], method.lower(), route.path_format)
                operation["x-codeSamples"] = [{"lang": "Shell", "label": "curl", "source": command}]
    return schema


def _complete(operation: dict[str, Any], scopes: Sequence[Scope], limits: Limits) -> None:
    """Add to an operation the scopes, one of which a key needs, and the largest body."""
    ways = [name for way in operation.get("security", ()) for name in way]
    if named := [{name: [scope.value]} for scope in scopes for name in ways]:
        operation["security"] = named
    words = " or ".join(f"`{scope.value}`" for scope in scopes)
    notes = f"A key needs the scope {words}." if scopes else "No key is needed."
    if verb := VERBS.get(operation["operationId"]):
        notes += f" The body has at most {limits.body_bytes_for(verb.question) // 1024} KiB."
    operation["description"] += f"\n\n{notes}"


def _limits_text(limits: Limits) -> str:
    """Return the limits of this server as a Markdown list."""
    rows = (
        ("answers (`k`)", limits.k),
        ("steps of a program (`max_steps`)", limits.max_steps),
        ("digits of `count` (`digits`)", limits.digits),
        ("devices of a machine", limits.devices),
        ("machines of a question (`systems`)", limits.systems),
        ("characters of a description", limits.description_bytes),
        ("seconds of a job", limits.job_seconds),
        ("seconds of a request (`Prefer: wait`)", limits.wait_seconds),
    )
    return "".join(f"* {name}: at most {most:,g}\n" for name, most in rows)
