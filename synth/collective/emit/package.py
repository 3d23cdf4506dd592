"""The programs of a whole job as one Python package: a module for each of its collectives.

All lie on one placement, so one mesh serves them all. Process groups and communicators are made for
all of them at once, on every rank in the same order: ranks that call collectives in different
orders, as the stages of a pipeline do, could otherwise wait for each other for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hierarchies import InputError
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.targets import emit, target_of
from synth.collective.emit.text import render_template, request_words

_MODULES = {"torch": "torch", "jax": "jax", "jax-flat": "jax", "mpi": "mpi"}
"""Targets whose files are Python modules, each with the runtime that it is for."""


@dataclass(frozen=True)
class PackageEntry:
    """One collective of a job, by its name there, and what is handed out for it."""

    name: str
    source: EmitSource


def emit_all(target: str, entries: Sequence[PackageEntry]) -> Files:
    """The files of a target for all collectives of a job.

    A package for targets of Python modules; one file each for others; for targets that only say
    where ranks run, what they write for any. Raises InputError and CannotExpressError as ``emit``
    does, with the name of the entry, and InputError for targets of several files an entry.
    """
    row = target_of(target)
    if row.places:
        return emit(target, entries[0].source)
    modules = _names([entry.name for entry in entries])
    files: Files = {}
    for entry, module in zip(entries, modules, strict=True):
        try:
            found = emit(target, entry.source)
        except InputError as error:
            place = f"entry {entry.name!r}" + (f", {error.where}" if error.where else "")
            raise type(error)(error.problem, where=place, hint=error.hint) from None
        if len(found) > 1:
            able = ", ".join(_MODULES)
            raise InputError(
                f"target {target} is several files for each entry",
                where="--entry",
                hint=f"name one entry; these write a whole plan: {able}",
            )
        [(name, text)] = found.items()
        files[f"{module}.{name.rpartition('.')[2]}"] = text
    if target in _MODULES:
        files["__init__.py"] = _index(_MODULES[target], entries, modules)
    return files


def _names(names: Sequence[str]) -> list[str]:
    """Names of modules, all different: letters, digits and underscores of the entries' names."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_") or "entry"
        plain = f"entry_{plain}" if plain[0].isdigit() else plain
        while plain in found:
            plain += "_"
        found.append(plain)
    return found


def _index(runtime: str, entries: Sequence[PackageEntry], modules: Sequence[str]) -> str:
    """The package's own file: its modules, and what makes them all ready."""
    first = entries[0].source
    return render_template(
        f"package_{runtime}.py.jinja",
        made_by=first.options.made_by,
        system=first.system,
        placement=str(first.placement),
        world=first.schedule.devices,
        entries=[
            {
                "name": entry.name,
                "module": module,
                "over": ", ".join(entry.source.schedule.reduction.over),
                "milliseconds": entry.source.seconds * 1e3,
                "payload_bytes": entry.source.payload_bytes,
                **request_words(entry.source.schedule),
            }
            for entry, module in zip(entries, modules, strict=True)
        ],
    )
