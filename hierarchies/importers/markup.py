"""A parser of untrusted XML that prevents expansion, deep recursion and exhausted memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import DefusedXMLParser, iterparse

from hierarchies.errors import InputError
from hierarchies.importers.structured import BEGINNING

DEEPEST = 200
MOST_ELEMENTS = 400_000
LONGEST_TOKEN = 2**18
"""Most characters of a tag or comment: expat scans a longer token again with each piece."""


class _PiecewiseText:
    """A text that the parser reads in pieces, which shows its progress."""

    def __init__(self, text: str, parser: DefusedXMLParser) -> None:
        self._text, self._expat = StringIO(text), parser.parser
        self._at = self._since = 0

    def read(self, characters: int) -> str:
        """Return the next piece.

        Raises InputError if the parser has been at one token for too long.
        """
        at = self._expat.CurrentByteIndex
        self._since = self._since + characters if at == self._at else 0
        self._at = at
        if self._since > LONGEST_TOKEN:
            line = f"line {self._expat.CurrentLineNumber}"
            raise InputError(
                f"not XML, or cut off: more than {LONGEST_TOKEN} characters without an end",
                where=line,
            )
        return self._text.read(characters)


def parse_xml(text: str) -> Element:
    """Return the root element.

    Raises InputError for invalid XML, entities, and too deep nesting.
    """
    depth = count = 0
    root: Element | None = None
    parser = DefusedXMLParser()
    watched = _PiecewiseText(text, parser)
    with _unify_errors():
        for event, element in iterparse(watched, ("start", "end"), parser):
            depth += 1 if event == "start" else -1
            count += event == "start"
            root = element if root is None else root
            if depth > DEEPEST or count > MOST_ELEMENTS:
                raise InputError(
                    f"the XML has more than {DEEPEST} levels or {MOST_ELEMENTS} elements"
                )
    assert root is not None, "an XML document needs a root"
    return root


def check_beginning(text: str, *roots: str) -> None:
    """Raise InputError unless the beginning of a text is XML with one of these root elements."""
    first = _FirstTag()
    with _unify_errors():
        DefusedXMLParser(target=first).feed(text[:BEGINNING])
    if first.tag is None or first.tag.rpartition("}")[2] not in roots:
        problem = "not XML" if first.tag is None else f"XML with the root <{first.tag[:40]}>"
        raise InputError(problem, hint=f"the root is {' or '.join(f'<{tag}>' for tag in roots)}")


class _FirstTag:
    """A parser target that keeps only the document's first tag."""

    tag: str | None = None

    def start(self, tag: str, attributes: object) -> None:
        self.tag = self.tag or tag

    def end(self, tag: str) -> None:
        pass

    def data(self, text: str) -> None:
        pass


@contextmanager
def _unify_errors() -> Iterator[None]:
    """Turn the errors of parsers into InputError."""
    try:
        yield
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"not XML, or cut off: {error}") from None
    except (ValueError, LookupError) as error:
        reason = f"the XML cannot be read safely: {type(error).__name__}"
        raise InputError(reason, hint="entities are not read") from None


def walk(root: Element) -> Iterator[tuple[Element, tuple[Element, ...]]]:
    """Yield every element below a root in document order, with its ancestors below the root."""
    stack: list[tuple[Element, tuple[Element, ...]]] = [(e, ()) for e in reversed(root)]
    while stack:
        element, path = stack.pop()
        yield element, path
        stack.extend((child, (*path, element)) for child in reversed(element))


def parse_whole_attribute(element: Element, key: str, most: int, where: str) -> int:
    """Return a whole number from 0 to ``most`` in an attribute. Raises InputError."""
    text = element.get(key, "")
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= most:
        problem = f'<{element.tag} {key}="{text[:40]}"> is not a whole number from 0 to {most}'
        raise InputError(problem, where=where)
    return number
