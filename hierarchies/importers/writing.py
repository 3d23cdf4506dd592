"""A draft as a TOML description: what is blank is seen by people, and refused by ``load``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hierarchies.files.calibration import quoted
from hierarchies.files.reading import BLANK
from hierarchies.importers.draft import Blank, Draft, DraftLevel, Entry, Lack, Stated, Value

_WIDTH = 100
_PER_SECOND, _MICROSECONDS = "_GB_per_s", "_us"


def toml(draft: Draft) -> str:
    """The description that ``hierarchies.read`` takes, or refuses for its blanks.

    A value that is not known is ``"?"``, with what it often is, and who says so, beside it.
    """
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    for note in draft.notes:
        yield from _comment(note)
    needed = [key for _, key, blank in draft.blanks() if blank.needed]
    if needed:
        yield from _comment(
            f'Where "{BLANK}" stands, write the value, and in the source of that name where it '
            "is from; suggestions stand beside it."
        )
    yield f"name = {quoted(draft.name)}"
    yield f"title = {quoted(draft.title)}"
    yield from ("", "[device]", f"name = {quoted(draft.device or 'not said')}")
    entry = draft.memory_bytes_per_second
    yield _entry("memory_GB_per_s", entry)
    if isinstance(entry, Stated) and entry.unconfirmed:
        yield 'unconfirmed = ["memory_GB_per_s"]'
    yield f"source = {quoted(_source(entry))}"
    for level in draft.levels:
        yield from _level(level, innermost=level is draft.levels[-1])
    for lack in draft.lacks:
        yield from _lack(lack)


def _level(level: DraftLevel, innermost: bool) -> Iterator[str]:
    entries = level.entries()
    yield ""
    if level.about:
        yield from _comment(level.about)
    domain = entries["domain"]
    if isinstance(domain, Stated):
        yield from _comment(f"{domain.value}: {domain.source}")
    yield "[[level]]"
    yield f"name = {quoted(level.name)}"
    for key, entry in entries.items():
        yield _entry(key, entry)
    if level.through or not innermost:
        yield f"through = [{', '.join(quoted(name) for name in level.through)}]"
    doubted = [k for k, e in entries.items() if isinstance(e, Stated) and e.unconfirmed]
    doubted = [key for key in doubted if key != "domain"]
    if doubted:
        yield f"unconfirmed = [{', '.join(quoted(key) for key in doubted)}]"
    yield from ("", "[level.source]")
    for key, entry in entries.items():
        if key != "domain" and (isinstance(entry, Stated) or entry.needed):
            yield f"{key} = {quoted(_source(entry))}"


def _lack(lack: Lack) -> Iterator[str]:
    short = f"bandwidth_share = {lack.share!r}" if lack.share else "missing = true"
    yield ""
    yield "[[exception]]"
    yield f"unit = {quoted(lack.unit)}"
    yield short
    yield f"source = {quoted(lack.source)}"


def _entry(key: str, entry: Entry) -> str:
    if isinstance(entry, Stated):
        return f"{key} = {_value(key, entry.value)}"
    advice = "not said"
    if entry.suggestion is not None:
        advice = f"perhaps {_value(key, entry.suggestion)}: {entry.source}"
    elif entry.source:
        advice = entry.source
    if not entry.needed:
        return f"# {key} = {BLANK}  may be left out; {_one_line(advice)}"
    return f"{key} = {quoted(BLANK)}  # {_one_line(advice)}"


def _source(entry: Entry) -> str:
    return BLANK if isinstance(entry, Blank) else entry.source


def written(key: str, value: Value) -> Value:
    """A value in the unit that its key names: GB/s and microseconds of bytes/s and seconds."""
    if isinstance(value, (bool, str)):
        return value
    if key.endswith(_PER_SECOND):
        return float(f"{value / 1e9:.12g}")
    if key.endswith(_MICROSECONDS):
        return float(f"{value * 1e6:.12g}")
    return value


def _value(key: str, value: Value) -> str:
    shown = written(key, value)
    if isinstance(shown, bool):
        return "true" if shown else "false"
    if isinstance(shown, str):
        return quoted(shown)
    return repr(shown)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _comment(text: str) -> Iterable[str]:
    line = "#"
    for word in _one_line(text).split():
        if len(line) + 1 + len(word) > _WIDTH and line != "#":
            yield line
            line = "#"
        line = f"{line} {word}"
    yield line
