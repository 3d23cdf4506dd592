"""Systems by name in the catalogue, from text, or from a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from hierarchies.errors import InputError, suggest_nearest
from hierarchies.files.named_texts import text_of
from hierarchies.files.reading import MOST_CHARACTERS, read
from hierarchies.parts import spell_shape, turn_slice
from hierarchies.system import System

_SHAPED = re.compile(r"(?P<name>.+):(?P<shape>-?[0-9]{1,18}(x[0-9]{1,18})*)", re.DOTALL)
_A_FILE = "A file is named with its .toml or a path"


@cache
def catalogue() -> tuple[str, ...]:
    """Return the names of the known machines, sorted."""
    return toml_names(_folder())


def toml_names(folder: Traversable) -> tuple[str, ...]:
    """Return the names of the TOML files in a folder of a package, sorted."""
    files = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name[: -len(".toml")] for name in files if name.endswith(".toml")))


def load(spec: str) -> System:
    """Load a machine of the catalogue by name, or from a TOML file.

    ``name:N`` and ``path.toml:N`` set the number of children of the outermost level, ``name:AxBxC``
    those of every level. Raises InputError for an unknown machine or file, for a shape that the
    machine cannot have, and for errors in the file.
    """
    text = file_text(spec)
    return load_known(spec) if text is None else parse_description(spec, text)


def load_known(spec: str, otherwise: str = "") -> System:
    """Load a machine of the catalogue by name, as ``load``, but read no files of the caller.

    Raises InputError for a machine that is not in the catalogue; ``otherwise`` completes the hint
    with other ways to specify a machine.
    """
    name, shape = _split(spec)
    if name not in catalogue():
        raise _unknown_machine_error(name, otherwise)
    text = _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return read(text, where=f"{name}.toml", shape=shape)


def spell_machine(name: str, counts: Sequence[int]) -> str:
    """Return the argument of ``load`` for a machine with these counts, outermost level first.

    The outermost count suffices unless the inner counts differ from a known machine's.

    >>> spell_machine("dgx-h100", (4, 8)), spell_machine("gb200-nvl72", (1, 64))
    ('dgx-h100:4', 'gb200-nvl72:1x64')
    """
    whole = load_known(name) if name in catalogue() else None
    if whole is None or whole.hierarchy.cardinalities[1:] == tuple(counts[1:]):
        return f"{name}:{counts[0]}"
    return f"{name}:{'x'.join(map(str, turn_slice(whole, counts)))}"


def parse_description(name: str, text: str) -> System:
    """Return the system that a text describes; its ``name`` may end in a shape as in ``load``.

    Raises InputError for errors in the text, under that name.
    """
    where, shape = _split(name)
    return read(text, where=where, shape=shape)


def file_text(spec: str) -> str | None:
    """Return the text of the file that ``path`` or ``path:N`` names; None for a known machine.

    Raises InputError if it names neither, and if the file cannot be read as text.
    """
    name, _ = _split(spec)
    if name in catalogue():
        return None
    if not is_path(name):
        raise _unknown_machine_error(name, _A_FILE)
    return text_of(name, MOST_CHARACTERS + 1)


def _split(spec: str) -> tuple[str, tuple[int, ...]]:
    """Return the name, and the shape after the colon: one count, one for each level, or none."""
    match = _SHAPED.fullmatch(spec)
    if match is None:
        return spec, ()
    shape = tuple(map(int, match["shape"].split("x")))
    if min(shape) < 1:
        raise InputError(f"the system {spec!r} would be empty", hint="give 1 or more after ':'")
    return match["name"], shape


def _unknown_machine_error(name: str, otherwise: str) -> InputError:
    machine, colon, rest = name.partition(":")
    if colon and machine in catalogue():
        shape = spell_shape(load_known(machine))
        hint = f"after ':' stands a count for the outermost level, or for each: {machine}:{shape}"
        return InputError(f"{rest!r} in {name!r} is no shape", hint=hint)
    hint = f"{suggest_nearest(name, catalogue())} {otherwise}".strip()
    return InputError(f"no system {name!r} in the catalogue", hint=hint)


def is_path(name: str) -> bool:
    """Whether a name looks like the path of a file, or is one."""
    try:
        return name.endswith(".toml") or "/" in name or "\\" in name or Path(name).is_file()
    except (OSError, ValueError):
        return False


def _folder() -> Traversable:
    return resources.files("hierarchies").joinpath("catalogue")
