"""What operators see: metrics, and the dashboard and alerts that are made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

import yaml

from serving import Served, ThreadWorkers, served
from synth.service.http.examples import EXAMPLES
from synth.service.store import Scope

DEPLOY = Path(__file__).parents[3] / "deploy"
_NAME = re.compile(r"\b(?:collsynth|process)_[a-z_]+")


class Nobody(ThreadWorkers):
    def __init__(self) -> None:
        super().__init__()
        self.slots = 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("metrics")) as found:
        answer = found.ask.post("/v1/place", json=EXAMPLES["place"], headers={"Prefer": "wait=60"})
        assert answer.status_code == 200
        yield found


def text(server: Served) -> str:
    return server.ask.get("/metrics").text


def dashboard() -> list[str]:
    found: Any = json.loads((DEPLOY / "grafana.json").read_text())
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


def alerts() -> list[str]:
    found: Any = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    rules = [rule for group in found["groups"] for rule in group["rules"]]
    assert all(rule["annotations"]["summary"] for rule in rules)
    return [rule["expr"] for rule in rules]


@pytest.mark.parametrize("where", [dashboard, alerts])
def test_what_is_drawn_and_alerted_by_is_measured(server: Served, where: Any) -> None:
    there = text(server)
    declared = set(re.findall(r"^# TYPE (\S+) ", there, re.MULTILINE))
    declared |= {f"{name}_bucket" for name in declared}
    named = {name for expression in where() for name in _NAME.findall(expression)}
    assert named
    assert named - declared == set()


def test_calls_to_the_store_pieces_and_the_process_are_counted(server: Served) -> None:
    there = text(server)
    assert re.search(r'collsynth_store_seconds_count\{for="questions"\} [1-9]', there)
    assert 'collsynth_pieces_total{verb="place"} 1.0' in there
    assert "collsynth_worker_slots_idle 2.0" in there
    assert "process_resident_memory_bytes" in there


def test_the_age_of_queues_is_told_by_team(tmp_path: Path) -> None:
    with served(tmp_path, Nobody(), keys=True) as server:
        for team, jobs in (("red", 2), ("blue", 1)):
            secret = server.service.store.keys.create(team, "").secret
            for number in range(jobs):
                asked = {**EXAMPLES["place"], "axes": {f"a{number}": 32}}
                headers = {"X-API-Key": secret, "Prefer": "respond-async"}
                assert server.ask.post("/v1/place", json=asked, headers=headers).status_code == 202
        admin = server.service.store.keys.create("ops", "", scopes=[Scope.ADMIN]).secret
        there = server.ask.get("/metrics", headers={"X-API-Key": admin}).text
    assert 'collsynth_queue_jobs{team="red"} 2.0' in there
    ages = re.findall(r'collsynth_queue_seconds\{team="(red|blue)"\} ([0-9.e-]+)', there)
    assert {team for team, age in ages if 0 <= float(age) < 100} == {"red", "blue"}
