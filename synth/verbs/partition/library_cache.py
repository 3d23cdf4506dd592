"""What a process keeps from one piece to the next: the programs of a language, and their proofs."""

from __future__ import annotations

from synth.plan.library import Library
from synth.plan.request import Watcher
from synth.semantics.programs import Language

_ROOM = 8
"""So many languages; the one that was asked for longest ago makes room for a new one."""


class LibraryCache:
    """Libraries by their language. A search that was stopped is not kept. Mutable, one thread."""

    def __init__(self) -> None:
        self._libraries: dict[Language, Library] = {}
        self._watcher = Watcher()

    def library(self, language: Language, watcher: Watcher) -> Library:
        """The library of a language, whose searches ask this watcher from now on."""
        self._watcher = watcher
        found = self._libraries.pop(language, None)
        if found is None or not found.complete:
            found = Library(language, lambda states: self._watcher.searching(states))
        while len(self._libraries) >= _ROOM:
            del self._libraries[next(iter(self._libraries))]
        self._libraries[language] = found
        return found
