"""The store: jobs, answers, keys and systems in one database that outlives every process.

Every method is one transaction, on SQLite or PostgreSQL. Once it has returned, its writes survive
kill -9. A server that claims a job gets a token, and writes with an older token are refused.
Therefore a server that was presumed dead does no harm when it resumes. Only a digest of a key's
secret is stored, so that a reader of the database cannot act in a team's name.

>>> from synth.service.store import digest_of
>>> digest_of("a secret")
'984ca5162200734c592148f1820b71057f098573d138666b48663e4e30cd8d3a'
"""

from synth.service.store.claims import MOST_ATTEMPTS as MOST_ATTEMPTS
from synth.service.store.claims import MOST_LOSSES as MOST_LOSSES
from synth.service.store.records import (
    ALL_JOBS as ALL_JOBS,
)
from synth.service.store.records import (
    ClaimState as ClaimState,
)
from synth.service.store.records import (
    ConflictError as ConflictError,
)
from synth.service.store.records import (
    DeletionCounts as DeletionCounts,
)
from synth.service.store.records import (
    EndedSessions as EndedSessions,
)
from synth.service.store.records import (
    JobClaim as JobClaim,
)
from synth.service.store.records import (
    JobFilter as JobFilter,
)
from synth.service.store.records import (
    JobOrder as JobOrder,
)
from synth.service.store.records import (
    Key as Key,
)
from synth.service.store.records import (
    ListedBaseline as ListedBaseline,
)
from synth.service.store.records import (
    NewJob as NewJob,
)
from synth.service.store.records import (
    NewKey as NewKey,
)
from synth.service.store.records import (
    Person as Person,
)
from synth.service.store.records import (
    RevokedKey as RevokedKey,
)
from synth.service.store.records import (
    Scope as Scope,
)
from synth.service.store.records import (
    SeenAnswer as SeenAnswer,
)
from synth.service.store.records import (
    Status as Status,
)
from synth.service.store.records import (
    StoredAnswer as StoredAnswer,
)
from synth.service.store.records import (
    StoredBaseline as StoredBaseline,
)
from synth.service.store.records import (
    StoredJob as StoredJob,
)
from synth.service.store.records import (
    StoredSystem as StoredSystem,
)
from synth.service.store.records import (
    StoreError as StoreError,
)
from synth.service.store.records import (
    SubmittedJob as SubmittedJob,
)
from synth.service.store.records import (
    digest_of as digest_of,
)
from synth.service.store.store import Store as Store
from synth.service.store.tables import NAME_CHARACTERS as NAME_CHARACTERS
