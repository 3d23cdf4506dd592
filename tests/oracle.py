"""Sections 2 and 3 of the language's definition once more: slow, obvious, at real sizes.

It shares no code with the house. A device is a tuple of digits, a chunk and a contributor are
labelled like one; the groups of an instruction are written out; what a device holds is a dict from
chunk to the set of its contributors, without the empty rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

Label = tuple[int, ...]
Rows = dict[Label, frozenset[Label]]
State = dict[Label, Rows]

SOUND, REGULAR, PRUNED = "unsound", "irregular", "pruned"
EVERYTHING = (SOUND, REGULAR, PRUNED)
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast")
REQUESTS = (*COLLECTIVES, "all-to-all")
"""What a program may be for. An all-to-all is made of all-to-alls, all else of the five."""


@dataclass(frozen=True)
class Word:
    """An instruction: devices that differ in ``free`` digits only, and are 0 in ``zero`` ones."""

    collective: str
    free: Label
    zero: Label = ()


@cache
def labels(sizes: Label) -> tuple[Label, ...]:
    """All devices (or chunks, or contributors), in the order of their ids."""
    return tuple(product(*(range(size) for size in sizes)))


def words(depth: int, across: bool = False, request: str = "all-reduce") -> list[Word]:
    """Every instruction once: every form at every slice, five collectives each, or one."""
    groups: list[tuple[Label, Label]] = []
    for e in range(-1, depth):
        groups.append((_span(e + 1, depth - 1), ()))  # inside
        for a in range(-1, e):
            groups.append((_span(a + 1, e), ()))  # parallel
            groups.append((_span(a + 1, e), _span(e + 1, depth - 1)))  # master
    if across:
        for size in range(1, depth + 1):
            groups += [(free, ()) for free in combinations(range(depth), size)]
    once = dict.fromkeys(group for group in groups if group[0])
    names = ("all-to-all",) if request == "all-to-all" else COLLECTIVES
    return [Word(name, free, zero) for free, zero in once for name in names]


def _span(first: int, last: int) -> Label:
    return tuple(range(first, last + 1))


def only(label: Label, digits: Label) -> Label:
    """The values of some digits."""
    return tuple(label[digit] for digit in digits)


@cache
def members(word: Word, sizes: Label) -> tuple[tuple[Label, ...], ...]:
    """The groups of an instruction; the first member of each has 0 in every free digit."""
    fixed = tuple(digit for digit in range(len(sizes)) if digit not in word.free)
    groups: dict[Label, list[Label]] = {}
    for device in labels(sizes):
        if not any(only(device, word.zero)):
            groups.setdefault(only(device, fixed), []).append(device)
    return tuple(map(tuple, groups.values()))


@cache
def alike(label: Label, digits: Label, sizes: Label) -> frozenset[Label]:
    """All labels with the same values of some digits."""
    return frozenset(one for one in labels(sizes) if only(one, digits) == only(label, digits))


def start(sizes: Label, request: str = "all-reduce") -> State:
    """In an all-to-all the chunk is whom something is for, the contributor whom it comes from."""
    devices = labels(sizes)
    if request == "all-gather":
        return {device: {device: frozenset(devices)} for device in devices}
    if request == "broadcast":
        return {device: {} if any(device) else _everything(devices) for device in devices}
    return {device: {chunk: frozenset({device}) for chunk in devices} for device in devices}


def _everything(devices: Iterable[Label]) -> Rows:
    return {chunk: frozenset(devices) for chunk in devices}


def goal(sizes: Label) -> State:
    """Of an all-reduce."""
    devices = labels(sizes)
    return {device: _everything(devices) for device in devices}


def reached(state: State, sizes: Label, request: str = "all-reduce") -> bool:
    """Whether this is what was requested. What others than the first end a reduce with is free."""
    devices = labels(sizes)
    if request == "reduce":
        return state[devices[0]] == _everything(devices)
    if request in ("reduce-scatter", "all-to-all"):
        return state == {device: {device: frozenset(devices)} for device in devices}
    return state == goal(sizes)


def broken(state: State, word: Word, sizes: Label) -> set[str]:
    """The classes of preconditions that the instruction does not meet."""
    found: set[str] = set()
    for group in members(word, sizes):
        held = [state[device] for device in group]
        if word.collective == "all-gather":
            found |= _broken_gather(held, word)
        elif word.collective == "broadcast":
            found |= _broken_broadcast(held)
        else:
            found |= _broken_sum(held, word, sizes)
        if not any(held):
            found.add(PRUNED)
    if after(state, word, sizes) == state:
        found.add(PRUNED)
    return found


def _broken_sum(held: list[Rows], word: Word, sizes: Label) -> set[str]:
    found = set()
    if any(set(rows) != set(held[0]) for rows in held):
        found.add(SOUND)
    for one, other in combinations(held, 2):
        if any(one[chunk] & other[chunk] for chunk in set(one) & set(other)):
            found.add(SOUND)
    if word.collective in ("reduce-scatter", "all-to-all"):
        fixed = tuple(digit for digit in range(len(sizes)) if digit not in word.free)
        for rows in held:
            for chunk in rows:
                if not alike(chunk, fixed, sizes) <= rows.keys():
                    found.add(REGULAR)
    return found


def _broken_gather(held: list[Rows], word: Word) -> set[str]:
    found = set()
    if any(set(one) & set(other) for one, other in combinations(held, 2)):
        found.add(SOUND)

    def forgotten(rows: Rows) -> set[Label]:
        return {tuple(-1 if d in word.free else v for d, v in enumerate(chunk)) for chunk in rows}

    if any(len(rows) != len(held[0]) or forgotten(rows) != forgotten(held[0]) for rows in held):
        found.add(REGULAR)
    return found


def _broken_broadcast(held: list[Rows]) -> set[str]:
    first, *others = held
    contained = all(
        contributors <= first.get(chunk, frozenset())
        for rows in others
        for chunk, contributors in rows.items()
    )
    strictly = any(rows != first for rows in others)
    return set() if contained and strictly else {PRUNED}


def after(state: State, word: Word, sizes: Label) -> State:
    """The state once the instruction is carried out, allowed or not."""
    then = dict(state)
    for group in members(word, sizes):
        union: Rows = {}
        for device in group:
            for chunk, contributors in state[device].items():
                union[chunk] = union.get(chunk, frozenset()) | contributors
        for number, device in enumerate(group):
            match word.collective:
                case "all-reduce" | "all-gather":
                    then[device] = union
                case "reduce":
                    then[device] = union if number == 0 else {}
                case "reduce-scatter":
                    own = only(device, word.free)
                    then[device] = {c: q for c, q in union.items() if only(c, word.free) == own}
                case "broadcast":
                    then[device] = state[group[0]]
                case "all-to-all":
                    then[device] = _delivered(device, group, state, word.free)
    return then


def _delivered(device: Label, group: tuple[Label, ...], state: State, free: Label) -> Rows:
    """What the members send to a device: all that is for it, as far as the group can tell."""
    got: Rows = {}
    for source in group:
        for target, senders in state[source].items():
            if all(target[digit] == device[digit] for digit in free):
                got[target] = got.get(target, frozenset()) | senders
    return got


def verdict(
    program: Iterable[Word],
    sizes: Label,
    asked: Collection[str] = EVERYTHING,
    request: str = "all-reduce",
) -> tuple[int | None, set[str]]:
    """The first step that may not be taken and the classes it breaks, of those asked for.

    ``(None, {SOUND})`` if only the goal is missed, ``(None, set())`` if nothing is wrong.
    """
    state = start(sizes, request)
    for step, word in enumerate(program):
        wrong = broken(state, word, sizes) & set(asked)
        if wrong:
            return step, wrong
        state = after(state, word, sizes)
    return None, set() if reached(state, sizes, request) else {SOUND}


def programs(
    sizes: Label, most_steps: int, across: bool = False, request: str = "all-reduce"
) -> Iterator[tuple[Word, ...]]:
    """Every program that reaches the goal at its last step and not before."""
    known = words(len(sizes), across, request)

    def continued(state: State, done: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
        if reached(state, sizes, request):
            yield done
        elif len(done) < most_steps:
            for word in known:
                if not broken(state, word, sizes):
                    yield from continued(after(state, word, sizes), (*done, word))

    return continued(start(sizes, request), ())


def count(
    sizes: Label, most_steps: int, across: bool = False, request: str = "all-reduce"
) -> list[int]:
    """How many of these programs have 1, 2, ... steps, counted as ways from state to state."""
    known = words(len(sizes), across, request)
    begun = start(sizes, request)
    states, ways, found = {_frozen(begun): begun}, {_frozen(begun): 1}, []
    onward: dict[frozenset[tuple[Label, Label, Label]], list[State]] = {}
    for _ in range(most_steps):
        then: dict[frozenset[tuple[Label, Label, Label]], int] = {}
        done = 0
        for key, many in ways.items():
            if key not in onward:
                here = states[key]
                allowed = (word for word in known if not broken(here, word, sizes))
                onward[key] = [after(here, word, sizes) for word in allowed]
            for state in onward[key]:
                if reached(state, sizes, request):
                    done += many
                else:
                    states[_frozen(state)] = state
                    then[_frozen(state)] = then.get(_frozen(state), 0) + many
        found.append(done)
        ways = then
    return found


def reachable(sizes: Label, most_steps: int) -> int:
    """How many states there are within so many steps of the start."""
    known = words(len(sizes))
    seen = {_frozen(start(sizes))}
    frontier = [start(sizes)]
    for _ in range(most_steps):
        fresh = []
        for state in frontier:
            for word in known:
                if not broken(state, word, sizes):
                    then = after(state, word, sizes)
                    if _frozen(then) not in seen:
                        seen.add(_frozen(then))
                        fresh.append(then)
        frontier = fresh
    return len(seen)


def _frozen(state: State) -> frozenset[tuple[Label, Label, Label]]:
    return frozenset(
        (device, chunk, contributor)
        for device, rows in state.items()
        for chunk, contributors in rows.items()
        for contributor in contributors
    )
