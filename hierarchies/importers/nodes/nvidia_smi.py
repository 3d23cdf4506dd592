"""Reads the output of ``nvidia-smi topo -m``, original or pasted.

Tables next to the matrix may contradict it. The legend lists the kinds of connections that the
matrix may show: ``topo -m`` has NVLinks (``NV#``), ``topo -mp`` only paths over PCIe, so a missing
NVLink there is not evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hierarchies.errors import InputError
from hierarchies.importers.claims import Claim, exact_claim
from hierarchies.importers.nodes.interfaces import Interface, choose_nics
from hierarchies.importers.nodes.islands import members_of_parts, parts_of
from hierarchies.importers.nodes.picture import (
    MOST_GPUS,
    GpuGrouping,
    Nic,
    NodeLinks,
    NodePicture,
    check_length,
    count_parts,
)

NEAR = ("PIX", "PXB")
INSIDE_SOCKET = (*NEAR, "PHB", "NODE")
_FAR = ("SYS", "SOC")
_NV = "NV#"
_MEANING = re.compile(r"\s*(X|SYS|SOC|NODE|PHB|PXB|PIX|PSB|C2C|NV#)\s*=\s")
_NIC_NAME = re.compile(r"\s*(NIC[0-9]+)\s*:\s*(\S+)\s*")
_SPANS = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
_MOST_CPUS, _LONGEST_LIST = 16_384, 4_096
SOURCE = "nvidia-smi topo -m"
MOST_LINKS = 18
MOST_COLUMNS = 2 * MOST_GPUS
_GPU = re.compile(r"GPU[0-9]+")
_LINKS = re.compile(r"NV([0-9]{1,3})")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REDUCES = {18: True, 12: False, 6: False}
"""Whether switches reduce, by the links of a GPU: Hopper and Blackwell; A100; V100 in a DGX-2.

