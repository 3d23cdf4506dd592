"""The command line's answer cache, kept in a store that a service may share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from synth.ask.identity.canonical import key_of
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS
from synth.service.jobs.questions import prepare_question
from synth.service.store import Store


class Cache:
    """Keeps complete answers of repeatable verbs: ``top``, but not ``run``, which measures.

    Its methods raise StoreError if the store cannot be reached.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, verb: str, question: Question) -> Reply | None:
        """Return the answer of the same edition to the same question, or None."""
        if not VERBS[verb].repeatable:
            return None
        stored = self._store.answers.one(key_of(verb, question))
        return None if stored is None else Reply(json.loads(stored.body), Outcome(stored.outcome))

    def keep(self, verb: str, question: Question, reply: Reply, seconds: float) -> None:
        """Keep an answer and the seconds it took, if it is complete and repeatable."""
        if VERBS[verb].repeatable and not VERBS[verb].cut_short(reply):
            self._store.answers.keep(prepare_question(verb, question).answered(reply, seconds))


@contextmanager
def open_cache(url: str) -> Iterator[Cache]:
    """Open the cache in a store, creating its tables if they are missing."""
    with Store(url) as store:
        store.migrate()
        yield Cache(store)
