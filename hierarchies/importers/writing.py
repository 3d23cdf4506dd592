"""Writes a draft as a TOML description, with blanks that ``load`` refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hierarchies.files.reading import BLANK
from hierarchies.files.values import quote, spell_pairs, spell_value
from hierarchies.files.writing import unusual_keys
from hierarchies.importers.draft import Blank, Draft, DraftLevel, Entry, StatedValue, Value

_WIDTH = 100
_PER_SECOND, _MICROSECONDS = "_GB_per_s", "_us"


def draft_to_toml(draft: Draft) -> str:
    """Return the description that ``hierarchies.read`` reads, or refuses because of its blanks.

    An unknown value is ``"?"``, with a suggestion and its source in a comment.
    """
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    for note in (*(f"Warning: {warning}" for warning in draft.warnings), *draft.notes):
        yield from _comment(note)
    needed = [key for _, key, blank in draft.blanks() if blank.needed]
    if needed:
        yield from _comment(
            f'Replace each "{BLANK}" by the value, and state its origin in the source of that '
            "name; comments give suggestions."
        )
    yield from spell_pairs({"name": draft.name, "title": draft.title})
    yield from ("", "[device]", *spell_pairs({"name": draft.device or "not stated"}))
    entry = draft.memory_bytes_per_second
    yield _entry("memory_GB_per_s", entry)
    doubted = isinstance(entry, StatedValue) and entry.unconfirmed
    yield from spell_pairs({"unconfirmed": ["memory_GB_per_s"] if doubted else None})
    yield from spell_pairs({"source": _source(entry)})
    for level in draft.levels:
        yield from _level(level, innermost=level is draft.levels[-1])
    for lack in draft.lacks:
        yield from ("", "[[exception]]", *spell_pairs(unusual_keys(lack)))


def _level(level: DraftLevel, innermost: bool) -> Iterator[str]:
    entries = level.entries()
    yield ""
    if level.about:
        yield from _comment(level.about)
    domain = entries["domain"]
    if isinstance(domain, StatedValue):
        yield from _comment(f"{domain.value}: {domain.source}")
    yield from ("[[level]]", *spell_pairs({"name": level.name, "medium": level.medium or None}))
    for key, entry in entries.items():
        yield _entry(key, entry)
    numbers = {key: entry for key, entry in entries.items() if key != "domain"}
    doubted = [k for k, e in numbers.items() if isinstance(e, StatedValue) and e.unconfirmed]
    crossed = level.through if level.through or not innermost else None
    yield from spell_pairs({"through": crossed, "unconfirmed": doubted or None})
    given = {k: _source(e) for k, e in numbers.items() if isinstance(e, StatedValue) or e.needed}
    yield from ("", "[level.source]", *spell_pairs(given))


def _entry(key: str, entry: Entry) -> str:
    if isinstance(entry, StatedValue):
        return f"{key} = {spell_value(scale_to_unit(key, entry.value))}"
    advice = "not stated"
    if entry.suggestion is not None:
        advice = f"perhaps {spell_value(scale_to_unit(key, entry.suggestion))}: {entry.source}"
    elif entry.source:
        advice = entry.source
    if not entry.needed:
        return f"# {key} = {BLANK}  optional; {_to_one_line(advice)}"
    return f"{key} = {quote(BLANK)}  # {_to_one_line(advice)}"


def _source(entry: Entry) -> str:
    return BLANK if isinstance(entry, Blank) else entry.source


def scale_to_unit(key: str, value: Value) -> Value:
    """Return a value in its key's unit: bytes/s and seconds become GB/s and microseconds."""
    if isinstance(value, (bool, str)):
        return value
    if key.endswith(_PER_SECOND):
        return float(f"{value / 1e9:.12g}")
    if key.endswith(_MICROSECONDS):
        return float(f"{value * 1e6:.12g}")
    return value


def _to_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _comment(text: str) -> Iterable[str]:
    line = "#"
    for word in _to_one_line(text).split():
        if len(line) + 1 + len(word) > _WIDTH and line != "#":
            yield line
            line = "#"
        line = f"{line} {word}"
    yield line
