"""Untrusted XML, read so that nothing in it can expand, recurse or fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import iterparse

from hierarchies.errors import InputError

DEEPEST = 200
MOST_ELEMENTS = 400_000


def parsed(text: str) -> Element:
    """The root element. Raises InputError for what is no XML, has entities, or is too deep."""
    depth = count = 0
    root: Element | None = None
    try:
        for event, element in iterparse(StringIO(text), events=("start", "end")):
            depth += 1 if event == "start" else -1
            count += event == "start"
            root = element if root is None else root
            if depth > DEEPEST or count > MOST_ELEMENTS:
                raise InputError(
                    f"the XML has more than {DEEPEST} levels or {MOST_ELEMENTS} elements"
                )
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"not XML, or cut off: {error}") from None
    except (ValueError, LookupError) as error:
        reason = f"the XML cannot be read safely: {type(error).__name__}"
        raise InputError(reason, hint="entities are not read") from None
    assert root is not None, "a document without a root is no XML"
    return root


def walk(root: Element) -> Iterator[tuple[Element, tuple[Element, ...]]]:
    """Every element below a root, in document order, each with its ancestors below the root."""
    stack: list[tuple[Element, tuple[Element, ...]]] = [(e, ()) for e in reversed(root)]
    while stack:
        element, path = stack.pop()
        yield element, path
        stack.extend((child, (*path, element)) for child in reversed(element))


def whole(element: Element, key: str, most: int, where: str) -> int:
    """A whole number from 0 to ``most`` in an attribute. Raises InputError."""
    text = element.get(key, "")
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= most:
        problem = f'<{element.tag} {key}="{text[:40]}"> is no whole number from 0 to {most}'
        raise InputError(problem, where=where)
    return number
