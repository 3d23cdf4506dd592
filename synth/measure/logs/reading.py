"""Reads logs of nccl-tests and rccl-tests, and checks their consistency.

Three sources give the number of ranks of a table: the list of devices, busbw / algbw and, for tests
of pieces, size / (count x type). They must agree. In all tests a size is that of a rank's largest
buffer (src/common.cu prints the greater of bytes sent and received), which is our payload.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import inf, isinf

from hierarchies import InputError, error_context, suggest_nearest
from synth.measure.calibration.measurements import SEND_RECEIVE
from synth.measure.logs.documents import (
    check_json,
    has_sections,
    is_csv,
    is_json,
    is_plain_csv,
    parse_csv_tables,
    parse_json_tables,
    parse_plain_tables,
    parse_sections,
)
from synth.measure.logs.header import KNOWN
from synth.measure.logs.tables import (
    BARE,
    COLLECTIVES,
    PIECES,
    UNREAD,
    WORD_BYTES,
    CheckedLog,
    ForcedChoice,
    LogRow,
    Table,
)
from synth.measure.logs.text import parse_text_tables

_COLLECTIVE_HINT = (
    "say --collective, or put a line '# collective: all_gather' at the top of the file"
)
_MOST_LINES = 1_000_000
_ROW = re.compile(rf"[0-9]\s+-?[0-9]+\s+(?:{'|'.join(WORD_BYTES)})(?:\s|$)")
_BARE = re.compile(r"#\s+size\s+count\s+time\s+algbw\s+busbw")
"""The header of a table of mscclpp-test, whose rows name no type."""
_FORMATS: tuple[tuple[Callable[[str], object], Callable[[str, str], list[Table]]], ...] = (
    (is_json, parse_json_tables),
    (is_plain_csv, parse_plain_tables),
    (is_csv, parse_csv_tables),
    (_ROW.search, parse_text_tables),
    (has_sections, parse_sections),
    (_BARE.search, parse_text_tables),
)
"""Conditions for each reader of texts, in the order in which they are tried."""
_UNPRICED = "no collective we price"
_OLD_GATHER = ("all-gather", "reduce-scatter")


def parse_logs(text: str, source: str, collective: str | None = None) -> tuple[CheckedLog, ...]:
    """Returns every table of a log, checked. ``collective`` is used if the log does not name any.

    ``source`` names the log in errors and warnings. Tables of unsupported tests are left out with a
    warning. Raises InputError for a text without other tables, and for inconsistent tables.
    """
    if collective is not None:
        collective = _parse_collective(collective)
    check_log(text, source)
    parse = next(parse for fits, parse in _FORMATS if fits(text))
    found = [table for table in parse(text, source) if table.rows]
    if not found:
        raise _no_table_error(source)
    read = [table for table in found if table.collective not in UNREAD] or found
    first, *others = (_check_table(table, collective) for table in read)
    unread = dict.fromkeys(table.collective for table in found if table not in read)
    notes = tuple(f"a table of {name} is left out: {_UNPRICED}" for name in unread)
    return (replace(first, warnings=first.warnings + notes), *others)


def check_log(text: str, source: str) -> None:
    """Raises InputError for a text that contains nothing like a row, or has too many lines.

    It takes far less than a second for any text.
    """
    if (count := text.count("\n")) > _MOST_LINES:
        raise InputError(f"{count} lines", where=source, hint=f"at most {_MOST_LINES} are read")
    if is_json(text):
        check_json(text, source)
    elif not any(fits(text) for fits, _ in _FORMATS):
        raise _no_table_error(source)


def _no_table_error(source: str) -> InputError:
    hint = "a log has rows of size, count, type, ..., time, algbw, busbw"
    return InputError("no table of nccl-tests or rccl-tests", where=source, hint=hint)


def _parse_collective(name: str) -> str:
    """Returns a collective given by our name or the tests'. Raises InputError for other names."""
    known = {**COLLECTIVES, **{ours: ours for ours in COLLECTIVES.values()}}
    if name not in known:
        hint = suggest_nearest(name, known)
        raise InputError(f"no collective {name!r}", where="--collective", hint=hint)
    return known[name]


