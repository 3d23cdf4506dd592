"""The records that go into the store and come out of it, the same for every database.

Times are in UTC. Texts may hold anything but NUL characters and halves of surrogate pairs, which
databases treat differently; names have at most 200 characters. Else the store raises InputError.
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

    ``told`` is what anybody may be told of it.
    """

    told: ClassVar[str] = "the store does not answer"


class FullError(StoreError):
    """There is no room for what is to be written."""

    told: ClassVar[str] = "the disk of the store is full"


class ConflictError(InputError):
    """An idempotency key that has come before with another question."""


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
        """Whether the job has ended: then its status does not change any more."""
        return self not in (Status.QUEUED, Status.RUNNING, Status.CANCELLING)


class JobOrder(StrEnum):
    """The order of a list of jobs: by when they came, or by how long the work was."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LONGEST = "longest"


@dataclass(frozen=True)
class JobFilter:
    """Which jobs of a list are wanted: all of a status, of a verb, that came on a day in UTC.

    Of these those that have every word of ``text`` in what was asked, what came of it, or who
    asked.
    """

    status: Status | None = None
    verb: str | None = None
    day: date | None = None
    text: str = ""


ALL_JOBS = JobFilter()


class Scope(StrEnum):
    """What a key may do: ask and see answers, keep systems, see to the jobs of all teams."""

    ASK = "ask"
    KEEP = "keep"
    ADMIN = "admin"


@dataclass(frozen=True)
class RevokedKey:
    """A key that is revoked now: as it was before, how many sessions ended with it, and the ids of
    the jobs that came with it and have not ended.
    """

    key: Key
    sessions: int
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class EndedSessions:
    """Somebody whom a proxy had signed in: how many sessions ended, and the ids of the jobs that
    they asked for and that have not ended.
    """

    sessions: int
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class NewKey:
    """A key just made. ``secret`` is what its owner sends; it is shown this once only."""

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
    expires: datetime | None = None
    last_used: datetime | None = None
    scopes: str = "ask keep"

    def admits(self, secret: str) -> bool:
        """Whether that is its secret and it is valid, in the same time whichever it is."""
        return self.belongs_to(secret) and self.valid

    def belongs_to(self, secret: str) -> bool:
        """Whether that is its secret, valid or not, in the same time whichever it is."""
        return compare_digest(digest_of(secret), self.digest)

    @property
    def valid(self) -> bool:
        """Whether it is neither revoked nor over."""
        over = self.expires is not None and self.expires <= datetime.now(UTC)
        return not self.revoked and not over

    @property
    def state(self) -> str:
        """``valid``, ``revoked`` or ``expired``."""
        return "revoked" if self.revoked else "valid" if self.valid else "expired"


@dataclass(frozen=True)
class Person:
    """Somebody whom a proxy has signed in: their name there, their team and scopes here."""

    name: str
    team: str
    scopes: str


def make_printable(text: str) -> str:
    """A text without what databases keep differently: blanks stand for it."""
    return "".join(one if one.isprintable() else " " for one in text)


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
class SeenAnswer:
    """An answer as a team finds it; ``before``: the team has asked for it before."""

    answer: StoredAnswer
    before: bool


@dataclass(frozen=True)
class NewJob:
    """A question to be answered: ``question`` is its canonical JSON, ``answer_key`` its key.

    ``asked_by`` is the name of who asks, for people to read; ``part``: a page asks it for a part of
    an answer that it shows; lists leave it out. ``tried``: it is not one to end quickly. ``name``
    is what is asked, in a line.
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
    """A question on its way to an answer.

    ``answer_key`` is where the answer is once the job is done; ``best`` the latest partial answer
    (left out of lists); ``attempts`` how often work on it began; ``work_seconds`` how long that was
    in all, but for the attempt under way; ``revision`` goes up with every change. ``question`` may
    be long: where only the job is asked for it is "".
    ``headline`` is what came of it, in a few words.
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
    """A job, and whether it is new: else it came before with the same idempotency key."""

    job: StoredJob
    created: bool


@dataclass(frozen=True)
class JobClaim:
    """The right of an owner to write about a job, until the job ends or another claims it."""

    job: StoredJob
    owner: str
    token: str


@dataclass(frozen=True)
class DeletionCounts:
    """How many jobs and answers were deleted, for their age or their size."""

    jobs: int
    answers: int

    def __add__(self, other: DeletionCounts) -> DeletionCounts:
        return DeletionCounts(self.jobs + other.jobs, self.answers + other.answers)


@dataclass(frozen=True)
class ClaimState:
    """Whether work on a job shall go on. If not, the claim is ``lost``, or the job is cancelled."""

    going_on: bool
    lost: bool
