"""Schemas of the OpenAPI document as readable rows: name, type, default, meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from synth.ask.questions.named_texts import LONGEST_NAME

Json = Mapping[str, Any]
_CODE = re.compile(r"``?([^`]+)``?")
_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
_UNITS = (
    ("bandwidth_GB_per_s", "GB/s"),
    ("_GB", "GB"),
    ("_us", "microseconds"),
    ("bytes", "bytes"),
    ("seconds", "seconds"),
)
_RANGE_NOTE = '; a range: `"1KiB..4GiB"`'
_AND, _OR = Markup(", "), Markup(" or ")


@dataclass(frozen=True)
class SchemaRow:
    """A key of an object, or a parameter.

    ``kind`` is its type with bounds and unit; ``usual`` its default as JSON, "required", or empty
    if it has no default.
    """

    name: str
    kind: Markup
    usual: str
    says: Markup


@dataclass(frozen=True)
class SchemaType:
    """A named object or enumeration; ``asked``: it is part of questions."""

    name: str
    anchor: str
    says: Markup
    rows: Sequence[SchemaRow]
    words: Sequence[str]
    asked: bool


@dataclass(frozen=True)
class Schemas:
    """The schemas of a document by name."""

    named: Mapping[str, Json]

    def rows(self, schema: Json, most: Mapping[str, str] = MappingProxyType({})) -> list[SchemaRow]:
        """Return the keys of an object, required ones first; ``most``: limits of a server."""
        required = schema.get("required", ())
        rows = [
            SchemaRow(
                name,
                self._with_unit(name, key_schema),
                "required" if name in required else _default_text(key_schema),
                render_sentences(
                    key_schema.get("description", ""),
                    _size_notation(name, key_schema),
                    most.get(name, ""),
                ),
            )
            for name, key_schema in schema.get("properties", {}).items()
        ]
        return sorted(rows, key=lambda row: row.usual != "required")

    def parameter(self, parameter: Json) -> SchemaRow:
        """Return the row of a parameter in the URL or a header."""
        usual = "required" if parameter["required"] else _default_text(parameter["schema"])
        name, schema = parameter["name"], parameter["schema"]
        return SchemaRow(
            name,
            self._with_unit(name, schema),
            usual,
            render_sentences(parameter.get("description", "")),
        )

    def types(self, questions: Collection[str]) -> Iterator[SchemaType]:
        """Yield all types by name, except questions, which are shown with their routes."""
        within_questions = self._within(questions)
        for name in sorted(self.named, key=lambda name: short_name(name).lower()):
            if name not in questions:
                schema = self.named[name]
                text, words = (
                    render_sentences(schema.get("description", "")),
                    schema.get("enum", ()),
                )
                yield SchemaType(
                    short_name(name),
                    anchor(name),
                    text,
                    self.rows(schema),
                    words,
                    name in within_questions,
                )

    def _within(self, names: Collection[str]) -> Collection[str]:
        """The given names, and those of all schemas that they refer to, directly or not."""
        names_within, new = set[str](), set(names)
        while new:
            names_within |= new
            texts = (json.dumps(self.named[name]) for name in new)
            new = {name for text in texts for name in _REFERENCE.findall(text)} - names_within
        return names_within

    def kind(self, schema: Json) -> Markup:
        """Return a type in words, with its bounds; a named object becomes a link."""
        match schema:
            case {"$ref": ref}:
                name = ref.rpartition("/")[2]
                words = self.named[name].get("enum")
                link = Markup('<a href="#{}">{}</a>').format(anchor(name), short_name(name))
                return _alternatives(words) if words else link
            case {"anyOf": ways} | {"oneOf": ways}:
                alternatives = [way for way in ways if way != {"type": "null"}]
                kinds = _OR.join(dict.fromkeys(map(self.kind, alternatives)))
                return kinds + (", or null" if alternatives != ways else "")
            case {"const": value}:
                return _code(value)
            case {"enum": values}:
                return _alternatives(values)
            case {"type": "array", "prefixItems": items}:
                return Markup("[{}]").format(_AND.join(map(self.kind, items)))
            case {"type": "array"}:
                items = self.kind(schema.get("items", {}))
                return Markup("list{} of {}").format(_bounds(schema, "Items"), items)
            case {"type": "object"}:
                return self._object(schema)
            case {"type": "string"}:
                pattern = _code(schema["pattern"]) if "pattern" in schema else Markup("")
                matching = Markup(" like {}").format(pattern) if pattern else pattern
                word = {"date": "date", "date-time": "time"}.get(schema.get("format", ""), "string")
                return Markup("{}{}{}").format(word, _bounds(schema, "Length"), matching)
            case {"type": word}:
                return Markup("{}{}").format(word, _bounds(schema))
        return Markup("anything")

    def _object(self, schema: Json) -> Markup:
        if keys := schema.get("properties"):
            parts = [Markup("{} {}").format(_code(name), self.kind(keys[name])) for name in keys]
            return Markup("object of {}").format(_AND.join(parts))
        value_schema = schema.get("additionalProperties")
        if isinstance(value_schema, Mapping):
            bounds = _bounds(schema, "Properties")
            return Markup("object{} of {} by name").format(bounds, self.kind(value_schema))
        return Markup("object")

    def _with_unit(self, name: str, schema: Json) -> Markup:
        kind = self.kind(schema)
        numbers = "number" in kind or "integer" in kind
        unit = next((unit for end, unit in _UNITS if name.endswith(end) and numbers), "")
        return Markup("{}, {}").format(kind, unit) if unit else kind


def render_sentences(*texts: str) -> Markup:
    """Render sentences, with text between backquotes as code."""
    rendered, at = Markup(""), 0
    text = " ".join(" ".join(filter(None, texts)).split())
    for match in _CODE.finditer(text):
        rendered += text[at : match.start()] + Markup("<code>{}</code>").format(match[1])
        at = match.end()
    return rendered + text[at:]


def short_name(name: str) -> str:
    """Return a type's name without the module prefix that disambiguates it."""
    return name.rpartition("__")[2]