def _check_table(table: Table, collective: str | None) -> CheckedLog:
    """Checks one table. Raises InputError if it is inconsistent."""
    with error_context(table.source):
        _check_forced(table.forced)
        _check_distinct_ranks(table)
        what = _collective(table, collective)
        if why := _explain_mismatch(table, what):
            hint = "is the table another test's?"
            raise InputError(f"these are no rows of {what}: {why}", hint=hint)
        ranks = _ranks(table, what)
        _check_times(table, what, ranks)
        groups = _groups(table)
        return CheckedLog(
            table,
            what,
            ranks,
            len(groups) if groups else 1,
            _hosts(table),
            tuple(_select_usable(table.rows)),
            tuple(dict.fromkeys(chain(table.warnings, _warnings(table)))),
        )


def _check_forced(forced: ForcedChoice) -> None:
    for variable in forced.unknown[:1]:
        raise InputError(
            f"{variable} was set to a value that NCCL does not know",
            hint=f"known are: {', '.join(KNOWN[variable])}",
        )


def _check_distinct_ranks(table: Table) -> None:
    ranks = [place.rank for place in table.places]
    if len(set(ranks)) < len(ranks):
        raise InputError(
            f"rank {Counter(ranks).most_common(1)[0][0]} is listed more than once",
            hint="were the tests built without MPI=1? Then each process ran a test of its own",
        )


def _collective(table: Table, given: str | None) -> str:
    """Returns the collective: from the file, else from the caller, else from the rows.

    Raises InputError if no source determines it, if two sources disagree, and for unsupported
    tests.
    """
    if table.collective in UNREAD:
        hint = f"those that are: {', '.join(COLLECTIVES)}"
        raise InputError(f"{table.collective} is {_UNPRICED}", hint=hint)
    if table.collective is not None:
        stated = COLLECTIVES[table.collective]
        if given is not None and given != stated:
            raise InputError(
                f"the file is of {stated}, --collective says {given}", hint="leave out --collective"
            )
        return stated
    if given is not None:
        return given
    able = [what for what in COLLECTIVES.values() if not _explain_mismatch(table, what)]
    if len(able) == 1:
        return able[0]
    if not able:
        raise InputError("the rows fit no collective", hint=_COLLECTIVE_HINT)
    raise InputError(f"the rows fit {' and '.join(able)}", hint=_COLLECTIVE_HINT)


def _explain_mismatch(table: Table, what: str) -> str:
    """Returns why rows cannot be of a collective, or ""."""
    if table.columns != BARE and (why := _why_not_named(table, what)):
        return why
    low, high = _rank_range_by_counts(table, what)
    if low > high or high < 2:
        return "size / (count x type) is not that of this test"
    if _rank_range_by_ratio(table, what) is None:
        return "busbw / algbw is not that of this test"
    return "" if table.columns == BARE else _explain_wrong_columns(table, what)


def _why_not_named(table: Table, what: str) -> str:
    """Returns why the columns of operation and root cannot be of a collective, or ""."""
    row = max(table.rows, key=lambda row: row.size_bytes)
    reduces = what in ("all-reduce", "reduce-scatter", "reduce")
    operation = row.operation if row.operation != "none" else None
    if reduces and operation is None and row.count >= 0:
        return "they name no reduction operation"
    if not reduces and what != SEND_RECEIVE and operation is not None:
        return f"they reduce ({operation})"
    rooted = what in ("reduce", "broadcast")
    if row.root is not None and (row.root >= 0) != rooted:
        return f"their root is {row.root}"
    if row.root is None and rooted and row.count >= 0:
        return "they have no root"
    if table.columns and "redop" not in table.columns and what not in ("all-gather", "broadcast"):
        return "their head has no reduction operation"
    return ""