Eight links are ambiguous: the switches of an H800 reduce, those of an A800 do not.
"""
_CELLS = ("X", "N/A", "C2C", *INSIDE_SOCKET, "SYS", "SOC")
_ONLY_PCIE = (
    "The legend has no NV#: this is the text of nvidia-smi topo -mp, which shows "
    "paths over PCIe only. "
    "Whether NVLinks connect the GPUs is unknown; import the text of nvidia-smi topo -m."
)
_NO_LEGEND = (
    "No NVLink is in the matrix, and the legend is missing: if it had no NV#, this is the text of "
    "nvidia-smi topo -mp, which shows paths over PCIe only."
)


@dataclass(frozen=True)
class Matrix:
    """The connections in every row, in the order of the columns: GPUs, then NICs.

    ``cpus`` are the CPU affinities of GPUs, if printed.
    """

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: Mapping[str, tuple[str, ...]]
    cpus: Mapping[str, str]


@dataclass(frozen=True)
class Legend:
    """Kinds of connections that a legend explains, and NICs by their columns; may be empty."""

    kinds: frozenset[str]
    nics: Mapping[str, str]

    @property
    def only_pcie(self) -> bool:
        """Whether the text is of ``nvidia-smi topo -mp``, whose legend has no NVLinks."""
        return bool(self.kinds) and _NV not in self.kinds


def read(text: str) -> NodePicture:
    """Return the node whose matrix is in a text.

    Raises InputError for an invalid or far too long text.
    """
    check_length(text, SOURCE)
    lines = _ESCAPES.sub("", text).splitlines()
    starts = [number for number, line in enumerate(lines) if _is_header(line)]
    parts = [lines[a:b] for a, b in pairwise([*starts, len(lines)])] or [lines]
    matrices = [_matrix(part) for part in parts]
    best = max(range(len(parts)), key=lambda part: _has_links(matrices[part]))
    notes = _check_same(matrices, best)
    picture = _picture(matrices[best], legend_of(parts[best]))
    return replace(picture, notes=(*picture.notes, *notes))


def _has_links(matrix: Matrix) -> bool:
    return any(_LINKS.fullmatch(cell) for gpu in matrix.gpus for cell in matrix.cells[gpu])


def _check_same(matrices: Sequence[Matrix], best: int) -> tuple[str, ...]:
    """Return a note on other matrices of the same node, which may lack its NVLinks (``topo -mp``).

    Raises InputError for matrices that differ in other cells.
    """
    chosen = matrices[best]
    for number, matrix in enumerate(matrices):
        for gpu in chosen.gpus:
            here, there = chosen.cells[gpu], matrix.cells.get(gpu, ())
            for column, cell in enumerate(here[: len(chosen.gpus)]):
                other = there[column] if column < len(there) else "nothing"
                if cell != other and not (_LINKS.fullmatch(cell) and other in _CELLS[1:]):
                    raise InputError(
                        f"{gpu} to {chosen.gpus[column]} is {cell} in matrix {best + 1}, and "
                        f"{other} in matrix {number + 1}",
                        hint="give the matrix of one node",
                    )
    if len(matrices) == 1:
        return ()
    return (f"{len(matrices)} matrices of one node: number {best + 1} is used.",)


def _matrix(lines: list[str]) -> Matrix:
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        hint = "the matrix starts with a row of GPU0, GPU1, ..."
        raise InputError(f"no matrix of {SOURCE} found", hint=hint)
    columns = _columns(lines[start])
    gpus = tuple(name for name in columns if _GPU.fullmatch(name))
    nics = tuple(name for name in columns if not _GPU.fullmatch(name))
    if len(set(columns)) < len(columns) or len(columns) > MOST_COLUMNS:
        raise InputError("columns are named twice, or there are too many")
    if columns[: len(gpus)] != gpus:
        raise InputError("GPUs and NICs are mixed in the first row", hint="list GPUs first")
    cells, cpus = _rows(lines[start + 1 :], columns, "CPU Affinity" in lines[start])
    missing = [gpu for gpu in gpus if gpu not in cells]
    if missing:
        raise InputError(f"no row for {missing[0]}", hint="the text is incomplete: copy all rows")
    return Matrix(gpus, nics, cells, cpus)


def _is_header(line: str) -> bool:
    words = line.split()
    return bool(words) and words[0] == "GPU0" and not (len(words) > 1 and _is_cell(words[1]))


def _columns(line: str) -> tuple[str, ...]:
    """Return the names of GPUs and NICs in the first row, without the columns of affinities."""
    names = []
    for word in line.split():
        if word in ("CPU", "NUMA"):
            break
        names.append(word)
    return tuple(names)


def _rows(
    lines: list[str], columns: tuple[str, ...], has_cpus: bool
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return connections and CPU affinities by the names of rows, the latter if printed."""
    rows: dict[str, tuple[str, ...]] = {}
    cpus: dict[str, str] = {}
    for line in lines:
        name, *cells = line.split() or [""]
        if name not in columns:
            continue
        connections = tuple(cells[: len(columns)])
        invalid = [cell for cell in connections if not _is_cell(cell)]
        if len(connections) < len(columns) or invalid:
            problem = f"{invalid[0]!r} is not one" if invalid else f"only {len(connections)}"
            raise InputError(
                f"row {name}: {len(columns)} connections expected, {problem}",
                hint="the text is incomplete or changed: copy it again",
            )
        if name in rows:
            raise InputError(f"two rows for {name}", hint="give the matrix of one node")
        if connections[columns.index(name)] != "X":
            raise InputError(f"row {name}: no X in the column of the row itself")
        rows[name] = connections
        if has_cpus and len(cells) > len(columns):
            cpus[name] = cells[len(columns)]
    return rows, cpus


def _is_cell(cell: str) -> bool:
    return cell in _CELLS or bool(_LINKS.fullmatch(cell))


