"""Tables beside the matrix of ``nvidia-smi topo``, and their contradictions to the matrix.

The legend lists the kinds of connections that the matrix may show. ``topo -m`` has NVLinks
(``NV#``), ``topo -mp`` only paths over PCIe: there a missing NVLink is no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hierarchies.importers.claims import Claim, exact_claim

NEAR = ("PIX", "PXB")
INSIDE_SOCKET = (*NEAR, "PHB", "NODE")
_FAR = ("SYS", "SOC")
_NV = "NV#"
_MEANING = re.compile(r"\s*(X|SYS|SOC|NODE|PHB|PXB|PIX|PSB|C2C|NV#)\s*=\s")
_NIC_NAME = re.compile(r"\s*(NIC[0-9]+)\s*:\s*(\S+)\s*")
_SPANS = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
_MOST_CPUS, _LONGEST_LIST = 16_384, 4_096


@dataclass(frozen=True)
class Matrix:
    """The connections in every row, in the order of the columns: GPUs, then NICs.

    ``cpus`` are the CPU affinities of GPUs, as far as printed.
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


def legend_of(lines: list[str]) -> Legend:
    """The legends below a matrix, empty if they were left out."""
    kinds = frozenset(match[1] for match in map(_MEANING.match, lines) if match)
    nics = {match[1]: match[2] for match in map(_NIC_NAME.fullmatch, lines) if match}
    return Legend(kinds, nics)


def claims_of(matrix: Matrix, legend: Legend) -> Iterator[Claim]:
    """The claims of the matrix and the other tables of a text about the same quantities."""
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
    """Connections of GPUs and NICs, which are in the rows of both."""
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
    """Pairs of GPUs that the matrix puts on one socket and the affinities on two, or vice versa."""
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
    """The CPUs of ``0-3,8`` as bits of a number; 0 for an invalid list."""
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
    """The system's name of each NIC, if the legend has it."""
    return [legend.nics.get(name, name) for name in matrix.nics]
