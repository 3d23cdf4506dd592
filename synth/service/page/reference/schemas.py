"""Schemas of the OpenAPI document as rows that people read: name, type, default, meaning."""

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

    ``kind``: its type with its bounds and its unit; ``usual``: its default as JSON, "required", or
    empty where it is left out.
    """

    name: str
    kind: Markup
    usual: str
    says: Markup


@dataclass(frozen=True)
class SchemaType:
    """An object with a name, or one of some words; ``asked``: it is part of questions."""

    name: str
    anchor: str
    says: Markup
    rows: Sequence[SchemaRow]
    words: Sequence[str]
    asked: bool


@dataclass(frozen=True)
class Schemas:
    """The schemas of a document by their names."""

    named: Mapping[str, Json]

    def rows(self, schema: Json, most: Mapping[str, str] = MappingProxyType({})) -> list[SchemaRow]:
        """The keys of an object, required ones first; ``most``: what a server limits beside."""
        required = schema.get("required", ())
        found = [
            SchemaRow(
                name,
                self._with_unit(name, one),
                "required" if name in required else _default_text(one),
                render_sentences(
                    one.get("description", ""), _size_notation(name, one), most.get(name, "")
                ),
            )
            for name, one in schema.get("properties", {}).items()
        ]
        return sorted(found, key=lambda row: row.usual != "required")

    def parameter(self, told: Json) -> SchemaRow:
        """A parameter of an address or header."""
        usual = "required" if told["required"] else _default_text(told["schema"])
        name, schema = told["name"], told["schema"]
        return SchemaRow(
            name,
            self._with_unit(name, schema),
            usual,
            render_sentences(told.get("description", "")),
        )

    def types(self, questions: Collection[str]) -> Iterator[SchemaType]:
        """All of them by their names, but questions, which are told with their routes."""
        asked = self._within(questions)
        for name, one in sorted(self.named.items(), key=lambda found: short_name(found[0]).lower()):
            if name not in questions:
                told, words = render_sentences(one.get("description", "")), one.get("enum", ())
                yield SchemaType(
                    short_name(name), anchor(name), told, self.rows(one), words, name in asked
                )

    def _within(self, names: Collection[str]) -> Collection[str]:
        """The names of all schemas that some refer to, and those of what these refer to."""
        found, new = set[str](), set(names)
        while new:
            found |= new
            texts = (json.dumps(self.named[name]) for name in new)
            new = {name for text in texts for name in _REFERENCE.findall(text)} - found
        return found

    def kind(self, schema: Json) -> Markup:
        """A type in words, with its bounds; an object that has a name is a link to it."""
        match schema:
            case {"$ref": ref}:
                name = ref.rpartition("/")[2]
                words = self.named[name].get("enum")
                link = Markup('<a href="#{}">{}</a>').format(anchor(name), short_name(name))
                return _alternatives(words) if words else link
            case {"anyOf": ways} | {"oneOf": ways}:
                several = [one for one in ways if one != {"type": "null"}]
                kinds = _OR.join(dict.fromkeys(map(self.kind, several)))
                return kinds + (", or null" if several != ways else "")
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
        inner = schema.get("additionalProperties")
        if isinstance(inner, Mapping):
            bounds = _bounds(schema, "Properties")
            return Markup("object{} of {} by name").format(bounds, self.kind(inner))
        return Markup("object")

    def _with_unit(self, name: str, schema: Json) -> Markup:
        kind = self.kind(schema)
        numbers = "number" in kind or "integer" in kind
        unit = next((unit for end, unit in _UNITS if name.endswith(end) and numbers), "")
        return Markup("{}, {}").format(kind, unit) if unit else kind


def render_sentences(*texts: str) -> Markup:
    """Sentences, with what stands between backquotes as code."""
    found, at = Markup(""), 0
    text = " ".join(" ".join(filter(None, texts)).split())
    for one in _CODE.finditer(text):
        found += text[at : one.start()] + Markup("<code>{}</code>").format(one[1])
        at = one.end()
    return found + text[at:]


def short_name(name: str) -> str:
    """A type's name without the modules that tell it from another of the same name."""
    return name.rpartition("__")[2]


def anchor(name: str) -> str:
    """Where a type stands on the page."""
    return f"type-{name}"


def _size_notation(name: str, schema: Json) -> str:
    """How a size is written as a text."""
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
    least, most = (f"min{of}", f"max{of}") if of else ("minimum", "maximum")
    told = [
        f"{sign} {schema[key]:g}" if isinstance(schema[key], float) else f"{sign} {schema[key]}"
        for key, sign in (
            ("exclusiveMinimum", ">"),
            (least, "≥"),
            ("exclusiveMaximum", "<"),
            (most, "≤"),
        )
        if key in schema and (of, schema[key]) != ("Length", LONGEST_NAME)
    ]
    if least in schema and schema[least] == schema.get(most):
        return f" = {schema[least]}"
    return f" {' '.join(told)}" if told else ""