def _explain_wrong_columns(table: Table, what: str) -> str:
    """Returns why the checked columns cannot be of a collective, or "".

    Tests of all-to-all and send-receive never check in-place results.
    """
    inside = [row.in_place.wrong is not None for row in table.rows if row.in_place]
    outside = [row.out_of_place.wrong is not None for row in table.rows if row.out_of_place]
    alone = what in ("all-to-all", SEND_RECEIVE)
    if alone and any(inside):
        return "their in-place results are checked"
    if not alone and inside and all(outside) and outside and not any(inside):
        return "only their out-of-place results are checked"
    return ""


def _rank_range_by_counts(table: Table, what: str) -> tuple[float, float]:
    """Returns the least and greatest number of ranks by size / (count x type)."""
    low, high = 1.0, inf
    for row in table.rows:
        word = WORD_BYTES.get(row.kind)
        if word is None or row.count <= 0 or not row.size_bytes:
            continue
        times = row.size_bytes / (row.count * word)
        if what not in PIECES:
            if times != 1:
                return inf, 0.0
            continue
        low, high = max(low, times), min(high, times)
    return low, high


def _rank_range_by_ratio(table: Table, what: str) -> tuple[float, float] | None:
    """Returns the least and greatest number of ranks by busbw / algbw, or None."""
    ratios = [timing.ratio() for row in table.rows for timing in row.timings]
    low = max((low for low, _ in ratios), default=0.0) * (1 - 1e-6)
    high = min((high for _, high in ratios), default=inf) * (1 + 1e-6)
    if low > high:
        return None
    if what == "all-reduce":
        return _ranks_of(low / 2, high / 2)
    if what in PIECES:
        # The oldest tests print an algbw that already includes the factor.
        if low <= 1 <= high and what in _OLD_GATHER and not low <= 0.5 <= high:
            return 1.0, inf
        return _ranks_of(low, high)
    return (1.0, inf) if low <= 1 <= high else None


def _ranks_of(low: float, high: float) -> tuple[float, float] | None:
    """Returns the least and the greatest n with low <= (n - 1)/n <= high."""
    if low >= 1:
        return None
    least = max(1.0, 1 / (1 - low) if low > 0 else 1.0)
    most = inf if high >= 1 else 1 / (1 - high)
    return (least, most) if most * (1 + 1e-9) >= least and most >= 2 * (1 - 1e-6) else None


def _groups(table: Table) -> dict[int, int]:
    """Returns the number of ranks of each group, by the device list."""
    if not _is_complete(table):
        return {}
    return dict(Counter(place.group for place in table.places))


def _is_complete(table: Table) -> bool:
    """Whether the list of devices has every rank from 0 on."""
    return bool(table.places) and {p.rank for p in table.places} == set(range(len(table.places)))


def _hosts(table: Table) -> int | None:
    hosts, per_host, ranks = table.stated_hosts, table.stated_per_host, table.stated_ranks
    if hosts and per_host and ranks and hosts * per_host != ranks:
        raise InputError(f"{hosts} nodes of {per_host} ranks are stated, and {ranks} ranks")
    if not _is_complete(table) or any(place.host is None for place in table.places):
        return table.stated_hosts
    listed = len({place.host for place in table.places})
    if table.stated_hosts not in (None, listed):
        raise InputError(
            f"the devices listed are on {listed} hosts, a note says {table.stated_hosts}"
        )
    return listed


def _ranks(table: Table, what: str) -> int | None:
    """Returns the ranks of one group. Raises InputError if its sources disagree."""
    stated: dict[str, tuple[float, float]] = {}
    groups = _groups(table)
    if groups and len(set(groups.values())) > 1:
        sizes = ", ".join(str(size) for size in sorted(set(groups.values())))
        raise InputError(f"groups of unequal size: {sizes}", hint="choose NCCL_TESTS_SPLIT anew")
    if groups:
        size = next(iter(groups.values()))
        stated["the list of devices"] = (size, size)
    elif table.places:
        ranks = max(place.rank for place in table.places) + 1
        stated["the list of devices"] = (ranks, ranks)
    if table.stated_ranks and len(groups) <= 1:
        stated["the number of ranks that is stated"] = (table.stated_ranks, table.stated_ranks)
    counts = _rank_range_by_counts(table, what)
    if what in PIECES and not isinf(counts[1]):
        stated["size / (count x type)"] = counts
    ratio = _rank_range_by_ratio(table, what)
    if ratio is not None and ratio != (1.0, inf):
        stated["busbw / algbw"] = ratio
    return _agree_on_ranks(stated)


