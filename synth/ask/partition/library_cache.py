"""A cache of libraries, which a process keeps from one piece to the next.

A library holds the programs of a language and their proofs. Pieces of one question share a
language, as do most questions, so only the first of them has to search.
"""

from __future__ import annotations

from synth.collective.ranking.library import Library
from synth.collective.ranking.request import Watcher
from synth.collective.semantics.programs import Language

_MOST_LIBRARIES = 8


class LibraryCache:
    """The libraries used last, by language. Mutable, for one thread.

    A library whose search was stopped is not used again, as programs are missing from it.
    """

    def __init__(self) -> None:
        self._libraries: dict[Language, Library] = {}
        self._watcher = Watcher()

    def library(self, language: Language, watcher: Watcher) -> Library:
        """The library of a language; from now on searches of all libraries ask this watcher."""
        self._watcher = watcher
        found = self._libraries.pop(language, None)
        if found is None or not found.complete:
            found = Library(language, lambda states: self._watcher.searching(states))
        while len(self._libraries) >= _MOST_LIBRARIES:
            del self._libraries[next(iter(self._libraries))]
        self._libraries[language] = found
        return found
