"""Answers of every shape that the command line gives, and what, if anything, is wrong with one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from golden_commands import GOLDEN_COMMANDS, NESTED
from synth.ask.table import VERBS, judge, schema
from synth.cli.app import app

DOCS = Path(__file__).parent.parent / "docs"
LOGS = [str(path) for path in sorted((DOCS / "logs").glob("*.csv"))]
H100 = ("dgx-h100:4", "--axes", "data=32", "--reduce", "data")
P2 = ("p2-a100:2", "--axes", "data=32", "--reduce", "data")
OUT = ("--without", "node3/gpu5")

COMMANDS = {
    **GOLDEN_COMMANDS,
    "striped": ["top", *H100, "--bytes", "1GiB", "-k", "1"],
    "slow": ["top", *H100, "--slow", "node3=0.5", "-k", "1", "--no-stripes"],
    "sweep": ["top", *P2, "--bytes", "1MiB..8MiB", "--max-steps", "2"],
    "uneven": ["top", "dgx-h100:4", *OUT, "--axes", "data=31", "--reduce", "data", "-k", "1"],
    "systems-ranked": ["sweep", "p2-a100:2", "dgx-h100:4", *P2[1:], "--max-steps", "2", "-k", "2"],
    "cost-slow": ["cost", *P2, "--slow", "node1=0.5", "--no-stripes", "--max-steps", "3"],
    "cost-uneven": ["cost", *H100, *OUT, "--no-stripes", "--max-steps", "3"],
    "plan-open": ["plan", "dgx-h100:2", "--job", "mixtral-8x7b-experts", "-k", "2"],
    "system-slow": ["systems", "dgx-h100:2", "--slow", "node1=0.5", "--without", "node0/gpu1"],
    "lower-all-to-all": ["lower", "all-to-all root inside", *P2, "--request", "all-to-all"],
    "lower-transposed": [
        *("lower", "reduce-scatter root inside; all-gather node parallel; all-gather node inside"),
        *P2,
    ],
    "time-slow": ["time", NESTED, *P2, "--slow", "node1=0.5"],
    "time-nothing": ["time", "", "dgx-h100:1", "--axes", "data=1,m=8", "--reduce", "data"],
    "emit-chakra": ["emit", NESTED, "--target", "chakra", *P2],
    "run": ["run", NESTED, "dgx-h100:1", "--axes", "data=8", "--reduce", "data", "--check"],
    "calibrate-plan": ["calibrate", "dgx-h100:2", "--plan"],
    "calibrate": ["calibrate", "dgx-a100:2", *LOGS],
    "doctor": ["doctor", "dgx-a100:2", LOGS[0]],
}
COMMANDS["run"][1] = "reduce-scatter root inside; all-gather root inside"
SHAPES = [
    *("systems", "system-slow", "import", "graph", "place", "count", "striped", "sweep", "uneven"),
    "systems-ranked",
    *(
        "cost-slow",
        "cost-uneven",
        "plan-open",
        "job",
        "order",
        "shard",
        "profile",
        "simulate",
        "buckets",
        "check",
        "check-refuted",
        "check-irregular",
    ),
    *("lower-transposed", "lower-all-to-all", "time", "emit-torch", "emit-chakra", "run"),
    *("calibrate-plan", "calibrate", "doctor"),
]
"""One of every shape of answer, for tests that look at each key."""


@cache
def told(name: str) -> str:
    result = CliRunner().invoke(app, [*COMMANDS[name], "--json"])
    assert result.exit_code in (0, 1), result.stderr
    return result.stdout


def body_of(name: str) -> Any:
    return json.loads(told(name))


@cache
def described() -> dict[str, Any]:
    """The schema of all answers; making it takes a while."""
    return schema()


@cache
def validator(verb: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**described(), "$ref": f"#/$defs/{verb}"})


def faults(verb: str, body: Any) -> list[str]:
    """What is wrong with an answer, by the model and by the schema made from it."""
    by_schema = validator(verb).is_valid(body)  # to say why not takes far longer
    by_model = []
    try:
        judge(verb).validate_json(json.dumps(body, allow_nan=False))
    except ValidationError as error:
        by_model = [str(error)]
    if by_schema == bool(by_model):
        why = [error.message[:300] for error in islice(validator(verb).iter_errors(body), 1)]
        raise AssertionError(f"schema: {why}, model: {by_model}")
    return by_model


def models_of(verb: str) -> Iterator[type[BaseModel]]:
    """The models that a verb's answers may be of: one, or those of its union."""

    def inside(kind: Any) -> Iterator[type[BaseModel]]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        else:
            for part in get_args(kind):
                yield from inside(part)

    yield from inside(VERBS[verb].reply)
