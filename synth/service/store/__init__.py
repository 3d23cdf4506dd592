"""The store: jobs, answers, keys and systems in one database that outlives every process.

Every method is one transaction, on SQLite or PostgreSQL; once it has returned, its writes survive
kill -9. A server that claims a job gets a token, and writes with an older token are refused: so a
server that was taken for dead does no harm when it wakes. Only a digest of a key's secret is kept,
so that a reader of the database cannot act in a team's name.

>>> from synth.service.store import digest_of
>>> digest_of("a secret")
'984ca5162200734c592148f1820b71057f098573d138666b48663e4e30cd8d3a'
"""

from synth.service.store.claims import MOST_ATTEMPTS, MOST_LOSSES
from synth.service.store.records import (
    ALL_JOBS,
    ClaimState,
    ConflictError,
    DeletionCounts,
    EndedSessions,
    JobClaim,
    JobFilter,
    JobOrder,
    Key,
    NewJob,
    NewKey,
    Person,
    RevokedKey,
    Scope,
    SeenAnswer,
    Status,
    StoredAnswer,
    StoredJob,
    StoredSystem,
    StoreError,
    SubmittedJob,
    digest_of,
)
from synth.service.store.store import Store
from synth.service.store.tables import NAME_CHARACTERS

__all__ = [
    "ALL_JOBS",
    "MOST_ATTEMPTS",
    "MOST_LOSSES",
    "NAME_CHARACTERS",
    "ClaimState",
    "ConflictError",
    "DeletionCounts",
    "EndedSessions",
    "JobClaim",
    "JobFilter",
    "JobOrder",
    "Key",
    "NewJob",
    "NewKey",
    "Person",
    "RevokedKey",
    "Scope",
    "SeenAnswer",
    "Status",
    "Store",
    "StoreError",
    "StoredAnswer",
    "StoredJob",
    "StoredSystem",
    "SubmittedJob",
    "digest_of",
]
