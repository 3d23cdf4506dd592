"""What the store is given and gives back: plain frozen records, whatever database holds them.

Times are in UTC. Texts may hold anything but NUL characters and halves of surrogate pairs, which
no database keeps alike; names have at most 200 characters. Else the store raises InputError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from secrets import compare_digest
from typing import Any

from hierarchies import InputError


class StoreError(InputError):
    """The store cannot be reached, or not be used as it is; no question is to blame."""


class ConflictError(InputError):
    """An idempotency key that came before, with another question."""


class Status(StrEnum):
    """Where a job stands. A cancelling one still runs, and is to come to an end."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Nothing will happen to the job any more."""
        return self not in (Status.QUEUED, Status.RUNNING, Status.CANCELLING)


@dataclass(frozen=True)
class NewKey:
    """A key just made. ``secret`` is all that its owner sends, and is told this once only."""

    id: str
    team: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Key:
    """A key as it is kept: ``digest`` is ``digest_of`` its secret."""

    id: str
    team: str
    name: str
    digest: str = field(repr=False)
    rate_per_second: float | None
    jobs_per_day: int | None
    created: datetime
    revoked: bool

    def admits(self, secret: str) -> bool:
        """If that is its secret, and it was not revoked; takes as long whichever it is."""
        return compare_digest(digest_of(secret), self.digest) and not self.revoked


def digest_of(secret: str) -> str:
    """SHA-256 of a key's whole secret, ``cs_...``, in hex: secrets are random, and need no salt."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class StoredSystem:
    """A system description that a team keeps under a name: TOML."""

    team: str
    name: str
    text: str
    changed: datetime


@dataclass(frozen=True)
class StoredAnswer:
    """A complete answer: ``body`` is its JSON, ``outcome`` how the command line would exit."""

    key: str
    verb: str
    edition: str
    question: str
    outcome: int
    body: bytes
    seconds: float
    created: datetime


@dataclass(frozen=True)
class Seen:
    """An answer as a team finds it; ``before``: it has asked for that before."""

    answer: StoredAnswer
    before: bool


@dataclass(frozen=True)
class NewJob:
    """A question to be answered: ``question`` is its canonical JSON, ``answer_key`` its key."""

    team: str
    key_id: str | None
    verb: str
    question: str
    answer_key: str
    idempotency_key: str | None = None
    budget_seconds: float | None = None


@dataclass(frozen=True)
class Job:
    """A question on its way to an answer.

    ``answer_key`` is where the answer is once the job is done; ``best`` the latest partial answer
    (left out of lists); ``attempts`` how often work on it began; ``revision`` goes up with every
    change.
    """

    id: str
    team: str
    key_id: str | None
    verb: str
    question: str
    answer_key: str
    status: Status
    created: datetime
    started: datetime | None
    finished: datetime | None
    attempts: int
    progress: dict[str, Any] | None
    best: bytes | None
    problem: dict[str, Any] | None
    idempotency_key: str | None
    revision: int
    budget_seconds: float | None


@dataclass(frozen=True)
class Submitted:
    """A job, and if it is new: else it is the one that came with the same idempotency key."""

    job: Job
    created: bool


@dataclass(frozen=True)
class Claim:
    """The right to work on a job, until it ends or is lost to another: then nothing is written."""

    job: Job
    owner: str
    token: str


@dataclass(frozen=True)
class Forgotten:
    """How many jobs and answers are no more."""

    jobs: int
    answers: int


@dataclass(frozen=True)
class Noted:
    """If work on a job is to go on; where not, if the claim was lost, or else it is cancelled."""

    going_on: bool
    lost: bool
