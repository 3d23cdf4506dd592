"""Deletes what is old, a batch at a time: ended jobs, then answers that no job points to."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, select

from synth.service.store.engines import hold_answers
from synth.service.store.records import Forgotten, Status
from synth.service.store.tables import ANSWER, JOB, SEEN

_ENDED = tuple(status for status in Status if status.ended)


def forget(connection: Connection, before: datetime, most: int) -> Forgotten:
    """Delete jobs that ended before then, and answers made before then, at most so many of each.

    An answer stays for as long as there is a job, ended or not, that points to it.
    """
    hold_answers(connection, alone=True)
    old = select(JOB.c.number).where(JOB.c.status.in_(_ENDED), JOB.c.finished < before)
    oldest = old.order_by(JOB.c.finished, JOB.c.number).limit(most)
    jobs = connection.execute(delete(JOB).where(JOB.c.number.in_(oldest))).rowcount
    wanted = ANSWER.c.key.in_(select(JOB.c.answer_key))  # read once, not for each answer
    made = select(ANSWER.c.key).where(ANSWER.c.created < before, ~wanted)
    chosen = made.order_by(ANSWER.c.created, ANSWER.c.key).limit(most)
    keys = connection.execute(chosen).scalars().all()
    connection.execute(delete(SEEN).where(SEEN.c.key.in_(keys)))
    connection.execute(delete(ANSWER).where(ANSWER.c.key.in_(keys)))
    return Forgotten(jobs, len(keys))
