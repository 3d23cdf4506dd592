"""The store: jobs, answers, keys and systems in one database, outliving every process."""

from synth.service.store.claims import MOST_ATTEMPTS, MOST_LOSSES
from synth.service.store.records import (
    Claim,
    ConflictError,
    Forgotten,
    Job,
    Key,
    NewJob,
    NewKey,
    Noted,
    Seen,
    Status,
    StoredAnswer,
    StoredSystem,
    StoreError,
    Submitted,
    digest_of,
)
from synth.service.store.store import Store
from synth.service.store.tables import NAME_CHARACTERS

__all__ = [
    "MOST_ATTEMPTS",
    "MOST_LOSSES",
    "NAME_CHARACTERS",
    "Claim",
    "ConflictError",
    "Forgotten",
    "Job",
    "Key",
    "NewJob",
    "NewKey",
    "Noted",
    "Seen",
    "Status",
    "Store",
    "StoreError",
    "StoredAnswer",
    "StoredSystem",
    "Submitted",
    "digest_of",
]