def _picture(matrix: Matrix, legend: Legend) -> NodePicture:
    direct = _links(matrix)
    switched, short, notes = _find_switch_links(matrix, direct)
    known = bool(direct) or not legend.only_pcie
    links = NodeLinks(known, {} if switched is not None else direct, switched, short)
    nics = _nics(matrix, legend)
    selection = choose_nics([Interface(nic.name) for nic in nics])
    used = tuple(nics[place] for place in selection.kept)
    notes = (*notes, *selection.notes)
    if any(name not in matrix.cells for name in matrix.nics):
        notes = (*notes, "Rows of NICs are missing: the rows of the GPUs are used.")
    if any("C2C" in row for row in matrix.cells.values()):
        notes = (*notes, "Connections by C2C are left out.")
    if not direct and not legend.kinds and len(matrix.gpus) > 1:
        notes = (*notes, _NO_LEGEND)
    counted = {"nvlinks": links.count(len(matrix.gpus))} if known else {}
    return NodePicture(
        SOURCE if known else f"{SOURCE}p",
        matrix.gpus,
        links,
        _groups(matrix, selection.kept),
        nics=used,
        reduces=None if switched is None else _REDUCES.get(switched),
        notes=notes,
        counted=count_parts(len(matrix.gpus), len(nics), len(used), **counted),
        claims=tuple(claims_of(matrix, legend)),
        warnings=() if known else (_ONLY_PCIE,),
    )


def _links(matrix: Matrix) -> dict[tuple[int, int], int]:
    """Return the number of NVLinks between two GPUs. Raises InputError if the two rows differ."""
    links = {}
    for first, name in enumerate(matrix.gpus):
        for second in range(first):
            here = matrix.cells[name][second]
            there = matrix.cells[matrix.gpus[second]][first]
            if here != there:
                raise InputError(
                    f"{name} to {matrix.gpus[second]} is {here}, in the other "
                    f"direction it is {there}",
                    hint="the matrix is damaged: copy it again",
                )
            match = _LINKS.fullmatch(here)
            if match and int(match[1]):
                links[second, first] = int(match[1])
    return links


def _find_switch_links(
    matrix: Matrix, links: Mapping[tuple[int, int], int]
) -> tuple[int | None, dict[int, int], tuple[str, ...]]:
    """Return the number of links from a GPU into NVSwitches, the GPUs that have fewer, and a note.

    The matrix shows links into switches as links to all other GPUs: between two GPUs, the number
    that both have.
    """
    gpus = len(matrix.gpus)
    each = [0] * gpus
    for pair, count in links.items():
        for gpu in pair:
            each[gpu] = max(each[gpu], count)
    linked = [gpu for gpu in range(gpus) if each[gpu]]
    if len(linked) < 3 or 2 * len(linked) <= gpus or not _joined_by_switches(links, each, linked):
        return None, {}, ()
    counts = Counter(each[gpu] for gpu in linked)
    usual = max(counts, key=lambda links: (counts[links], links))
    if usual * (len(linked) - 1) > MOST_LINKS:
        return usual, {gpu: count for gpu, count in enumerate(each) if count < usual}, ()
    if len(linked) < gpus or len({*links.values()}) > 1:
        return None, {}, ()
    note = (
        f"NV{usual} between all {gpus} GPUs is read as {usual * (gpus - 1)} links of each GPU, as "
        f"many as a GPU may have; with an NVSwitch it would be {usual} links to all."
    )
    return None, {}, (note,)


def _joined_by_switches(
    links: Mapping[tuple[int, int], int], each: Sequence[int], linked: Sequence[int]
) -> bool:
    """Whether any two of these GPUs have the number of links of the GPU with fewer."""
    return all(
        links.get((first, second), 0) == min(each[first], each[second])
        for place, second in enumerate(linked)
        for first in linked[:place]
    )


def _nics(matrix: Matrix, legend: Legend) -> tuple[Nic, ...]:
    nics = []
    for column, name in enumerate(nic_names(matrix, legend), start=len(matrix.gpus)):
        near = [i for i, gpu in enumerate(matrix.gpus) if matrix.cells[gpu][column] in NEAR]
        nics.append(Nic(name, near=frozenset(near)))
    return tuple(nics)


def _groups(matrix: Matrix, nics: Sequence[int]) -> tuple[GpuGrouping, ...]:
    """Return sockets and PCIe switches as groupings; ``nics`` are the columns of NICs in use."""
    groups, rows = [], [matrix.cells[gpu][len(matrix.gpus) :] for gpu in matrix.gpus]
    for name, cells in (("socket", INSIDE_SOCKET), ("bridge", NEAR)):
        parts = _parts(matrix, cells)
        inside = all(
            any(rows[gpu][nic] in cells for gpu in part for nic in nics)
            for part in members_of_parts(parts)
        )
        groups.append(GpuGrouping(name, parts, nics_inside=inside))
    return tuple(groups)


