"""Deletes partial answers that were kept as if they were complete; their jobs have them as partial.

Where a budget ended before any plan was found, ``plan`` said that nothing fits, and that was given
to every team that asked the same. An answer says by its key ``complete`` that it is partial.
"""

import json

import sqlalchemy as sa
from alembic import op

from synth.service.store.engines import hold_answers

revision = "0008"
down_revision = "0007"

VERBS = ("count", "top", "sweep", "cost", "plan")
"""Those that answered in part; ``complete`` of ``import`` says something else."""
MARK = b'"complete": false'
BATCH = 100

NAME = sa.String(200)
ANSWER = sa.table(
    "answer", sa.column("key", NAME), sa.column("verb", NAME), sa.column("body", sa.LargeBinary)
)
SEEN = sa.table("seen", sa.column("key", NAME))
JOB = sa.table(
    "job",
    sa.column("answer_key", NAME),
    sa.column("status", sa.String(10)),
    sa.column("question", sa.String()),
    sa.column("best", sa.LargeBinary),
    sa.column("size_bytes", sa.Integer),
    sa.column("headline", NAME),
    sa.column("revision", sa.Integer),
)


def upgrade() -> None:
    """Delete them, a batch after the other."""
    connection = op.get_bind()
    hold_answers(connection, alone=True)
    after = ""
    while True:
        some = sa.select(ANSWER.c.key, ANSWER.c.body).where(ANSWER.c.key > after)
        chosen = some.where(ANSWER.c.verb.in_(VERBS)).order_by(ANSWER.c.key).limit(BATCH)
        rows = connection.execute(chosen).all()
        for key, body in rows:
            if MARK in body and json.loads(body).get("complete") is False:
                purge(connection, key, body)
        if len(rows) < BATCH:
            return
        after = rows[-1].key


def purge(connection: sa.Connection, key: str, body: bytes) -> None:
    """Delete an answer; the jobs that ended with it end with it as what they had found."""
    ended = sa.update(JOB).where(JOB.c.answer_key == key, JOB.c.status == "done")
    change = {
        "status": "partial",
        "best": body,
        "size_bytes": sa.func.length(JOB.c.question) + len(body),
        "headline": None,
        "revision": JOB.c.revision + 1,
    }
    connection.execute(ended.values(change))
    connection.execute(sa.delete(SEEN).where(SEEN.c.key == key))
    connection.execute(sa.delete(ANSWER).where(ANSWER.c.key == key))
