"""Metrics of a server, for Prometheus. Labels are routes and verbs, never what users send."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_JOB_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "collsynth_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "collsynth_request_seconds",
            "Seconds from a request's headers to the end of its answer.",
            ("route",),
            buckets=_REQUEST_SECONDS,
            registry=self.registry,
        )
        self._questions = Counter(
            "collsynth_questions",
            "Questions by whether their answer was known: in memory, in the store, or not.",
            ("verb", "found"),
            registry=self.registry,
        )
        self._job_seconds = Histogram(
            "collsynth_job_seconds",
            "Seconds from the start of a job to its end.",
            ("verb",),
            buckets=_JOB_SECONDS,
            registry=self.registry,
        )
        self._jobs_ended = Counter(
            "collsynth_jobs_ended",
            "Jobs this server ended.",
            ("verb", "status"),
            registry=self.registry,
        )
        self._lost = Counter(
            "collsynth_workers_lost", "Pieces whose worker was lost.", registry=self.registry
        )
        self._store_errors = Counter(
            "collsynth_store_errors", "Times the store failed.", registry=self.registry
        )
        self._forgotten = Counter(
            "collsynth_forgotten",
            "Jobs and answers this server has forgotten.",
            ("what",),
            registry=self.registry,
        )
        self.running = Gauge(
            "collsynth_jobs_driven", "Jobs this server has under way.", registry=self.registry
        )
        self.slots = Gauge(
            "collsynth_worker_slots", "Pieces that can run at once.", registry=self.registry
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def asked(self, verb: str, found: str) -> None:
        """Count a question, whose answer was found in ``memory``, in the ``store`` or ``not``."""
        self._questions.labels(verb, found).inc()

    def ended(self, verb: str, status: str, seconds: float) -> None:
        """Count a job that ended here."""
        self._jobs_ended.labels(verb, status).inc()
        self._job_seconds.labels(verb).observe(seconds)

    def worker_lost(self) -> None:
        """Count a worker that was lost with its piece."""
        self._lost.inc()

    def forgot(self, jobs: int, answers: int) -> None:
        """Count jobs and answers that were deleted for their age."""
        self._forgotten.labels("jobs").inc(jobs)
        self._forgotten.labels("answers").inc(answers)

    def store_failed(self) -> None:
        """Count a failure of the store."""
        self._store_errors.inc()

    def count_jobs_by(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Add a gauge of the store's jobs by status, counted whenever metrics are read."""
        self.registry.register(_Jobs(counts))

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class _Jobs(Collector):
    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Its name, without looking into the store."""
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The jobs by status."""
        family = self._family()
        for status, count in self._counts().items():
            family.add_metric([status], count)
        yield family

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily("collsynth_jobs", "Jobs in the store.", labels=["status"])
