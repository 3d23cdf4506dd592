"""Which kernels of a written step XLA has put in one fusion, by the lines that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

END, STEP = "the end of a kernel", "device_step"
_DONE = re.compile(r"stack_frame_id=(\d+)")
_FREE = re.compile(r"^.* = \S+ (?:constant|bitcast|broadcast|iota|copy)\(.*$", re.M)
"""Nothing is computed by these, and equal ones are shared: XLA puts them where it likes."""
_ROW = re.compile(r"^(\d+) (?:\{(.*)\}|\"(.*)\")$", re.M)


def kernels_of_fusions(text: str, hlo: str) -> list[set[int]]:
    """Of each fusion of a compiled step the kernels whose operations are in it.

    Kernels count as they end in the text; ``hlo`` is what XLA compiled of it, with its tables of
    lines. Several kernels that hand nothing on count as one with what follows them.
    """
    of_line = [0, *accumulate(int(END in line) for line in text.splitlines())]
    lines = _lines(hlo)
    found = []
    for body in _fusions(hlo):
        frames = map(int, _DONE.findall(_FREE.sub("", body)))
        found.append({of_line[lines[one] - 1] for one in frames if one in lines})
    return found


def held(hlo: str) -> int:
    """How many barriers are left."""
    return len(re.findall(r" opt-barrier\(", hlo))


def _fusions(hlo: str) -> Iterator[str]:
    """The bodies of what fusions call."""
    called = {*re.findall(r" fusion\(.*?calls=%([\w.\-]+)", hlo)}
    for name, body in re.findall(r"^%([\w.\-]+) \(.*?\{\n(.*?)^\}", hlo, re.M | re.S):
        if name in called:
            yield body


def _lines(hlo: str) -> dict[int, int]:
    """By stack frame the line of the device's function that it is in."""
    functions = {key: one for key, _, one in _table(hlo, "FunctionNames")}
    places = {key: _fields(one) for key, one, _ in _table(hlo, "FileLocations")}
    frames = {key: _fields(one) for key, one, _ in _table(hlo, "StackFrames")}
    found = {}
    for frame in frames:
        at = frame
        while True:
            place = places[frames[at]["file_location_id"]]
            if functions[place["function_name_id"]].endswith(STEP):
                found[frame] = place["line"]
                break
            above = frames[at]["parent_frame_id"]
            if above == at or above not in frames:
                break
            at = above
    return found


def _table(hlo: str, name: str) -> list[tuple[int, str, str]]:
    _, _, rest = hlo.partition(f"\n{name}\n")
    rows = _ROW.findall(rest.partition("\n\n")[0])
    return [(int(key), fields, words) for key, fields, words in rows]


def _fields(row: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", row)}
