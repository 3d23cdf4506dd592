"""The judge of orders on a clock: words such as ``1F0``, and ranks that take turns.

It imports nothing of what it judges. A rank does its words in turn, each as soon as what it reads
is there; what a rank holds is counted from the words alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

Rows = Sequence[Sequence[str]]
Times = dict[str, tuple[float, float]]
HELD = {"F": 1, "B": -1, "I": -1, "W": 0}
WAITING = {"F": 0, "B": 0, "I": 1, "W": -1}


class StuckError(Exception):
    """No rank can go on."""


def parts(word: str) -> tuple[int, str, int]:
    found = re.fullmatch(r"(\d+)([FBIW])(\d+)", word)
    assert found, word
    return int(found[1]), found[2], int(found[3])


def read_by(word: str, words: set[str], last: int) -> list[str]:
    """What a pass reads: what it was made from on its stage, and what the stage beside it made."""
    stage, kind, microbatch = parts(word)
    if kind == "F":
        return [f"{stage - 1}F{microbatch}"] if stage else []
    if kind == "W":
        return [f"{stage}I{microbatch}"]
    found = [f"{stage}F{microbatch}"]
    if stage < last:
        above = [f"{stage + 1}{half}{microbatch}" for half in "BI"]
        found += [one for one in above if one in words] or above[:1]
    return found


def replayed(
    rows: Rows,
    seconds: Callable[[str], float],
    transfer: float = 0.0,
    begun: Mapping[int, float] | None = None,
) -> Times:
    """When each pass begins and ends, transfers eager. Raises StuckError.

    ``begun``: until when a rank does something else first.
    """
    words = {word for row in rows for word in row}
    last = max(parts(one)[0] for one in words)
    reads = {word: read_by(word, words, last) for word in words}
    rank_of = {parts(word)[0]: rank for rank, row in enumerate(rows) for word in row}
    left = [list(row) for row in rows]
    clock = [(begun or {}).get(rank, 0.0) for rank in range(len(rows))]
    times: Times = {}
    while any(left):
        before = len(times)
        for rank, row in enumerate(left):
            while row and all(one in times for one in reads[row[0]]):
                word = row.pop(0)
                arrivals = [
                    times[one][1] + transfer * (rank_of[parts(one)[0]] != rank)
                    for one in reads[word]
                ]
                begin = max([clock[rank], *arrivals])
                clock[rank] = begin + seconds(word)
                times[word] = begin, clock[rank]
        if len(times) == before:
            raise StuckError(str([row[:1] for row in left]))
    return times


def most(row: Sequence[str], changes: dict[str, float]) -> float:
    """The most of what a rank has, if each pass changes it so."""
    held = largest = 0.0
    for word in row:
        held += changes[parts(word)[1]]
        largest = max(largest, held)
    return largest


def carried_out(rows: Rows, *, buffered: bool) -> list[str]:
    """The sends and receives that ranks have left in the end, none if all go on.

    A rank puts its words into two queues, of passes and of halves of transfers; each half waits
    for the passes before it, and each pass for the receive that it reads. Halves leave their queue
    in order: a pair when both are first, or, where sends are buffered, a send at once.
    """
    halves = [[word for word in row if re.search("SEND|RECV", word)] for row in rows]
    passes = [[word for word in row if re.fullmatch(r"\d+[FBIW]\d+", word)] for row in rows]
    there = {word for row in rows for word in row}
    done: set[str] = set()
    went = True
    while went:
        went = False
        for row, mine, own in zip(rows, halves, passes, strict=True):
            while own and _receive(own[0], there) <= done:
                done.add(own.pop(0))
                went = True
            while mine and {*row[: row.index(mine[0])]} & {*own} == set():
                other = _other(mine[0])
                sends = "SEND" in mine[0]
                first = any(peer[:1] == [other] and _free(rows, passes, peer) for peer in halves)
                if not (first or (buffered and (sends or other in done))):
                    break
                done.add(mine.pop(0))
                went = True
                if not buffered:
                    [peer] = [peer for peer in halves if peer[:1] == [other]]
                    done.add(peer.pop(0))
    return [half for mine in halves for half in mine]


def _free(rows: Rows, passes: Rows, peer: Sequence[str]) -> bool:
    """Whether all passes before a rank's first half are done."""
    return not any(
        word in own
        for row, own in zip(rows, passes, strict=True)
        if peer[0] in row
        for word in row[: row.index(peer[0])]
    )


def _receive(word: str, there: set[str]) -> set[str]:
    stage, kind, microbatch = parts(word)
    way = "F" if kind == "F" else "B"
    return set() if kind == "W" else {f"{stage}RECV_{way}{microbatch}"} & there


def _other(half: str) -> str:
    found = re.fullmatch(r"(\d+)(SEND|RECV)_([FB])(\d+)", half)
    assert found, half
    stage, way = int(found[1]), found[3]
    up = (found[2] == "SEND") == (way == "F")
    return f"{stage + (1 if up else -1)}{'RECV' if found[2] == 'SEND' else 'SEND'}_{way}{found[4]}"
