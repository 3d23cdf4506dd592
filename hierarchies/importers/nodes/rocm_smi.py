"""Reads the output of ``rocm-smi --showtopo`` and ``amd-smi topology``, as text or as JSON.

Types and hops report two GPUs of one hive as linked even if others are between them. The pairs with
a link of their own are known from weights, 15 for every link of the path, and from bandwidths,
which only such pairs have (https://github.com/ROCm/rocm-systems/issues/5763).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import combinations

from hierarchies.importers.claims import Claim, NumberRange
from hierarchies.importers.nodes.islands import parts_of
from hierarchies.importers.nodes.picture import (
    GpuGrouping,
    NodeLinks,
    NodePicture,
    check_length,
)
from hierarchies.importers.nodes.rocm_tables import (
    DIRECT,
    DISABLED,
    ROCM_SMI,
    RocmTables,
    parse_tables,
)

SOURCE = ROCM_SMI
_TOPIC = "xGMI link"
_LINKED, _APART = NumberRange(1, 1), NumberRange(0, 0)
_Pair = tuple[int, int]


def read(text: str) -> NodePicture:
    """The node that a text describes. Raises InputError for an invalid or far too long text."""
    check_length(text, SOURCE)
    return _picture(parse_tables(text))


def _picture(tables: RocmTables) -> NodePicture:
    gpus = len(tables.gpus)
    pairs = list(combinations(range(gpus), 2))
    hive = _find_xgmi_pairs(tables, pairs)
    claims = [*_claims(tables, hive), *_claims_of_hops(tables, {*pairs} - {*hive})]
    apart = {claim.subject for claim in claims if claim.values == _APART}
    direct = {pair: 1 for pair in hive if _subject(tables, pair) not in apart}
    notes = tables.notes
    if "link type" not in tables.printed:
        hops = "The types of the links are not told: one hop is taken as an xGMI link."
        notes = (*notes, hops)
    if direct:
        notes = (*notes, "How many xGMI links join two GPUs is not told: taken as one.")
    return NodePicture(
        tables.source,
        tables.gpus,
        NodeLinks(direct=direct, counted=False),
        _groups(tables, pairs),
        amd=True,
        notes=notes,
        counted={"gpus": gpus, "xgmi": len(direct)},
        claims=tuple(claims),
    )


def _subject(tables: RocmTables, pair: _Pair) -> str:
    return f"{tables.gpus[pair[0]]} and {tables.gpus[pair[1]]}"


def _find_xgmi_pairs(tables: RocmTables, pairs: list[_Pair]) -> list[_Pair]:
    """The pairs in one hive, directly linked or not: by the types, or else by one hop."""
    types = tables.printed.get("link type")
    if types is not None:
        return [(one, other) for one, other in pairs if types[one][other] == DIRECT]
    return [pair for pair in pairs if tables.number("hops", *pair) == 1]


def _claims(tables: RocmTables, hive: list[_Pair]) -> Iterator[Claim]:
    """Each table's claims on which pairs are linked; types and hops yield to the others."""
    weights = {pair: tables.number("weight", *pair) for pair in hive}
    least = min((weight for weight in weights.values() if weight is not None), default=0)
    rates = tables.printed.get("numa bw")
    rated = {(a, b) for a, b in hive if rates and any(c in "123456789" for c in rates[a][b])}
    access = tables.printed.get("access")
    disabled = {(a, b) for a, b in hive if access and access[a][b] == DISABLED}
    typed = "link type" in tables.printed
    name, words = ("link type", DIRECT) if typed else ("hops", "1 hop")
    for pair in hive:
        subject = _subject(tables, pair)
        yield Claim(_TOPIC, subject, f"the table {name!r}", words, _LINKED, True)
        hops = tables.number("hops", *pair)
        if hops is not None and hops > 1:
            yield Claim(_TOPIC, subject, "the table 'hops'", f"{hops} hops", _APART)
        weight = weights[pair]
        if weight is not None and weight > least:
            none = f"none at weight {weight} ({least} for one link)"
            yield Claim(_TOPIC, subject, "the table 'weight'", none, _APART)
        if 0 < len(disabled) < len(hive) and pair in disabled:
            yield Claim(_TOPIC, subject, "the table 'access'", "none, as it is disabled", _APART)
        if rated and pair not in rated:
            none = "none, as it has no bandwidth"
            yield Claim(_TOPIC, subject, "the table 'numa bw'", none, _APART)


def _claims_of_hops(tables: RocmTables, others: Set[_Pair]) -> Iterator[Claim]:
    """One hop is xGMI by the tools' manuals, so it contradicts another type of link."""
    for pair in sorted(others):
        if "link type" in tables.printed and tables.number("hops", *pair) == 1:
            cell = tables.printed["link type"][pair[0]][pair[1]]
            subject = _subject(tables, pair)
            yield Claim(_TOPIC, subject, "the table 'link type'", cell, _APART)
            yield Claim(_TOPIC, subject, "the table 'hops'", "1 hop", _LINKED, True)


def _groups(tables: RocmTables, pairs: list[_Pair]) -> tuple[GpuGrouping, ...]:
    """Groups of GPUs that are nearer to each other, by the weights of their links."""
    known = {pair: n for pair in pairs if (n := tables.number("weight", *pair)) is not None}
    if len(set(known.values())) != 2:
        return ()
    least = min(known.values())
    near = {pair: 1 for pair, weight in known.items() if weight == least}
    return (GpuGrouping("socket", parts_of(len(tables.gpus), near)),)
