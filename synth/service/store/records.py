"""Records of the store, the same for every database.

Times are in UTC. The store raises InputError for texts with NUL characters or lone surrogates,
which databases treat differently, and for names of more than 200 characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from hashlib import sha256
from secrets import compare_digest
from typing import Any, ClassVar

from hierarchies import InputError


class StoreError(InputError):
    """The store cannot be reached or used; the question is not to blame.

    ``public_message`` is the message that any caller may see.
    """

    public_message: ClassVar[str] = "the store does not answer"


class FullError(StoreError):
    """The store has no room for a write."""

    public_message: ClassVar[str] = "the disk of the store is full"


class ConflictError(InputError):
    """An idempotency key that was used with another question."""


class Status(StrEnum):
    """The status of a job. A cancelling job is still running, but was asked to end."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the job has ended; then its status is final."""
        return self not in (Status.QUEUED, Status.RUNNING, Status.CANCELLING)


class JobOrder(StrEnum):
    """The order of a list of jobs: by creation, or by seconds of work."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LONGEST = "longest"


@dataclass(frozen=True)
class JobFilter:
    """Selects jobs by status, verb and day of creation in UTC.

    Every word of ``text`` must occur in the job's name, its headline, or the name of its caller.
    """

    status: Status | None = None
    verb: str | None = None
    day: date | None = None
    text: str = ""


ALL_JOBS = JobFilter()


class Scope(StrEnum):
    """A permission of a key: ask and see answers, keep systems, or manage the jobs of all teams."""

    ASK = "ask"
    KEEP = "keep"
    ADMIN = "admin"


@dataclass(frozen=True)
class RevokedKey:
    """A key just revoked, in its state before.

    Includes the number of its sessions that ended and the ids of its jobs that had not ended.
    """

    key: Key
    sessions: int
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class EndedSessions:
    """The result of signing out a person whom a proxy had signed in.

    Consists of the number of sessions ended and the ids of their jobs that had not ended.
    """

    sessions: int
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class NewKey:
    """A key just created. Its owner sends ``secret``, which is shown only once."""

    id: str
    team: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Key:
    """A key as stored; ``digest`` is ``digest_of`` its secret."""

    id: str
    team: str
    name: str
    digest: str = field(repr=False)
    rate_per_second: float | None
    jobs_per_day: int | None
    created: datetime
    revoked: bool
    expires: datetime | None = None
    last_used: datetime | None = None
    scopes: str = "ask keep"

    def admits(self, secret: str) -> bool:
        """Whether this is the key's secret and the key is valid, in constant time."""
        return self.belongs_to(secret) and self.valid

    def belongs_to(self, secret: str) -> bool:
        """Whether this is the key's secret, valid or not, in constant time."""
        return compare_digest(digest_of(secret), self.digest)

    @property
    def valid(self) -> bool:
        """Whether the key is neither revoked nor expired."""
        expired = self.expires is not None and self.expires <= datetime.now(UTC)
        return not self.revoked and not expired

    @property
    def state(self) -> str:
        """``valid``, ``revoked`` or ``expired``."""
        return "revoked" if self.revoked else "valid" if self.valid else "expired"


@dataclass(frozen=True)
class Person:
    """A person signed in by a proxy: the proxy's name for them, and their team and scopes here."""

    name: str
    team: str
    scopes: str


def make_printable(text: str) -> str:
    """Replace unprintable characters, which databases keep differently, by blanks."""
    return "".join(character if character.isprintable() else " " for character in text)


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret in hex; secrets are random and need no salt."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class StoredSystem:
    """A system description that a team keeps under a name: TOML."""

    team: str
    name: str
    text: str
    changed: datetime


@dataclass(frozen=True)
class StoredBaseline:
    """A log of measurements that a team keeps, by the machine and the test that it is of."""

    team: str
    machine: str
    test: str
    text: str
    changed: datetime


@dataclass(frozen=True)
class ListedBaseline:
    """A baseline without its text, of which it has the bytes."""

    machine: str
    test: str
    bytes: int
    changed: datetime


@dataclass(frozen=True)
class StoredAnswer:
    """A complete answer: ``body`` is its JSON, ``outcome`` the exit code of the command line."""

    key: str
    verb: str
    edition: str
    question: str
    outcome: int
    body: bytes
    seconds: float
    created: datetime


@dataclass(frozen=True)
class SeenAnswer:
    """An answer, and whether the team has asked for it ``before``."""

    answer: StoredAnswer
    before: bool


@dataclass(frozen=True)
class NewJob:
    """A question to be answered: ``question`` is its canonical JSON, ``answer_key`` its key.

    ``asked_by`` is the readable name of the caller. ``part``: the question is for a part of a page,
    so lists omit it. ``tried``: it is not expected to end quickly. ``name`` is the question in one
    line.
    """

    team: str
    key_id: str | None
    verb: str
    question: str
    answer_key: str
    idempotency_key: str | None = None
    budget_seconds: float | None = None
    asked_by: str | None = None
    part: bool = False
    tried: bool = False
    name: str = ""


@dataclass(frozen=True)
class StoredJob:
    """A question that is queued, being answered, or answered.

    ``answer_key`` is the key of the answer once the job is done; ``best`` the latest partial answer
    (omitted from lists); ``attempts`` the number of times that work began; ``work_seconds`` the
    time of all finished attempts; ``revision`` increases with every change. ``question`` may be
    long: it is "" if the job was read without it. ``headline`` is the outcome in a few words.
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
    work_seconds: float
    asked_by: str | None
    name: str
    headline: str | None


@dataclass(frozen=True)
class SubmittedJob:
    """A job, and whether it is new. If not, its idempotency key had been used for it before."""

    job: StoredJob
    created: bool


@dataclass(frozen=True)
class JobClaim:
    """The right of an owner to write to a job, until the job ends or another claims it."""

    job: StoredJob
    owner: str
    token: str


@dataclass(frozen=True)
class DeletionCounts:
    """The numbers of jobs and answers that were deleted because of their age or size."""

    jobs: int
    answers: int

    def __add__(self, other: DeletionCounts) -> DeletionCounts:
        return DeletionCounts(self.jobs + other.jobs, self.answers + other.answers)


@dataclass(frozen=True)
class ClaimState:
    """Whether to continue work on a job. If not, the claim is ``lost`` or the job cancelled."""

    going_on: bool
    lost: bool
