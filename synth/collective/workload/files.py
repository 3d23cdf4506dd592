"""Job files: reads a job from TOML, with line numbers in errors, and writes it back."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

from grammar import Goal
from hierarchies import InputError, suggest_nearest
from hierarchies.files.loading import is_path, toml_names
from hierarchies.files.named_texts import text_of
from hierarchies.files.toml_lines import Path as Keys
from hierarchies.files.toml_lines import lines_of
from hierarchies.files.values import quote, spell_pairs
from synth.collective.workload.job import (
    Entry,
    JobAxis,
    NamedNumber,
    Requirement,
    SourcePlaces,
    UnpricedTraffic,
    Workload,
    amounts_of,
)
from synth.collective.workload.quantities import Amount, Number, Rule, parse_amount, parse_rule

ANY = "any"
MOST_CHARACTERS = 2**18
MOST_DOTS = 100
_MOST_READ = 2**24
_SIZES = re.compile(r"[0-9]{1,10}( *\| *[0-9]{1,10})*")
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AT_LINE = re.compile(r" \(at line (?P<line>[0-9]+), column [0-9]+\)$")
_AT_END = " (at end of document)"
_JOB = ("name", "title", "source", "axes", "numbers", "requires", "collective", "unpriced")
_ENTRY = ("name", "request", "over", "bytes", "times", "hidden")
_UNPRICED = ("name", "over", "bytes", "times", "why")
_OPTIONAL = ("title", "source", "requires", "numbers", "unpriced", "times", "hidden")
T = TypeVar("T")


def shipped_jobs() -> tuple[str, ...]:
    """The names of the jobs that ship with the package, sorted."""
    return toml_names(_folder())


def load_job(spec: str) -> Workload:
    """Loads a shipped job by name, or the job of a TOML file by path.

    Raises InputError for a job or file that does not exist and, with the line, for any mistake in
    the file.
    """
    text = job_file_text(spec)
    return load_shipped_job(spec) if text is None else read_job(text, where=spec)


def load_shipped_job(name: str, otherwise: str = "") -> Workload:
    """Loads a shipped job. Raises InputError for other names, with ``otherwise`` in the hint."""
    if name not in shipped_jobs():
        hint = f"{suggest_nearest(name, shipped_jobs())} {otherwise}".strip()
        raise InputError(f"no job {name!r}", hint=hint)
    return read_job(job_text(name), where=f"{name}.toml")


def job_file_text(spec: str) -> str | None:
    """The text of the file that a path names; None for a shipped job.

    Raises InputError if ``spec`` is neither, or the file cannot be read as text.
    """
    if spec in shipped_jobs():
        return None
    if not is_path(spec):
        hint = f"{suggest_nearest(spec, shipped_jobs())} A file is named with its .toml or a path"
        raise InputError(f"no job {spec!r}", hint=hint)
    return text_of(spec, _MOST_READ)


def job_text(name: str) -> str:
    """The text of a shipped job's file, to read or to start from."""
    return _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8")


def _folder() -> Traversable:
    return resources.files("synth.collective.workload").joinpath("jobs")


def read_job(text: str, *, where: str = "job") -> Workload:
    """The job of a TOML text. Raises InputError with ``where`` and the line."""
    if len(text) > MOST_CHARACTERS:
        hint = f"{MOST_CHARACTERS} at most"
        raise InputError(
            f"{len(text)} characters are too many for a job", where=f"{where}, line 1", hint=hint
        )
    return _job(_Table(_parse_toml(text, where), (), _Text(where, lines_of(text))))


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:  # tomllib takes quadratic time for a.b.c...
            problem = f"{line.count('.')} dots"
            raise InputError(problem, where=f"{where}, line {number}", hint=f"{MOST_DOTS} at most")
    try:
        return tomllib.loads(text)
    except RecursionError:
        problem = "not a TOML file: brackets in brackets in brackets"
        raise InputError(problem, where=f"{where}, line 1") from None
    except ValueError as error:
        message = str(error)
        match = _AT_LINE.search(message)
        last = int(match["line"]) if match else 1 + text.rstrip("\n").count("\n")
        message = _AT_LINE.sub("", message.removesuffix(_AT_END))
        problem = f"not a TOML file: {message}"
        raise InputError(problem, where=f"{where}, line {last}") from None


@dataclass(frozen=True)
class _Text:
    """The text a job is read from: its name in errors, and the line of each key."""

    where: str
    lines: Mapping[Keys, int]

    def place(self, path: Keys) -> str:
        """The line of a key, or of the nearest enclosing table that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.where}, line {self.lines.get(path, 1)}"


@dataclass(frozen=True)
class _Table:
    """One table of the text. A wrong key raises InputError with its line."""

    raw: dict[str, Any]
    path: Keys
    text: _Text

    def place(self, key: str) -> str:
        return self.text.place((*self.path, key))

    @property
    def places(self) -> SourcePlaces:
        return SourcePlaces(self.text.place(self.path), {key: self.place(key) for key in self.raw})

    def check(self, known: Sequence[str]) -> None:
        """Raises InputError for unknown keys, then for missing keys that are required."""
        for key in self.raw:
            if key not in known:
                problem = f"unknown key {key!r}"
                raise InputError(problem, where=self.place(key), hint=suggest_nearest(key, known))
        for key in known:
            if key not in self.raw and key not in _OPTIONAL:
                missing = "[axes]" if key == "axes" else f"{key} = ..."
                raise InputError(f"no {key!r}", where=self.place(key), hint=f"add {missing}")

    def read(self, key: str, reader: Callable[[Any], T], default: Any = None) -> T:
        """The value of a key, converted by ``reader``. Raises InputError with the key's line."""
        try:
            return reader(self.raw.get(key, default))
        except InputError as error:
            problem = f"{key}: {error.problem}"
            raise InputError(problem, where=self.place(key), hint=error.hint) from None

    def inside(self, key: str) -> _Table:
        return _Table(self.read(key, _table, {}), (*self.path, key), self.text)

    def tables(self, key: str) -> Iterator[_Table]:
        for position, raw in enumerate(self.read(key, _tables, [])):
            yield _Table(raw, (*self.path, key, position), self.text)


