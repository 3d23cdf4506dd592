"""What operators see: metrics, and the dashboard and alerts that are made of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

import yaml

from patience import until
from serving import HereTicket, Served, ThreadWorkers, served
from synth.ask.partition import Piece
from synth.service.http.examples import EXAMPLES
from synth.service.store import Scope
from synth.service.workers import InternalError

DEPLOY = Path(__file__).parents[3] / "deploy"
_NAME = re.compile(r"\b(?:collsynth|process)_[a-z_]+")


class Nobody(ThreadWorkers):
    def __init__(self) -> None:
        super().__init__()
        self.slots = 0


class Broken(ThreadWorkers):
    def submit(self, piece: Piece, **how: Any) -> HereTicket:
        ticket = HereTicket()
        ticket.future.set_exception(InternalError("0123456789ab"))
        return ticket


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


def labels(text: str) -> dict[str, set[str]]:
    """The labels of each metric that has a sample."""
    found: dict[str, set[str]] = {}
    for name, given in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r"(\w+)=\"", given))
    return found


@pytest.mark.parametrize("where", [dashboard, alerts])
def test_metrics_of_dashboards_and_alerts_exist(server: Served, waiting: str, where: Any) -> None:
    """Each has a sample with the labels asked for; Prometheus adds ``job`` and ``instance``."""
    known = labels(text(server) + waiting)
    for expression in where():
        named = {*_NAME.findall(expression)}
        assert named <= known.keys()
        asked = {*", ".join(re.findall(r"by \((.*?)\)", expression)).split(", ")} - {""}
        asked |= {*re.findall(r"(\w+)=", expression)}
        for name in named:
            assert asked <= known[name] | {"job", "instance"}, (expression, name)


def test_calls_to_the_store_pieces_and_the_process_are_counted(server: Served) -> None:
    there = text(server)
    assert re.search(r'collsynth_store_seconds_count\{for="questions"\} [1-9]', there)
    assert 'collsynth_pieces_total{verb="place"} 1.0' in there
    assert "collsynth_worker_slots_idle 2.0" in there
    assert "process_resident_memory_bytes" in there


def test_a_job_that_fails_of_a_bug_is_counted_apart_from_those_of_users(tmp_path: Path) -> None:
    """Nobody waits for it, so no request says 500."""
    with served(tmp_path, Broken()) as server:
        assert 'collsynth_bugs_total{where="job"} 0.0' in text(server)
        job = server.ask.post(
            "/v1/place", json=EXAMPLES["place"], headers={"Prefer": "respond-async"}
        ).json()
        assert until(lambda: server.ask.get(job["url"]).json()["status"] == "failed")
        assert until(lambda: 'collsynth_bugs_total{where="job"} 1.0' in text(server))
        refused = {"tree": [2, 8], "program": "all-reduce nowhere inside"}
        assert server.ask.post("/v1/check", json=refused).status_code == 422
        assert 'collsynth_bugs_total{where="job"} 1.0' in text(server)
        assert 'collsynth_bugs_total{where="request"} 0.0' in text(server)


def test_readiness_is_measured(server: Served, waiting: str) -> None:
    """As ``/readyz`` has it: a server that nobody works for is not ready."""
    assert "collsynth_ready 1.0" in text(server)
    assert "collsynth_ready 0.0" in waiting


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a server that has jobs of two teams, and nobody who does them."""
    folder = tmp_path_factory.mktemp("waiting")
    with served(folder, Nobody(), keys=True) as server:
        for team, jobs in (("red", 2), ("blue", 1)):
            secret = server.service.store.keys.create(team, "").secret
            for number in range(jobs):
                asked = {**EXAMPLES["place"], "axes": {f"a{number}": 32}}
                headers = {"X-API-Key": secret, "Prefer": "respond-async"}
                assert server.ask.post("/v1/place", json=asked, headers=headers).status_code == 202
        admin = server.service.store.keys.create("ops", "", scopes=[Scope.ADMIN]).secret
        return str(server.ask.get("/metrics", headers={"X-API-Key": admin}).text)


def test_the_age_of_queues_is_reported_by_team(waiting: str) -> None:
    assert 'collsynth_queue_jobs{team="red"} 2.0' in waiting
    ages = re.findall(r'collsynth_queue_seconds\{team="(red|blue)"\} ([0-9.e-]+)', waiting)
    assert {team for team, age in ages if 0 <= float(age) < 100} == {"red", "blue"}


AT_LEAST = {
    "CollsynthDown": ('up{job="collsynth"}', "0x20"),
    "CollsynthNotReady": ("collsynth_ready", "0x20"),
    "CollsynthStoreFails": ("collsynth_store_errors_total", "0+1x20"),
    "CollsynthJobsFailByBugs": ('collsynth_bugs_total{where="job"}', "0+1x20"),
    "CollsynthQueueIsOld": ('collsynth_queue_seconds{team="red"}', "1000+60x20"),
    "CollsynthWorkersDie": ("collsynth_workers_lost_total", "0+1x20"),
    "CollsynthStoreIsSlow": ('collsynth_store_seconds_bucket{le="+Inf"}', "0+100x20"),
    "CollsynthFewFilesLeft": ('process_open_fds{job="collsynth"}', "90x20"),
}
"""What each alert is raised by: a series, and its values, one a minute."""
BESIDE = {
    'collsynth_store_seconds_bucket{le="0.5"}': "0+10x20",
    'collsynth_store_seconds_bucket{le="1"}': "0+100x20",
    'process_max_fds{job="collsynth"}': "100x20",
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of prometheus")
def test_prometheus_takes_the_alerts_and_raises_each(tmp_path: Path) -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [*AT_LEAST]
    series = [{"series": name, "values": values} for name, values in BESIDE.items()]
    quiet = [{"eval_time": "15m", "alertname": name, "exp_alerts": []} for name in AT_LEAST]
    cases = [{"interval": "1m", "input_series": series, "alert_rule_test": quiet}]
    for rule in rules:
        name, values = AT_LEAST[rule["alert"]]
        labels = dict(re.findall(r'(\w+)="(\w+)"', name)) if "bucket" not in name else {}
        if "max by (team)" not in rule["expr"]:
            labels.pop("team", None)
        raised = {
            "exp_labels": {**labels, **rule["labels"]},
            "exp_annotations": {
                key: text.replace("{{ $labels.team }}", "red")
                for key, text in rule["annotations"].items()
            },
        }
        wanted = {"eval_time": "15m", "alertname": rule["alert"], "exp_alerts": [raised]}
        given = [*series, {"series": name, "values": values}]
        cases.append({"interval": "1m", "input_series": given, "alert_rule_test": [wanted]})
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(DEPLOY / "alerts.yml")], "tests": cases}))
    for words in (("check", "rules", DEPLOY / "alerts.yml"), ("test", "rules", file)):
        said = subprocess.run(["promtool", *words], capture_output=True, text=True)
        assert said.returncode == 0, said.stdout + said.stderr
