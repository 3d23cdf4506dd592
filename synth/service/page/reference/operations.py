"""The API from its OpenAPI document: operations by tag, refusals, types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from markupsafe import Markup

from synth.ask.questions.fields import CostLimit
from synth.ask.table import VERBS
from synth.service.http.problems import PROBLEM_JSON
from synth.service.limits import Limits
from synth.service.page.reference.commands import Curl
from synth.service.page.reference.schemas import (
    Json,
    SchemaRow,
    Schemas,
    SchemaType,
    render_sentences,
)

_DEFAULT_DESCRIPTION = "Successful Response"
"""The framework's description of a reply without its own."""


@dataclass(frozen=True)
class RequestBody:
    """The body of a request: its type, the keys of a question, and its size limit."""

    kind: Markup
    rows: Sequence[SchemaRow]
    most_bytes: int


@dataclass(frozen=True)
class SuccessReply:
    """The reply to an accepted request; ``kind`` is the type of its body."""

    status: int
    says: Markup
    kind: Markup


@dataclass(frozen=True)
class ApiOperation:
    """A method of a path; ``says`` is its summary, ``more`` the rest of its description."""

    id: str
    method: str
    path: str
    says: Markup
    more: Markup
    scopes: Sequence[str]
    parameters: Sequence[tuple[str, SchemaRow]]
    body: RequestBody | None
    replies: Sequence[SuccessReply]
    refusals: Sequence[int]
    command: str


@dataclass(frozen=True)
class TagGroup:
    """The operations of a tag; ``shared`` are the parameters that all of them take, ``headers``
    the headers of their replies.
    """

    name: str
    says: str
    shared: Sequence[tuple[str, SchemaRow]]
    headers: Sequence[tuple[str, str]]
    operations: Sequence[ApiOperation]


@dataclass(frozen=True)
class Reference:
    """Everything on the page about the API; ``first`` is a command to begin with."""

    first: str
    groups: Sequence[TagGroup]
    refusals: Sequence[tuple[int, str, str]]
    types: Sequence[SchemaType]


def reference(document: Json, limits: Limits, curl: Curl) -> Reference:
    """Convert an OpenAPI document, with the limits of a server."""
    schemas = Schemas(document["components"]["schemas"])
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    groups = []
    for tag in document["tags"]:
        own = [row for row in operations if tag["name"] in row[2]["tags"]]
        shared = _shared_parameters([operation.get("parameters", []) for _, _, operation in own])
        headers = [header for _, _, operation in own for header in _headers(operation)]
        groups.append(
            TagGroup(
                tag["name"],
                tag["description"],
                [(parameter["in"], schemas.parameter(parameter)) for parameter in shared],
                list(dict.fromkeys(headers)),
                [_operation(schemas, *row, shared, limits, curl) for row in own],
            )
        )
    questions = [verb.question.__name__ for verb in VERBS.values()]
    refusals = {
        int(status): reply["description"]
        for _, _, operation in operations
        for status, reply in operation["responses"].items()
        if PROBLEM_JSON in reply.get("content", {})
    }
    named = [(status, HTTPStatus(status).phrase, refusals[status]) for status in sorted(refusals)]
    first = curl.command("top", "post", "/v1/top")
    return Reference(first, groups, named, list(schemas.types(questions)))


def _shared_parameters(parameters: Sequence[Sequence[Json]]) -> Sequence[Json]:
    """The parameters common to several operations."""
    if len(parameters) < 2:
        return ()
    return [
        parameter
        for parameter in parameters[0]
        if all(parameter in others for others in parameters)
    ]


def _operation(
    schemas: Schemas,
    path: str,
    method: str,
    operation: Json,
    shared: Sequence[Json],
    limits: Limits,
    curl: Curl,
) -> ApiOperation:
    first, _, rest = operation["description"].partition("\n\n")
    replies = operation["responses"].items()
    name = operation["operationId"]
    return ApiOperation(
        id=name,
        method=method.upper(),
        path=path,
        says=render_sentences(first),
        more=render_sentences(rest),
        scopes=list(dict.fromkeys(_scopes(operation))),
        parameters=[
            (parameter["in"], schemas.parameter(parameter))
            for parameter in operation.get("parameters", ())
            if parameter not in shared
        ],
        body=_body(schemas, name, operation["requestBody"], limits)
        if "requestBody" in operation
        else None,
        replies=[_reply(schemas, *reply) for reply in replies if not _refuses(reply[1])],
        refusals=[int(status) for status, reply in replies if _refuses(reply)],
        command=curl.command(name, method, path),
    )


def _scopes(operation: Json) -> Iterator[str]:
    for way in operation.get("security", ()):
        for scopes in way.values():
            yield from scopes


def _refuses(reply: Json) -> bool:
    return PROBLEM_JSON in reply.get("content", {})


def _reply(schemas: Schemas, status: str, reply: Json) -> SuccessReply:
    kinds = [_kind(schemas, kind, content) for kind, content in reply.get("content", {}).items()]
    says = "" if reply["description"] == _DEFAULT_DESCRIPTION else reply["description"]
    return SuccessReply(int(status), render_sentences(says), Markup(" or ").join(kinds))


def _kind(schemas: Schemas, media: str, content: Json) -> Markup:
    """The type of content: for JSON its schema's, for others the media type and its parts."""
    schema = content.get("schema") or content["itemSchema"]
    kind = schemas.kind(schema)
    if media == "application/json":
        return kind
    return (
        Markup(media) if schema == {"type": "string"} else Markup(f"{media} of {{}}").format(kind)
    )


def _headers(operation: Json) -> Iterator[tuple[str, str]]:
    for reply in operation["responses"].values():
        for name, header in reply.get("headers", {}).items():
            yield name, header["description"]


def _body(schemas: Schemas, name: str, body: Json, limits: Limits) -> RequestBody:
    content = body["content"]
    schema = content["application/json"]["schema"]
    if name not in VERBS:
        kinds = [
            _kind(schemas, media, schema_of_media) for media, schema_of_media in content.items()
        ]
        return RequestBody(Markup(" or ").join(kinds), [], 2 * limits.description_bytes)
    question = VERBS[name].question
    whole = schemas.named[question.__name__]
    rows = schemas.rows(whole, _most(name, limits))
    return RequestBody(schemas.kind(schema), rows, limits.body_bytes_for(question))


def _most(verb: str, limits: Limits) -> Mapping[str, str]:
    """The limits of a server beyond the schema, by key of a question."""
    texts = {
        CostLimit.K: f"Here at most {limits.k:,}.",
        CostLimit.MAX_STEPS: f"Here at most {limits.max_steps}.",
        CostLimit.DIGITS: f"Here at most {limits.digits}.",
        CostLimit.TREE: f"Here at most {limits.devices:,} devices.",
        CostLimit.SYSTEM: f"Here at most {limits.devices:,} devices.",
        CostLimit.SYSTEMS: f"Here at most {limits.systems}, of {limits.devices:,} devices each.",
        CostLimit.ANSWER: f"Here of a machine of at most {limits.devices:,} devices.",
        CostLimit.HERE: "Refused here: the command line does it, on its own machine.",
    }
    fields: Mapping[str, Any] = VERBS[verb].question.model_fields
    return {
        field.alias or name: texts[mark]
        for name, field in fields.items()
        for mark in field.metadata
        if isinstance(mark, CostLimit) and mark in texts
    }
