"""Names keep to the glossary: one word, one meaning, and the nouns and verbs of the field."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from places import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
PACKAGES = ("hierarchies", "grammar", "synth")
AVOIDED = {
    *("told", "asked", "said", "lies", "lying", "handed", "beside", "doing", "several"),
    *("taken", "given", "what", "whose", "wanted", "errand", "survey"),
}
"""Participles, pronouns and private words that name nothing in the field."""

NOUNS = {
    *("Proved", "Refuted", "Unknown", "Infeasible"),  # what a solver answers
    *("Crossing", "Speed", "Wiring", "Sharding", "Setting", "Holding", "Training", "Sharing"),
    *("Finding", "Timing", "Listing", "Meaning"),
}
"""Nouns that end as participles do."""


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    files = [file for top in PACKAGES for file in sorted((ROOT / top).rglob("*.py"))]
    return tuple(
        (str(file.relative_to(ROOT)), ast.parse(file.read_text(encoding="utf-8"))) for file in files
    )


def definitions(*kinds: type[ast.AST]) -> Iterator[tuple[str, str]]:
    """Module-level definitions of the source: the file and the name."""
    for file, tree in trees():
        for node in tree.body:
            if isinstance(node, kinds):
                yield file, getattr(node, "name", "")


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def entries() -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY, re.MULTILINE)
    return [row for row in rows if row not in ("word", "---")]


def test_the_glossary_explains_sixty_words_once() -> None:
    terms = [term.strip() for row in entries() for term in re.sub(r"\(.*?\)", "", row).split(",")]
    assert len(terms) >= 60
    assert [term for term, times in Counter(terms).items() if times > 1] == []


def test_few_class_names_are_in_two_modules() -> None:
    times = Counter(name for _, name in definitions(ast.ClassDef))
    shared = sorted(name for name, count in times.items() if count > 1)
    assert len(shared) < 20, shared


def test_classes_are_nouns() -> None:
    odd = [
        f"{file}: {name}"
        for file, name in definitions(ast.ClassDef)
        if AVOIDED & set(words(name))
        or (len(words(name)) == 1 and re.search(r"(ed|ing)$", name) and name not in NOUNS)
    ]
    assert odd == []


def test_functions_use_no_private_words() -> None:
    odd = [
        f"{file}: {name}"
        for file, name in definitions(ast.FunctionDef, ast.AsyncFunctionDef)
        if AVOIDED & set(words(name))
    ]
    assert odd == []