def _refusal(value: object, wanted: str) -> InputError:
    return InputError(f"{value!r} cannot be used", hint=wanted)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refusal(value, "a table, one key a line under [its name]")
    return value


def _tables(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _refusal(value, "tables, each under [[its name]]")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _refusal(value, "text in quotes")
    return value


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _refusal(value, 'a list of texts, as in ["data", "tensor"]')
    return tuple(value)


def _amount(value: Any) -> Amount:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _refusal(value, 'a number, or text as in "14 GB / tensor"')
    return parse_amount(value)


def _rule(value: Any) -> Rule:
    return parse_rule(_string(value))


def _hidden(value: Any) -> Amount:
    return parse_amount(int(value)) if isinstance(value, bool) else _amount(value)


def _goal(value: Any) -> Goal:
    try:
        return Goal(value)
    except ValueError:
        known = [goal.value for goal in Goal]
        raise InputError(f"no request {value!r}", hint=suggest_nearest(str(value), known)) from None


def parse_sizes(value: object) -> tuple[int, ...] | None:
    """The sizes of an axis: ``8``, ``"1|2|4|8"``, or ``None`` for ``"any"``. Raises InputError."""
    if value == ANY:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, str) and _SIZES.fullmatch(value.strip()):
        return tuple(int(size) for size in value.split("|"))
    raise _refusal(value, 'a size, several as in "1|2|4|8", or "any"')


def _job(table: _Table) -> Workload:
    if not table.raw.get("collective"):
        hint = "add at least one [[collective]]"
        raise InputError("the job is empty", where=table.place("collective"), hint=hint)
    table.check(_JOB)
    axes, numbers = table.inside("axes"), table.inside("numbers")
    requires = table.inside("requires")
    return Workload(
        name=table.read("name", _string),
        title=table.read("title", _string, ""),
        sources=table.read("source", _strings, []),
        axes=tuple(JobAxis(key, axes.read(key, parse_sizes), axes.place(key)) for key in axes.raw),
        numbers=tuple(
            NamedNumber(key, numbers.read(key, _amount), numbers.place(key)) for key in numbers.raw
        ),
        requires=tuple(
            Requirement(key, requires.read(key, _rule), requires.place(key)) for key in requires.raw
        ),
        entries=tuple(_entry(entry) for entry in table.tables("collective")),
        unpriced=tuple(_unpriced(entry) for entry in table.tables("unpriced")),
        places=table.places,
    )


def _entry(table: _Table) -> Entry:
    table.check(_ENTRY)
    return Entry(
        name=table.read("name", _string),
        goal=table.read("request", _goal),
        over=table.read("over", _strings),
        payload=table.read("bytes", _amount),
        times=table.read("times", _amount, 1),
        hidden=table.read("hidden", _hidden, 0),
        places=table.places,
    )


def _unpriced(table: _Table) -> UnpricedTraffic:
    table.check(_UNPRICED)
    return UnpricedTraffic(
        name=table.read("name", _string),
        over=table.read("over", _strings),
        payload=table.read("bytes", _amount),
        times=table.read("times", _amount, 1),
        why=table.read("why", _string),
        places=table.places,
    )


def write(job: Workload) -> str:
    """The job as a TOML text: ``read_job(write(job)) == job``."""
    tables: tuple[tuple[str, dict[str, Any]], ...] = (
        ("axes", {axis.name: _plain_sizes(axis) for axis in job.axes}),
        ("numbers", {number.name: _plain_amount(number.amount) for number in job.numbers}),
        ("requires", {_key(rule.name): str(rule.rule) for rule in job.requires}),
    )
    blocks = [list(_head(job))]
    blocks += [[f"[{name}]", *spell_pairs(table)] for name, table in tables if table]
    for entry in job.communications:
        name = "collective" if isinstance(entry, Entry) else "unpriced"
        blocks.append([f"[[{name}]]", *spell_pairs(_plain_entry(entry))])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(job: Workload) -> Iterator[str]:
    yield from spell_pairs({"name": job.name, "title": job.title or None})
    if job.sources:
        yield "source = ["
        yield from (f"    {quote(source)}," for source in job.sources)
        yield "]"


def _plain_sizes(axis: JobAxis) -> int | str:
    return axis.sizes[0] if axis.sizes and not axis.sizes[1:] else axis.text


def _plain_entry(entry: Entry | UnpricedTraffic) -> dict[str, Any]:
    return {
        "name": entry.name,
        "request": entry.goal.value if isinstance(entry, Entry) else None,
        "over": entry.over,
        **{key: _plain_amount(amount) for key, amount in amounts_of(entry)},
        "why": entry.why if isinstance(entry, UnpricedTraffic) else None,
    }


def _plain_amount(amount: Amount) -> int | float | str:
    """A plain number if TOML prints it with the same digits, else text."""
    text = str(amount)
    if not isinstance(amount, Number) or amount.unit:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if repr(float(text)) == text else text


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quote(name)
