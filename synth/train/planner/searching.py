"""The plans of a job on a machine, searched: all recipes on all placements, the cheapest first.

Memory needs no links, so what does not fit is put aside first. What is left has a bound, with links
that nothing can beat; plans are priced in the order of their bounds until no bound is below the
last of the ``k`` cheapest. So the cheapest by these prices are found as if all were priced, and
nothing is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hierarchies import InputError, System, placements
from synth.plan.request import Watcher
from synth.train.choice.grids import Extents, Knobs, recipes
from synth.train.planner.composing import Candidate, Composer, axes_of
from synth.train.planner.links import Links

AT_ONCE = 32
"""Plans that are priced before the next bound is looked at."""


@dataclass(frozen=True)
class Composed:
    """A plan with what it is expected to take: seconds of a step, bytes of the fullest device."""

    candidate: Candidate
    seconds: float
    size_bytes: float


@dataclass(frozen=True)
class Searched:
    """The cheapest that fit, the first of equal ones first, and what became of the others.

    ``nearest`` needs the least memory of those that do not fit. ``refused``: reasons, and of how
    many plans each is. ``complete``: whether all was looked at.
    """

    best: tuple[Composed, ...]
    plans: int
    fitting: int
    priced: int
    nearest: tuple[Candidate, float] | None
    refused: tuple[tuple[str, int], ...]
    complete: bool


def candidates(system: System, extents: Extents, knobs: Knobs) -> Iterator[Candidate]:
    """Every recipe on every placement of its axes, in a stable order."""
    placed: dict[tuple[tuple[str, int], ...], list[tuple[tuple[int, ...], ...]]] = {}
    for recipe in recipes(system.devices, extents, knobs):
        if recipe.axes not in placed:
            every = placements(system.hierarchy, axes_of(recipe))
            placed[recipe.axes] = [one.matrix for one in every]
        for matrix in placed[recipe.axes]:
            yield Candidate(recipe, matrix)


def searched(
    composer: Composer,
    several: Sequence[Candidate],
    memory_bytes: float,
    links: Links,
    least: Links,
    k: int,
    watcher: Watcher,
) -> Searched:
    """The ``k`` cheapest of several plans that need no more memory than there is."""
    fitting: list[tuple[Candidate, float]] = []
    nearest: tuple[Candidate, float] | None = None
    refused: Counter[str] = Counter()
    complete = True
    for number, one in enumerate(several):
        watcher.placed(number, len(several))
        if number and not watcher.go_on():
            complete = False
            break
        try:
            size = composer.size_bytes(one)
        except InputError as error:
            refused[error.problem] += 1
            continue
        if size <= memory_bytes:
            fitting.append((one, size))
        elif nearest is None or size < nearest[1]:
            nearest = one, size
    bounds = composer.seconds([one for one, _ in fitting], least)
    order = sorted(range(len(fitting)), key=bounds.__getitem__)
    found: list[tuple[float, int]] = []
    priced = 0
    for at in range(0, len(order), AT_ONCE):
        some = order[at : at + AT_ONCE]
        if len(found) >= k and bounds[some[0]] >= found[k - 1][0]:
            break
        if found and not watcher.go_on():
            complete = False
            break
        took = composer.seconds([fitting[number][0] for number in some], links)
        found = sorted([*found, *zip(took, some, strict=True)])
        priced += len(some)
    return Searched(
        tuple(Composed(fitting[number][0], took, fitting[number][1]) for took, number in found[:k]),
        len(several),
        len(fitting),
        priced,
        nearest,
        tuple(refused.most_common()),
        complete,
    )
