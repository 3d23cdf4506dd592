"""Prometheus metrics of a server. Labels are routes and verbs, never user input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_JOB_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        seconds = partial(Histogram, registry=self.registry)
        self._requests = counter(
            "collsynth_requests", "Requests answered.", ("method", "route", "status")
        )
        self._request_seconds = seconds(
            "collsynth_request_seconds",
            "Seconds from a request's headers to the end of its answer.",
            ("route",),
            buckets=_REQUEST_SECONDS,
        )
        self.questions = counter(
            "collsynth_questions",
            "Questions by whether their answer was known: in memory, in the store, or not.",
            ("verb", "found"),
        )
        self._job_seconds = seconds(
            "collsynth_job_seconds",
            "Seconds from the start of a job to its end.",
            ("verb",),
            buckets=_JOB_SECONDS,
        )
        self.store_seconds = seconds(
            "collsynth_store_seconds",
            "Seconds of a call to the store.",
            ("for",),
            buckets=_REQUEST_SECONDS,
        )
        self.pieces = counter("collsynth_pieces", "Questions that workers carried out.", ("verb",))
        self._jobs_ended = counter(
            "collsynth_jobs_ended", "Jobs this server ended.", ("verb", "status")
        )
        self._bugs = counter(
            "collsynth_bugs",
            "Mistakes of the service: requests answered 500, and jobs that failed by one.",
            ("where",),
        )
        # Start both series at 0: Prometheus sees no increase when a series first appears with 1.
        for where in ("request", "job"):
            self._bugs.labels(where)
        self.store_errors = counter("collsynth_store_errors", "Times the store failed.")
        self.forgotten = counter(
            "collsynth_forgotten", "Jobs and answers this server has forgotten.", ("what",)
        )
        self.running = gauge("collsynth_jobs_driven", "Jobs this server has under way.")
        self.ready = gauge("collsynth_ready", "Whether /readyz says ok: 1, or 0.")
        self.slots = gauge("collsynth_worker_slots", "Pieces that can run at once.")

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        method_label = method if method in _METHODS else "other"
        self._requests.labels(method_label, route, str(status)).inc()
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._bugs.labels("request").inc()
        self._request_seconds.labels(route).observe(seconds)

    def ended(self, verb: str, status: str, seconds: float, *, by_bug: bool = False) -> None:
        """Count a job that ended here; ``by_bug``: an internal error caused it to fail."""
        self._bugs.labels("job").inc(by_bug)
        self._jobs_ended.labels(verb, status).inc()
        self._job_seconds.labels(verb).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)


@dataclass(frozen=True, eq=False)
class StateCollector(Collector):
    """Collects counts that are maintained elsewhere, whenever metrics are read.

    ``jobs`` counts the store's jobs by status. ``queues`` returns, for each team with queued jobs,
    their number and the seconds that the oldest has waited. ``lost`` counts the pieces whose worker
    was lost, ``idle`` the slots without a piece.
    """

    jobs: Callable[[], Mapping[str, int]]
    queues: Callable[[], Mapping[str, tuple[int, float]]]
    lost: Callable[[], int]
    idle: Callable[[], int]
    created: float = field(default_factory=time.time)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of all counts."""
        jobs = GaugeMetricFamily("collsynth_jobs", "Jobs in the store.", labels=["status"])
        for status, count in self.jobs().items():
            jobs.add_metric([status], count)
        lost = CounterMetricFamily(
            "collsynth_workers_lost", "Pieces whose worker was lost.", labels=()
        )
        lost.add_metric([], self.lost(), created=self.created)
        waiting = GaugeMetricFamily("collsynth_queue_jobs", "Queued jobs.", labels=["team"])
        oldest = GaugeMetricFamily(
            "collsynth_queue_seconds", "How long the oldest queued job has waited.", labels=["team"]
        )
        for team, (count, seconds) in self.queues().items():
            waiting.add_metric([team], count)
            oldest.add_metric([team], seconds)
        idle = GaugeMetricFamily("collsynth_worker_slots_idle", "Slots without a piece.")
        idle.add_metric([], self.idle())
        yield from (jobs, lost, waiting, oldest, idle)
