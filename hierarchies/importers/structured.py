"""Files from other tools as text, and YAML and JSON as lists and mappings, with bounded work."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from hierarchies.errors import InputError

LARGEST_BYTES = 16 * 2**20
LARGEST_YAML = 4 * 2**20
MOST_EVENTS = 400_000
"""The limit for a YAML file: each value, key and bracket takes a few microseconds to read."""
BEGINNING = 2**16
"""Characters of a file that are checked before all of it is read."""
_CUT = 16
"""An error this close to the end of a truncated text may be caused by the truncation."""
_DEEPEST = 40
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_json(text: str) -> Any:
    """Parse JSON. Raises InputError for invalid or too deeply nested JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not JSON: {error}", hint="the file may have been cut off") from None


def check_beginning(text: str, *words: str) -> None:
    """Raise InputError if a text does not begin as JSON, or contains none of these words.

    Errors further on, or caused by truncation to the beginning, are left to the full parser.
    """
    head = text[:BEGINNING]
    try:
        json.loads(head)
    except RecursionError:
        raise InputError("the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        cut = error.pos >= len(head) - _CUT or error.msg.startswith("Unterminated")
        if not (cut and len(head) < len(text)):
            raise InputError(f"not JSON: {error}") from None
    except ValueError:
        pass  # a number with too many digits, which the full parser refuses
    if not any(word in text for word in words):
        raise InputError("unexpected JSON", hint=f"expected {' or '.join(words)}")


def parse_yaml(text: str) -> Any:
    """Parse YAML: every scalar is the text as written, empty ones are None.

    Therefore ``0010`` remains the name of a host. Raises InputError for invalid YAML, for more than
    one document, for aliases (whose expansion can exceed any memory), for a key given twice, and
    for text, entries or nesting beyond our limits.
    """
    _check_length(text)
    try:
        return _build_value(_events(text))
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {_first_line(error)}", where=_place(error)) from None
    except InputError:
        raise
    except (RecursionError, ValueError):
        raise InputError("not YAML that can be read") from None


def check_yaml_beginning(text: str) -> None:
    """Raise InputError for a text that is too long, or does not begin as YAML."""
    _check_length(text)
    head = text[:BEGINNING]
    try:
        for _ in _events(head):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark is None or len(head) == len(text) or mark.index < len(head) - _CUT:
            raise InputError(f"not YAML: {_first_line(error)}", where=_place(error)) from None


def _check_length(text: str) -> None:
    if len(text) > LARGEST_YAML:
        raise InputError(
            f"a YAML file of {len(text):,} characters", hint=f"at most {LARGEST_YAML:,} are read"
        )


def _events(text: str) -> Iterator[Any]:
    """Yield the events of a parser. Raises InputError for more than our limits."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent):
            raise InputError(
                f"YAML aliases such as *{event.anchor} are not supported",
                where=_line(event),
                hint="write the value itself",
            )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise InputError(f"YAML nested more than {_DEEPEST} deep", where=_line(event))
        if count > MOST_EVENTS:
            raise InputError(
                f"YAML of more than {MOST_EVENTS:,} values, keys and brackets", where=_line(event)
            )
        yield event


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"


def _build_value(events: Iterator[Any]) -> Any:
    """Return the value of the only document, None if there is none."""
    value, documents = None, 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise InputError("not YAML: another document begins", where=_line(event))
            value = _value(next(events), events)
    return value


def _value(event: Any, events: Iterator[Any]) -> Any:
    """Return the value that begins with an event, consuming its other events."""
    if isinstance(event, yaml.SequenceStartEvent):
        values = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            values.append(_value(event, events))
        return values
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(events)
    return None if not event.style and event.value in _NULLS else event.value


def _mapping(events: Iterator[Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent):
            raise InputError("a key that is not a string", where=_line(key))
        if key.value in result:
            raise InputError(f"{key.value!r} is given twice", where=_line(key))
        result[key.value] = _value(next(events), events)
    return result


def _first_line(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return str(problem).splitlines()[0][:200]


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}" if mark else ""


def require_list(value: Any, subject: str) -> list[Any]:
    """Return the value if it is a list. Raises InputError otherwise."""
    if not isinstance(value, list):
        raise InputError(f"{subject} is not a list")
    return value


def require_text(value: Any, subject: str) -> str:
    """Return the value if it is a text that is not empty. Raises InputError otherwise."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{subject} is not a name")
    return value


def require_texts(value: Any, subject: str) -> list[str]:
    """Return a list of texts; an empty one for a missing value. Raises InputError otherwise."""
    return [require_text(entry, subject) for entry in require_list(value or [], subject)]


def entries_of(values: Any, subject: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the mappings of a list, each after its place. Raises InputError for other values."""
    for number, value in enumerate(require_list(values, subject), start=1):
        where = f"{subject}, entry {number}"
        yield where, require_mapping(value, where)


def require_mapping(value: Any, subject: str) -> dict[str, Any]:
    """Return the value if it is a mapping. Raises InputError otherwise."""
    if not isinstance(value, dict):
        raise InputError(f"{subject} is not a mapping of keys to values")
    return value


def read_texts(paths: Iterable[str]) -> dict[str, str]:
    """Return the text of every file, by its path. Raises InputError, naming the file."""
    return {path: _text(path) for path in paths}


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read the file: {reason}", where=path) from None
    return decode_text(content, path)


def decode_text(content: bytes, where: str) -> str:
    """Decode a file. Raises InputError if it is too large, or no text in UTF-8."""
    if len(content) > LARGEST_BYTES:
        raise InputError(
            f"the file has more than {LARGEST_BYTES // 2**20} MiB",
            where=where,
            hint="give the part that describes the topology",
        )
    if content.startswith(_UTF_16):
        raise InputError("the file is text in UTF-16", where=where, hint="save it as UTF-8")
    if b"\0" in content:
        raise InputError("the file has NUL bytes: it is not text", where=where)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"the file is not text in UTF-8 (byte {error.start})"
        raise InputError(problem, where=where) from None
    if not text.strip():
        raise InputError("the file is empty", where=where)
    return text


def check_lines(text: str, most: int) -> None:
    """Raise InputError for a text of more lines."""
    if (count := text.count("\n")) > most:
        raise InputError(f"{count} lines", hint=f"at most {most} are read")