def _parts(matrix: Matrix, cells: tuple[str, ...]) -> tuple[int, ...]:
    near = {
        (first, second): 1
        for second, name in enumerate(matrix.gpus)
        for first in range(second)
        if matrix.cells[name][first] in cells
    }
    return parts_of(len(matrix.gpus), near)


def legend_of(lines: list[str]) -> Legend:
    """Return the legends below a matrix, empty if they were left out."""
    kinds = frozenset(match[1] for match in map(_MEANING.match, lines) if match)
    nics = {match[1]: match[2] for match in map(_NIC_NAME.fullmatch, lines) if match}
    return Legend(kinds, nics)


def claims_of(matrix: Matrix, legend: Legend) -> Iterator[Claim]:
    """Yield the claims of the matrix and the other tables of a text about the same quantities."""
    yield from _claims_of_legend(matrix, legend)
    yield from _claims_of_nics(matrix)
    yield from _claims_of_cpus(matrix)


def _claims_of_legend(matrix: Matrix, legend: Legend) -> Iterator[Claim]:
    linked = [name for name, cells in matrix.cells.items() if any(c[:2] == "NV" for c in cells)]
    if linked and legend.only_pcie:
        row = f"in row {linked[0]}"
        yield exact_claim("NVLinks", "the GPUs", "the matrix", 1, row)
        yield exact_claim("NVLinks", "the GPUs", "the legend", 0, "no NV#", True)
    if legend.nics:
        for name in dict.fromkeys((*matrix.nics, *legend.nics)):
            if name.startswith("NIC") and (name in matrix.nics) != (name in legend.nics):
                present = name in matrix.nics
                for place, there in (("the matrix", present), ("the NIC legend", not present)):
                    words = "there" if there else "missing"
                    follows = place != "the matrix"
                    yield exact_claim("NIC columns", name, place, there, words, follows)


def _claims_of_nics(matrix: Matrix) -> Iterator[Claim]:
    """Yield connections of GPUs and NICs, which are in the rows of both."""
    for column, nic in enumerate(matrix.nics, start=len(matrix.gpus)):
        if nic not in matrix.cells:
            continue
        for row, gpu in enumerate(matrix.gpus):
            here, there = matrix.cells[gpu][column], matrix.cells[nic][row]
            if here != there:
                ends = f"{gpu} and {nic}"
                yield Claim("connection", ends, "rows of GPUs", here, frozenset({here}))
                yield Claim("connection", ends, "rows of NICs", there, frozenset({there}), True)


def _claims_of_cpus(matrix: Matrix) -> Iterator[Claim]:
    """Yield pairs of GPUs on one socket by the matrix and two by affinities, or vice versa."""
    cpus = {gpu: mask for gpu in matrix.gpus if (mask := _mask(matrix.cpus.get(gpu, "")))}
    for row, gpu in enumerate(matrix.gpus):
        for other in matrix.gpus[:row]:
            if gpu not in cpus or other not in cpus:
                continue
            cell = matrix.cells[other][row]
            apart = not cpus[gpu] & cpus[other]
            if (apart and cell in INSIDE_SOCKET) or (cpus[gpu] == cpus[other] and cell in _FAR):
                ends, places = f"{other} and {gpu}", (frozenset({"one"}), frozenset({"two"}))
                yield Claim("sockets", ends, "the matrix", cell, places[not apart])
                words = f"CPUs {matrix.cpus[other]} and {matrix.cpus[gpu]}"
                yield Claim("sockets", ends, "the CPU affinities", words, places[apart], True)


def _mask(words: str) -> int:
    """Return the CPUs of ``0-3,8`` as bits of a number; 0 for an invalid list."""
    if not _SPANS.fullmatch(words):
        return 0
    mask = 0
    for span in words.split(","):
        first, _, last = span.partition("-")
        if int(last or first) >= _MOST_CPUS or len(words) > _LONGEST_LIST:
            return 0
        mask |= (1 << int(last or first) + 1) - (1 << int(first))
    return max(mask, 0)


def nic_names(matrix: Matrix, legend: Legend) -> list[str]:
    """Return the system's name of each NIC, if the legend has it."""
    return [legend.nics.get(name, name) for name in matrix.nics]
