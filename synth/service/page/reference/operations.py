"""The whole API from its OpenAPI document: operations by their tags, refusals, types."""

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
"""What the framework says of a reply of which nothing else is said."""


@dataclass(frozen=True)
class RequestBody:
    """What is sent: its type, the keys of a question, and the most bytes of it."""

    kind: Markup
    rows: Sequence[SchemaRow]
    most_bytes: int


@dataclass(frozen=True)
class SuccessReply:
    """What comes back when it was taken; ``kind``: of what type its body is."""

    status: int
    says: Markup
    kind: Markup


@dataclass(frozen=True)
class ApiOperation:
    """A method of an address. ``says``: in a sentence; ``more``: what else is said of it."""

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
    """The operations of a tag; ``shared`` are parameters that all of them take, ``headers`` what
    all their replies may have: told once.
    """

    name: str
    says: str
    shared: Sequence[tuple[str, SchemaRow]]
    headers: Sequence[tuple[str, str]]
    operations: Sequence[ApiOperation]


@dataclass(frozen=True)
class Reference:
    """All that the page about the API shows; ``first``: a command to begin with."""

    first: str
    groups: Sequence[TagGroup]
    refusals: Sequence[tuple[int, str, str]]
    types: Sequence[SchemaType]


def reference(document: Json, limits: Limits, curl: Curl) -> Reference:
    """What the page shows of an OpenAPI document, with the limits of a server."""
    schemas = Schemas(document["components"]["schemas"])
    told = [
        (path, method, one)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    ]
    groups = []
    for tag in document["tags"]:
        own = [found for found in told if tag["name"] in found[2]["tags"]]
        shared = _shared_parameters([one.get("parameters", []) for _, _, one in own])
        groups.append(
            TagGroup(
                tag["name"],
                tag["description"],
                [(one["in"], schemas.parameter(one)) for one in shared],
                list(dict.fromkeys(head for _, _, one in own for head in _headers(one))),
                [_operation(schemas, *found, shared, limits, curl) for found in own],
            )
        )
    asked = [verb.question.__name__ for verb in VERBS.values()]
    refusals = {
        int(status): reply["description"]
        for _, _, one in told
        for status, reply in one["responses"].items()
        if PROBLEM_JSON in reply.get("content", {})
    }
    named = [(one, HTTPStatus(one).phrase, refusals[one]) for one in sorted(refusals)]
    first = curl.command("top", "post", "/v1/top")
    return Reference(first, groups, named, list(schemas.types(asked)))


def _shared_parameters(parameters: Sequence[Sequence[Json]]) -> Sequence[Json]:
    """The parameters that each of several operations has."""
    if len(parameters) < 2:
        return ()
    return [one for one in parameters[0] if all(one in others for others in parameters)]


def _operation(
    schemas: Schemas,
    path: str,
    method: str,
    told: Json,
    shared: Sequence[Json],
    limits: Limits,
    curl: Curl,
) -> ApiOperation:
    first, _, more = told["description"].partition("\n\n")
    replies = told["responses"].items()
    name = told["operationId"]
    return ApiOperation(
        id=name,
        method=method.upper(),
        path=path,
        says=render_sentences(first),
        more=render_sentences(more),
        scopes=list(dict.fromkeys(_scopes(told))),
        parameters=[
            (one["in"], schemas.parameter(one))
            for one in told.get("parameters", ())
            if one not in shared
        ],
        body=_body(schemas, name, told["requestBody"], limits) if "requestBody" in told else None,
        replies=[_reply(schemas, *one) for one in replies if not _refuses(one[1])],
        refusals=[int(status) for status, one in replies if _refuses(one)],
        command=curl.command(name, method, path),
    )


def _scopes(told: Json) -> Iterator[str]:
    for way in told.get("security", ()):
        for scopes in way.values():
            yield from scopes


def _refuses(reply: Json) -> bool:
    return PROBLEM_JSON in reply.get("content", {})


def _reply(schemas: Schemas, status: str, told: Json) -> SuccessReply:
    kinds = [_kind(schemas, kind, one) for kind, one in told.get("content", {}).items()]
    says = "" if told["description"] == _DEFAULT_DESCRIPTION else told["description"]
    return SuccessReply(int(status), render_sentences(says), Markup(" or ").join(kinds))


def _kind(schemas: Schemas, media: str, told: Json) -> Markup:
    """What is sent as a media type: of JSON its type, of others that only if they have parts."""
    schema = told.get("schema") or told["itemSchema"]
    kind = schemas.kind(schema)
    if media == "application/json":
        return kind
    return (
        Markup(media) if schema == {"type": "string"} else Markup(f"{media} of {{}}").format(kind)
    )


def _headers(told: Json) -> Iterator[tuple[str, str]]:
    for reply in told["responses"].values():
        for name, one in reply.get("headers", {}).items():
            yield name, one["description"]


def _body(schemas: Schemas, name: str, told: Json, limits: Limits) -> RequestBody:
    content = told["content"]
    schema = content["application/json"]["schema"]
    if name not in VERBS:
        kinds = [_kind(schemas, media, one) for media, one in content.items()]
        return RequestBody(Markup(" or ").join(kinds), [], 2 * limits.description_bytes)
    question = VERBS[name].question
    whole = schemas.named[question.__name__]
    rows = schemas.rows(whole, _most(name, limits))
    return RequestBody(schemas.kind(schema), rows, limits.body_bytes_for(question))


def _most(verb: str, limits: Limits) -> Mapping[str, str]:
    """What a server limits beyond the schema, by the key of a question."""
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
