"""The OpenAPI document: schemas of questions and answers, and an example of each question."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from synth.service.http.examples import EXAMPLES
from synth.service.http.problems import PROBLEM_JSON, Problem
from synth.service.http.reading import JSON
from synth.service.http.state import state_of
from synth.service.jobs.bodies import JobBody

Responses = dict[int | str, dict[str, Any]]
_COMPONENTS = "#/components/schemas/{model}"
_MEANINGS = {
    400: "The body is no JSON that can be read in one way only.",
    401: "A key is needed.",
    403: "The key is not admitted, or has none of the scopes; or a page of another site asks.",
    404: "There is no such thing, or it is another team's.",
    408: "The body did not arrive in time.",
    409: "It contradicts what is there.",
    413: "The body is too large.",
    415: "The body is not said to be what is read here.",
    422: "The question cannot be used; the problem says what, where, and what would be right.",
    429: "The key asks too often, or has brought too many jobs; Retry-After says when to return.",
    500: "A mistake of the service; its log has the reason under the request's id.",
    503: "The service cannot do this at the moment; Retry-After says when to return.",
}


class Health(BaseModel):
    """Whether the server lives, or is ready; if not, why."""

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
                "The answer, as the command line prints it with --json. Where the budget ended"
                " first, what was found by then: complete is false, and the outcome partial."
            ),
            "model": VERBS[verb].reply | BestSoFar,
            "headers": {
                "Collsynth-Outcome": _header("ok, no, or partial: how the command line would exit"),
                "Collsynth-Cache": _header("hit or miss: whether it was known before"),
                "Content-Location": _header("the permalink of the answer"),
            },
        },
        202: {
            "description": "The question takes longer; come back to the job.",
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


def describe(app: FastAPI) -> None:
    """Add the models of all questions to an app's OpenAPI document, generated on first request.

    Its JSON is cached: anybody may request it, and encoding takes longer than most answers.
    """

    def described() -> Mapping[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app)
        return app.openapi_schema

    @cache
    def text() -> bytes:
        return json.dumps(described()).encode()

    async def document(request: Request) -> Response:
        return Response(await state_of(request).broker.run_in_turn("", text), media_type=JSON)

    app.openapi = described  # type: ignore[method-assign, assignment]
    app.add_api_route("/openapi.json", document, include_in_schema=False)


def _schema(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title="collsynth",
        version=edition(),
        summary="Synthesizes, proves and ranks hierarchical collectives for clusters.",
        description=(
            "Every verb of the command line takes its question by POST and answers with the same "
            "JSON as `--json`. What takes longer than the client waits for becomes a job."
        ),
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
    _name_scopes(app, schema["paths"])
    return schema


def _name_scopes(app: FastAPI, paths: Mapping[str, Any]) -> None:
    """Add to each operation the scopes of which a key needs one, as alternatives."""
    for route in app.state.routes:
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        scopes = scopes_of(route.dependant)
        for method in route.methods or ():
            operation = paths[route.path_format][method.lower()]
            ways = [name for way in operation.get("security", ()) for name in way]
            named = [{name: [scope.value]} for scope in scopes for name in ways]
            operation |= {"security": named} if named else {}
