"""Reads what ``nvidia-smi topo -m`` prints, as it comes or as it was pasted somewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hierarchies.errors import InputError
from hierarchies.importers.nodes.interfaces import Interface, chosen, virtual
from hierarchies.importers.nodes.islands import members, parts_of
from hierarchies.importers.nodes.picture import MOST_GPUS, Grouping, Nic, Picture, check_length

SOURCE = "nvidia-smi topo -m"
MOST_LINKS = 18
MOST_COLUMNS = 2 * MOST_GPUS
_GPU = re.compile(r"GPU[0-9]+")
_LINKS = re.compile(r"NV([0-9]{1,3})")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NEAR = ("PIX", "PXB")
_INSIDE_SOCKET = (*_NEAR, "PHB", "NODE")
_REDUCES = {18: True, 12: False, 6: False}
"""Whether switches add up, by the links of a GPU: Hopper and Blackwell; A100; V100 in a DGX-2.

Eight links are an H800's, whose switches do, or an A800's, whose do not.
"""
_CELLS = ("X", "N/A", "C2C", *_INSIDE_SOCKET, "SYS", "SOC")
_NIC_NAME = re.compile(r"\s*(NIC[0-9]+)\s*:\s*(\S+)\s*")


@dataclass(frozen=True)
class _Matrix:
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: Mapping[str, tuple[str, ...]]


def read(text: str) -> Picture:
    """The node whose matrix is in a text. Raises InputError for what is none, or far too long."""
    check_length(text, SOURCE)
    return _picture(_matrix(_ESCAPES.sub("", text).splitlines()), text)


def _matrix(lines: list[str]) -> _Matrix:
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        hint = "it starts with a row of GPU0, GPU1, ..."
        raise InputError(f"no matrix of {SOURCE} was found", hint=hint)
    columns = _columns(lines[start])
    gpus = tuple(name for name in columns if _GPU.fullmatch(name))
    nics = tuple(name for name in columns if not _GPU.fullmatch(name))
    if len(set(columns)) < len(columns) or len(columns) > MOST_COLUMNS:
        raise InputError("columns are named twice, or there are too many")
    if columns[: len(gpus)] != gpus:
        raise InputError("GPUs and NICs are mixed in the first row", hint="GPUs come first")
    cells = _rows(lines[start + 1 :], columns)
    missing = [gpu for gpu in gpus if gpu not in cells]
    if missing:
        raise InputError(f"no row for {missing[0]}", hint="the text is cut off: copy all rows")
    return _Matrix(gpus, nics, cells)


def _is_header(line: str) -> bool:
    words = line.split()
    return bool(words) and words[0] == "GPU0" and not (len(words) > 1 and _is_cell(words[1]))


def _columns(line: str) -> tuple[str, ...]:
    """The names of GPUs and NICs in the first row, without the columns of affinities."""
    names = []
    for word in line.split():
        if word in ("CPU", "NUMA"):
            break
        names.append(word)
    return tuple(names)


def _rows(lines: list[str], columns: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, *cells = line.split() or [""]
        if name not in columns:
            continue
        found = tuple(cells[: len(columns)])
        wrong = [cell for cell in found if not _is_cell(cell)]
        if len(found) < len(columns) or wrong:
            what = f"{wrong[0]!r} is none" if wrong else f"only {len(found)}"
            raise InputError(
                f"row {name}: {len(columns)} connections are wanted, {what}",
                hint="the text is cut off or changed: copy it again",
            )
        if name in rows:
            raise InputError(f"two rows for {name}", hint="give the matrix of one node")
        if found[columns.index(name)] != "X":
            raise InputError(f"row {name}: no X where it meets itself")
        rows[name] = found
    return rows


def _is_cell(cell: str) -> bool:
    return cell in _CELLS or bool(_LINKS.fullmatch(cell))


def _picture(matrix: _Matrix, text: str) -> Picture:
    links = _links(matrix)
    switched, notes = _switch(matrix, links)
    every = _nics(matrix, text)
    found = chosen([Interface(nic.name) for nic in every])
    nics = tuple(every[place] for place in found.kept)
    notes = (*notes, *found.notes)
    if any(name not in matrix.cells for name in matrix.nics):
        notes = (*notes, "Rows of NICs are missing: what the rows of the GPUs say is used.")
    if any("C2C" in row for row in matrix.cells.values()):
        notes = (*notes, "Connections by C2C are left out.")
    counted = {"gpus": len(matrix.gpus), "nics": len(nics), **virtual(len(every) - len(nics))}
    total = sum(links.values()) if switched is None else switched * len(matrix.gpus)
    return Picture(
        SOURCE,
        matrix.gpus,
        {} if switched is not None else links,
        switched,
        groups=_groups(matrix, found.kept),
        nics=nics,
        reduces=None if switched is None else _REDUCES.get(switched),
        notes=notes,
        counted={**counted, "nvlinks": total},
    )


def _links(matrix: _Matrix) -> dict[tuple[int, int], int]:
    """How many NVLinks join two GPUs. Raises InputError where the two rows differ."""
    links = {}
    for one, name in enumerate(matrix.gpus):
        for other in range(one):
            here = matrix.cells[name][other]
            there = matrix.cells[matrix.gpus[other]][one]
            if here != there:
                raise InputError(
                    f"{name} to {matrix.gpus[other]} is {here}, the other way it is {there}",
                    hint="the matrix is damaged: copy it again",
                )
            found = _LINKS.fullmatch(here)
            if found and int(found[1]):
                links[other, one] = int(found[1])
    return links


def _switch(
    matrix: _Matrix, links: Mapping[tuple[int, int], int]
) -> tuple[int | None, tuple[str, ...]]:
    """How many links lead from a GPU into NVSwitches, which the matrix shows as links to all."""
    gpus, counts = len(matrix.gpus), set(links.values())
    if len(counts) != 1 or len(links) != gpus * (gpus - 1) // 2:
        return None, ()
    each = next(iter(counts))
    if each * (gpus - 1) > MOST_LINKS:
        return each, ()
    if gpus == 2:
        return None, ()
    note = (
        f"NV{each} between all {gpus} GPUs is taken as {each * (gpus - 1)} links of each, no more "
        f"than a GPU has; behind an NVSwitch it would be {each} that lead to all."
    )
    return None, (note,)


def _nics(matrix: _Matrix, text: str) -> tuple[Nic, ...]:
    lines = (_NIC_NAME.fullmatch(line) for line in text.splitlines())
    legend = {found[1]: found[2] for found in lines if found}
    nics = []
    for column, name in enumerate(matrix.nics, start=len(matrix.gpus)):
        near = [i for i, gpu in enumerate(matrix.gpus) if matrix.cells[gpu][column] in _NEAR]
        nics.append(Nic(legend.get(name, name), near=frozenset(near)))
    return tuple(nics)


def _groups(matrix: _Matrix, nics: Sequence[int]) -> tuple[Grouping, ...]:
    """Sockets and PCIe switches, by the GPUs; ``nics`` are the columns of NICs that count."""
    groups = []
    for name, cells in (("socket", _INSIDE_SOCKET), ("bridge", _NEAR)):
        parts = _parts(matrix, cells)
        inside = all(
            any(_meets(matrix, gpu, nic, cells) for gpu in part for nic in nics)
            for part in members(parts)
        )
        groups.append(Grouping(name, parts, nics_inside=inside))
    return tuple(groups)


def _meets(matrix: _Matrix, gpu: int, nic: int, cells: tuple[str, ...]) -> bool:
    return matrix.cells[matrix.gpus[gpu]][len(matrix.gpus) + nic] in cells


def _parts(matrix: _Matrix, cells: tuple[str, ...]) -> tuple[int, ...]:
    near = {
        (one, other): 1
        for other, name in enumerate(matrix.gpus)
        for one in range(other)
        if matrix.cells[name][one] in cells
    }
    return parts_of(len(matrix.gpus), near)
