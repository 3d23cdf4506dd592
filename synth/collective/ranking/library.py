"""The valid programs of a language by tree depth, with their counts and verdicts.

Nothing here depends on a system, a placement or a payload: one library serves many questions.
"""

from __future__ import annotations

from grammar import Instruction, spell
from hierarchies import Tree
from synth.cache.codec import Codec
from synth.cache.kept import KeptValues
from synth.collective.semantics.layout import Move
from synth.collective.semantics.programs import (
    Language,
    ShouldContinue,
    Vertex,
    explore_moves,
    never_stop,
)
from synth.collective.semantics.rules import Derivation
from synth.collective.verify.verdict import Proved, Verdict
from synth.search.best_first import PathGraph

Graph = PathGraph[Vertex, Move]
Labels = tuple[int, ...]

PROOFS = KeptValues[Proved]("proof", Codec(Proved), 1024)
"""Programs that were replayed and proved for all sizes. An unknown verdict is not kept: z3 is asked
again."""


class Library:
    """Explores each tree depth on first use. Mutable.

    ``complete`` becomes False once ``go_on`` stops a search: then programs may be missing.
    ``verdicts`` holds the verdicts on programs that were replayed and put to z3.
    """

    def __init__(self, language: Language, go_on: ShouldContinue = never_stop) -> None:
        self.language = language
        self.complete = True
        self.verdicts: dict[tuple[Instruction, ...], Verdict] = {}
        self._go_on = go_on
        self._graphs: dict[int, Graph] = {}
        self._paths: dict[int, list[Labels]] = {}
        self._counts: dict[int, int] = {}

    def graph(self, depth: int) -> Graph:
        """Returns every valid program on a tree of ``depth`` digits, as a graph to be priced."""
        if depth not in self._graphs:
            graph = explore_moves(depth, self.language, self._go_on)
            self.complete = self.complete and graph.complete
            self._graphs[depth] = graph
        return self._graphs[depth]

    def paths(self, depth: int) -> list[Labels]:
        """Returns the same programs as lists of labels in the graph's alphabet."""
        if depth not in self._paths:
            graph = self.graph(depth)
            # At prices of 0 all paths are cheapest paths, listed by their number of moves.
            free = [0] * len(graph.alphabet)
            self._paths[depth] = [path.labels for path in graph.cheapest(free, free)]
        return self._paths[depth]

    def verdict(self, derivation: Derivation) -> Verdict | None:
        """Returns the verdict on a program; None if it was neither judged nor kept as proved."""
        steps = derivation.instructions
        if steps not in self.verdicts and (proof := PROOFS.find(_key_of(derivation))):
            self.verdicts[steps] = proof
        return self.verdicts.get(steps)

    def learn(self, derivation: Derivation, verdict: Verdict) -> None:
        """Stores the verdict on a program, and keeps a proof for later questions."""
        self.verdicts[derivation.instructions] = verdict
        if isinstance(verdict, Proved):
            PROOFS.keep(_key_of(derivation), verdict)

    def known(self) -> int:
        """Returns for how many depths the programs are listed."""
        return len(self._paths)

    def count(self, depth: int) -> int:
        """Returns how many programs there are at a depth."""
        if depth not in self._counts:
            self._counts[depth] = sum(self.graph(depth).count())
        return self._counts[depth]

    def spellings(self, tree: Tree) -> list[str]:
        """Returns the canonical spelling of every move's instruction on a tree, by label."""
        texts: dict[Instruction, str] = {}
        alphabet = self.graph(len(tree.digits)).alphabet
        for move in alphabet:
            if move.instruction not in texts:
                texts[move.instruction] = str(spell(move.instruction, tree))
        return [texts[move.instruction] for move in alphabet]


def _key_of(derivation: Derivation) -> str:
    """Returns all that a proof for all sizes depends on: no size, and no name of a digit."""
    return repr((derivation.goal, len(derivation.tree.digits), derivation.instructions))
