"""The programs of a whole job as one Python package, with a module for each collective.

All are on one placement, so one mesh serves them all. Process groups and communicators are created
for all of them at once, in the same order on every rank: otherwise ranks that call collectives in
different orders, such as the stages of a pipeline, could deadlock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hierarchies import InputError
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.targets import TARGETS, emit, target_of
from synth.collective.emit.text import render_template, request_words


@dataclass(frozen=True)
class PackageEntry:
    """One collective of a job, by its name there, and its source."""

    name: str
    source: EmitSource


def emit_all(target: str, entries: Sequence[PackageEntry]) -> Files:
    """Returns the files of a target for all collectives of a job.

    Targets of Python modules give a package; others a file each; targets that only place ranks
    write the same as for one entry. Raises InputError and CannotExpressError as ``emit`` does,
    with the name of the entry, and InputError for targets with several files an entry.
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
            able = ", ".join(name for name, other in TARGETS.items() if other.module)
            raise InputError(
                f"target {target} is several files for each entry",
                where="--entry",
                hint=f"name one entry; these write a whole plan: {able}",
            )
        [(name, text)] = found.items()
        files[f"{module}.{name.rpartition('.')[2]}"] = text
    if row.module:
        files["__init__.py"] = _index(row.module, entries, modules)
    return files


def _names(names: Sequence[str]) -> list[str]:
    """Returns distinct module names: letters, digits and underscores of the entries' names."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_") or "entry"
        plain = f"entry_{plain}" if plain[0].isdigit() else plain
        # Different names may become the same identifier.
        while plain in found:
            plain += "_"
        found.append(plain)
    return found


def _index(runtime: str, entries: Sequence[PackageEntry], modules: Sequence[str]) -> str:
    """Returns the package's ``__init__.py``, which lists its modules and prepares them all."""
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