def anchor(name: str) -> str:
    """Return the anchor of a type on the page."""
    return f"type-{name}"


def _size_notation(name: str, schema: Json) -> str:
    """The text notation of a size, for keys that accept one."""
    ways = schema.get("anyOf", ())
    if name != "bytes" or {"type": "string"} not in [{"type": way.get("type")} for way in ways]:
        return ""
    ranged = any("prefixItems" in way for way in ways)
    return f'As text with a unit: `"64MiB"`{_RANGE_NOTE if ranged else ""}.'


def _default_text(schema: Json) -> str:
    return json.dumps(schema["default"]) if "default" in schema else ""


def _alternatives(values: Sequence[Any]) -> Markup:
    return Markup(" | ").join(map(_code, values))


def _code(value: Any) -> Markup:
    text = value if isinstance(value, str) else json.dumps(value)
    return Markup("<code>{}</code>").format(text)


def _bounds(schema: Json, of: str = "") -> str:
    """Bounds of a number, of the length of a string or list, or of the number of keys."""
    lower, upper = (f"min{of}", f"max{of}") if of else ("minimum", "maximum")
    bounds = [
        f"{sign} {schema[key]:g}" if isinstance(schema[key], float) else f"{sign} {schema[key]}"
        for key, sign in (
            ("exclusiveMinimum", ">"),
            (lower, "≥"),
            ("exclusiveMaximum", "<"),
            (upper, "≤"),
        )
        if key in schema and (of, schema[key]) != ("Length", LONGEST_NAME)
    ]
    if lower in schema and schema[lower] == schema.get(upper):
        return f" = {schema[lower]}"
    return f" {' '.join(bounds)}" if bounds else ""