def _agree_on_ranks(stated: dict[str, tuple[float, float]]) -> int | None:
    if not stated:
        return None
    low = max(low for low, _ in stated.values()) * (1 - 1e-9)
    high = min(high for _, high in stated.values()) * (1 + 1e-9)
    if low > high:
        parts = [f"{source} says {_span(*span)}" for source, span in stated.items()]
        raise InputError(
            f"the number of ranks is contradicted: {'; '.join(parts)}",
            hint="is the file put together from several runs?",
        )
    whole = range(int(low) + (int(low) < low), int(min(high, low + 1)) + 1)
    return whole[0] if len(whole) == 1 and high < low + 1 else None


def _span(low: float, high: float) -> str:
    if high - low < 0.5:
        return f"{round((low + high) / 2)}"
    return f"{low:.4g} or more" if isinf(high) else f"{low:.4g} to {high:.4g}"


def _check_times(table: Table, what: str, ranks: int | None) -> None:
    """Raises InputError for a row whose algbw is not its size over its time."""
    for row in table.rows:
        for timing in row.timings:
            if timing.agrees(row.size_bytes):
                continue
            if ranks and what in PIECES and timing.agrees(row.size_bytes, (ranks - 1) / ranks):
                continue
            shown = timing.algbw_bytes_per_second / 1e9
            microseconds = timing.seconds * 1e6
            raise InputError(
                f"{row.size_bytes} bytes in {microseconds:g} us are not {shown:g} GB/s",
                hint="the columns do not belong together, or the time is in another unit",
            )


def _select_usable(rows: Iterable[LogRow]) -> Iterator[LogRow]:
    """Yields rows above 0 bytes, without unusable times."""
    for row in rows:
        out, inside = (
            t if t and not t.unusable else None for t in (row.out_of_place, row.in_place)
        )
        if row.size_bytes and (out or inside):
            yield replace(row, out_of_place=out, in_place=inside)


def _warnings(table: Table) -> Iterator[str]:
    """Yields warnings: rows left out, sizes measured twice, an incomplete list of devices."""
    if table.columns == BARE:
        yield "a table of mscclpp-test: it times kernels of MSCCL++, and prices are of NCCL or RCCL"
    if table.broken:
        rows = "row is" if table.broken == 1 else "rows are"
        yield f"{table.broken} {rows} torn apart by other output and left out"
    bad: dict[str, list[int]] = {}
    for row in table.rows:
        for timing in row.timings:
            if timing.unusable:
                bad.setdefault(timing.unusable, []).append(row.size_bytes)
    for why, sizes in bad.items():
        yield f"{why} at {_spell_sizes(sizes)}: left out"
    if empty := sum(1 for row in table.rows if not row.size_bytes):
        yield f"{empty} {'row' if empty == 1 else 'rows'} of 0 bytes left out"
    twice = [
        size
        for size, n in Counter(r.size_bytes for r in table.rows if r.size_bytes).items()
        if n > 1
    ]
    if twice:
        yield f"{_spell_sizes(twice)} measured more than once: all are kept"
    places = table.places
    if places and not _is_complete(table):
        yield f"the list of devices has {len(places)} of the ranks up to {places[-1].rank}"


def _spell_sizes(sizes: Sequence[int]) -> str:
    distinct = sorted(set(sizes))
    shown = ", ".join(str(size) for size in distinct[:4])
    return f"{shown}{', ...' if len(distinct) > 4 else ''} bytes"
