"""What /openapi.json promises is kept, whatever is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("schemathesis", reason="needs the extra dev")

import schemathesis
from schemathesis.checks import CHECKS

from patience import PATIENCE_SECONDS
from serving import Served, ThreadWorkers, served
from synth.ask.table import VERBS
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits
from synth.service.store import Scope

KEPT = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
SMALL = Limits(devices=64, k=5, max_steps=4, digits=3, job_seconds=1.0, body_seconds=5.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openapi")
    with served(folder, ThreadWorkers(2), limits=SMALL, wait_seconds=1.5) as found:
        yield found


@pytest.fixture(scope="module")
def document(server: Served) -> Any:
    return server.ask.get("/openapi.json").json()


def test_the_document_is_written_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for it: nine hundred who did held the loop, and so everybody, for long."""
    written: list[object] = []

    def dumps(value: object) -> str:
        written.append(value)
        return json.dumps(value)

    monkeypatch.setattr("synth.service.http.documents.json", SimpleNamespace(dumps=dumps))
    with served(tmp_path, keys=True) as server:
        texts = {server.ask.get("/openapi.json").content for _ in range(3)}
    assert len(texts) == len(written) == 1


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_every_reference_leads_somewhere(document: Any) -> None:
    found = set(references(document))
    assert found
    for reference in found:
        part = document
        for step in reference.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            assert name in part, reference
            part = part[name]


def test_every_verb_has_a_route_with_a_question_to_try_and_a_reply(document: Any) -> None:
    for verb in VERBS:
        told = document["paths"][f"/v1/{verb}"]["post"]
        body = told["requestBody"]["content"]["application/json"]
        assert body["example"] == EXAMPLES[verb]
        whole = {**body["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(EXAMPLES[verb])
        assert told["responses"]["200"]["content"]["application/json"]["schema"]
        assert verb in VERBS
    assert set(EXAMPLES) == set(VERBS)


def test_operations_have_unique_names_and_reasons_for_refusals(document: Any) -> None:
    told = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in told]
    assert len(set(names)) == len(names)
    for one in told:
        assert one.get("description") or one.get("summary")
    problem = document["components"]["schemas"]["Problem"]
    assert {"type", "title", "status", "detail", "problem", "where", "hint"} <= set(
        problem["properties"]
    )


def test_no_object_of_an_answer_hides_its_keys(document: Any) -> None:
    """Those that write themselves, such as an answer of ``top``, were objects of anything."""
    schemas = document["components"]["schemas"]
    objects = {name: one for name, one in schemas.items() if one.get("type") == "object"}
    assert {"PlacedAnswer", "CheckReply", "TopQuestion"} <= set(objects)
    assert all(one.get("properties") for one in objects.values())


def test_a_key_of_the_scopes_that_an_operation_names_is_admitted_and_no_other(
    document: Any, tmp_path: Path
) -> None:
    with served(tmp_path, keys=True) as guarded:
        keys = guarded.service.store.keys
        made = {one: keys.create("ours", "", scopes=frozenset({one})) for one in Scope}
        heads = {one.value: {"X-API-Key": made[one].secret} for one in Scope}
        for path, operations in document["paths"].items():
            for method, told in operations.items():
                address = path.format(
                    job_id="0" * 32, key="0" * 64, name="none", machine="none", test="none"
                )
                named = {scope for way in told.get("security", ()) for [scope] in way.values()}
                for scope, head in heads.items():
                    status = guarded.ask.request(method, address, headers=head).status_code
                    assert (status == 403) == (scope not in named and bool(named)), (path, scope)


def test_the_document_is_json_of_a_bounded_size(document: Any) -> None:
    assert len(json.dumps(document)) < 2**20


def hold(server: Served, examples: int) -> None:
    """Put questions made from the document to every route, and hold the answers to it."""
    described = schemathesis.openapi.from_url(f"{server.url}openapi.json")
    checks = [CHECKS.get_one(name) for name in KEPT]
    for found in described.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def held(case: Any) -> None:
            case.call_and_validate(checks=checks, timeout=PATIENCE_SECONDS)

        held()


def test_a_few_random_questions_match_the_schema(server: Served) -> None:
    hold(server, 2)


@pytest.mark.slow
def test_many_random_questions_match_the_schema(server: Served) -> None:
    hold(server, 40)
