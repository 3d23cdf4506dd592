"""Limits on what one request may ask for, checked before any work begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import assert_never

from hierarchies import InputError
from synth.ask.outputs import EmitInputQuestion
from synth.ask.questions.fields import CostLimit, limited_fields, marks_of
from synth.ask.questions.named_texts import NamedText, system_of
from synth.ask.questions.question import Question


@dataclass(frozen=True)
class Limits:
    """Upper limits for one body, question, job, key and team.

    ``plain_body_bytes`` limits the bodies of questions without files, ``job_memory_bytes`` the
    memory of each piece of a job. ``requests_per_second`` and ``jobs_per_day`` apply to keys
    without limits of their own, ``work_seconds_per_day`` to all jobs of a team that needs keys.
    """

    body_bytes: int = 16 * 2**20
    plain_body_bytes: int = 64 * 2**10
    body_seconds: float = 30.0
    description_bytes: int = 2**18
    devices: int = 16384
    max_steps: int = 8
    digits: int = 8
    k: int = 1000
    systems: int = 100
    combinations: int = 1000
    wait_seconds: float = 60.0
    job_seconds: float = 600.0
    job_memory_bytes: int = 4 * 2**30
    queued_jobs_per_team: int = 10_000
    systems_per_team: int = 1000
    systems_bytes_per_team: int = 16 * 2**20
    baselines_per_team: int = 1000
    baselines_bytes_per_team: int = 64 * 2**20
    requests_per_second: float = 100.0
    jobs_per_day: int = 50_000
    failed_sign_ins_per_minute: float = 30.0
    work_seconds_per_day: float = 86_400.0
    queued_bytes_per_team: int = 64 * 2**20
    kept_bytes_per_team: int = 2**31
    requests_at_once_per_team: int = 256
    body_bytes_at_once_per_team: int = 64 * 2**20

    def body_bytes_for(self, question: type[Question]) -> int:
        """Return the largest body in bytes, given the files that this question may contain."""
        marks = marks_of(question)
        if marks & {CostLimit.TEXT, CostLimit.ANSWER}:
            return self.body_bytes
        described = (
            2 * self.description_bytes if marks & {CostLimit.SYSTEM, CostLimit.SYSTEMS} else 0
        )
        return min(self.body_bytes, self.plain_body_bytes + described)

    def check(self, question: Question) -> None:
        """Raise InputError, naming the key, if a question exceeds a limit.

        Also raises it if a system cannot be read, because its devices cannot be counted then.
        """
        numbers = {
            CostLimit.K: self.k,
            CostLimit.MAX_STEPS: self.max_steps,
            CostLimit.DIGITS: self.digits,
        }
        for limited, key, value in limited_fields(question):
            match limited:
                case CostLimit.K | CostLimit.MAX_STEPS | CostLimit.DIGITS:
                    _check_number(key, value, numbers[limited])
                case CostLimit.TREE:
                    _check_number(key, prod(value), self.devices)
                case CostLimit.SYSTEMS:
                    self._check_systems(key, value)
                case CostLimit.SWEEP:
                    _check_number(key, prod(map(len, value.values())), self.combinations)
                    self._check_systems(key, value.get("system", ()))
                case CostLimit.SYSTEM:
                    self._check_system(key, value)
                case CostLimit.ANSWER:
                    assert isinstance(question, EmitInputQuestion)
                    self.check_devices(question.answered_devices(), key)
                case CostLimit.TEXT:
                    pass  # ``body_bytes`` limits the body, and what ``Broker.whole`` adds to it
                case CostLimit.HERE:
                    _check_not_here(key, value)
                case _:
                    assert_never(limited)

    def check_description(self, *texts: str) -> None:
        """Raise InputError if descriptions of systems are too long in total."""
        characters = sum(map(len, texts))
        if characters > self.description_bytes:
            problem = f"a description of {characters} characters"
            hint = f"at most {self.description_bytes}, those of several systems together"
            raise InputError(problem, where="text", hint=hint)

    def check_devices(self, devices: int, where: str) -> None:
        """Raise InputError if a system has too many devices."""
        if devices > self.devices:
            problem = f"the system has {devices} devices"
            raise InputError(problem, where=where, hint=f"at most {self.devices} on this server")

    def _check_systems(self, key: str, systems: Sequence[str | NamedText]) -> None:
        """Raise InputError for too many systems, or if one exceeds a limit."""
        _check_number(key, len(systems), self.systems)
        self.check_description(*(one.text for one in systems if isinstance(one, NamedText)))
        for system in systems:
            self._check_system(key, system)

    def _check_system(self, key: str, system: str | NamedText) -> None:
        if isinstance(system, NamedText):
            self.check_description(system.text)
        self.check_devices(system_of(system).devices, key)


def _check_not_here(key: str, value: bool) -> None:
    if value:
        hint = "use the command line, which runs them on its own machine"
        raise InputError("a service does not run steps", where=key, hint=hint)


def _check_number(key: str, value: int, most: int) -> None:
    if value > most:
        raise InputError(
            f"{key} comes to {value}", where=key, hint=f"at most {most} on this server"
        )
