"""Every schedule on any numbers of ranks, microbatches and chunks, against a replay of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from exhaustive import sampled
from hierarchies import InputError
from order_replay import HELD, WAITING, most, parts, replayed
from synth.step.rows.grids import Extents, Knobs, list_recipes
from synth.step.schedules import (
    HALVES,
    SCHEDULES,
    V_SHAPED,
    Durations,
    PipelineSchedule,
    Transfers,
    check_sizes,
    chunks_of,
    count_held,
    time_schedule,
)
from synth.step.search.composing.clock import lay_out_stages
from synth.step.sharding import parse_recipe

Case = tuple[str, int, int, int]
CASES: list[Case] = [*product(SCHEDULES, range(1, 8), range(1, 16), (1, 2, 3))]
SECONDS = {"F": 1.0, "B": 2.25, "I": 1.5, "W": 0.75}


def order_of(case: Case) -> PipelineSchedule | None:
    """The order of a case; None if it is refused, which the check must say, too."""
    said = [refusal(check_sizes, *case), refusal(SCHEDULES[case[0]], *case[1:])]
    assert said[0] == said[1]
    return None if said[0] else SCHEDULES[case[0]](*case[1:])


def refusal(call: Callable[..., object], *given: object) -> str:
    try:
        call(*given)
    except InputError as error:
        return str(error)
    return ""


def stages_of(name: str, ranks: int, chunks: int) -> list[list[int]]:
    count = chunks_of(name, chunks)
    if name in V_SHAPED:
        return [[rank, 2 * ranks - 1 - rank] for rank in range(ranks)]
    return [[rank + turn * ranks for turn in range(count)] for rank in range(ranks)]


@sampled(150, seed=3, parts=4)
def test_a_schedule_matches_a_replay_of_its_text(
    sample: Callable[[Sequence[Case]], list[Case]],
) -> None:
    """Where stages are, that all is done once, when, and what is held meanwhile."""
    for case in sample(CASES):
        name, ranks, microbatches, chunks = case
        if (order := order_of(case)) is None:
            continue
        rows = [row.split() for row in str(order).splitlines()]
        stages = [sorted({parts(word)[0] for word in row}) for row in rows]
        assert stages == stages_of(name, ranks, chunks), case
        if name != "zero-bubble" or ranks * microbatches > 1:
            assert any("I" in row for row in map(str, order.actions)) == (name in HALVES), case
        words = [word for row in rows for word in row]
        assert len(words) == len({*words})
        for stage, microbatch in product(range(sum(map(len, stages))), range(microbatches)):
            kinds = {kind for kind in "FBIW" if f"{stage}{kind}{microbatch}" in {*words}}
            assert kinds in ({"F", "B"}, {"F", "I", "W"}), case
        share = ranks / sum(map(len, stages))
        times = replayed(rows, lambda word: share * SECONDS[parts(word)[1]], 0.5)  # noqa: B023
        durations = Durations(SECONDS["F"], SECONDS["B"], SECONDS["W"])
        found = time_schedule(order, durations.on(order), Transfers(0.5))
        for span in (span for row in found.ranks for span in row):
            told = span.begin_seconds, span.end_seconds
            assert told == pytest.approx(times[str(span.action)]), case
        assert order.held() == count_held(*case) == tuple(most(row, HELD) for row in rows), case
        assert order.waiting() == tuple(most(row, WAITING) for row in rows), case
        half = {"F": 1.0, "B": -1.0, "I": -0.5, "W": -0.5}
        assert order.held_with(0.5) == tuple(most(row, half) for row in rows), case
        lies = lay_out_stages(len(words), ranks, chunks_of(name, chunks), folded=name in V_SHAPED)
        assert [sorted(one) for one in lies.of_rank] == stages, case


def test_a_v_of_equal_passes_has_the_bubbles_of_its_papers() -> None:
    """ZB-V: none inside but (P - 1) passes at the ends; it holds what 1F1B's first rank holds."""
    for ranks, microbatches in product((1, 2, 3, 5, 6), (10, 13, 16)):
        order = SCHEDULES["zbv"](ranks, microbatches, 2)
        rows = [row.split() for row in str(order).splitlines()]
        times = replayed(rows, lambda word: 1.0)
        assert max(end for _, end in times.values()) == 6 * microbatches + ranks - 1
        assert max(order.held()) == min(2 * ranks, 2 * microbatches)
        if microbatches >= 2 * ranks - 1:
            assert min(order.held()) == max(order.held())


def test_zbv_of_few_microbatches_is_that_of_more_without_the_others() -> None:
    for ranks in (2, 3, 5):
        whole = str(SCHEDULES["zbv"](ranks, 2 * ranks - 1, 2)).splitlines()
        for microbatches in range(1, 2 * ranks - 1):
            few = str(SCHEDULES["zbv"](ranks, microbatches, 2)).splitlines()
            left = [
                [word for word in row.split() if parts(word)[2] < microbatches] for row in whole
            ]
            assert [row.split() for row in few] == left


def test_dualpipev_has_halves_at_its_ends_alone() -> None:
    """Rank r of P: P - 1 - r until the pairs begin, and the last P of its backward passes."""
    for ranks, more in product((1, 2, 3, 5, 6), (0, 1, 5)):
        order = SCHEDULES["dualpipev"](ranks, 2 * ranks + more, 2)
        for rank, row in enumerate(str(order).splitlines()):
            back = [word for word in row.split() if parts(word)[1] in "BI"]
            kinds = "".join(parts(word)[1] for word in back)
            assert kinds == (
                "I" * (ranks - 1 - rank) + "B" * (len(back) - 2 * ranks + 1 + rank) + "I" * ranks
            )


@pytest.mark.parametrize("name", V_SHAPED)
def test_v_shaped_schedules_appear_in_plans(name: str) -> None:
    text = f"pipe=3; schedule {name}, 7 microbatches"
    recipe = parse_recipe(text)
    assert (recipe.chunks, recipe.stages, str(recipe)) == (2, 6, text)
    assert parse_recipe(f"pipe=3; schedule {name}, 2 chunks, 7 microbatches") == recipe
    with pytest.raises(InputError, match=f"schedule {name} has two stages a rank, not 4 chunks"):
        parse_recipe(f"pipe=3; schedule {name}, 4 chunks, 7 microbatches")


def test_every_recipe_of_a_grid_has_an_order() -> None:
    """For numbers that are no powers of two, too: none is refused when its order is made."""
    for batch, layers, devices in ((12, 12, 6), (15, 30, 5), (14, 28, 7), (36, 12, 3)):
        knobs = Knobs(
            degrees=(1, 3, 5, 6, 7), axes=("pipe", "data"), schedules=tuple(SCHEDULES),
            microbatches=range(1, 37), zero=(0,), remat=(False,), uneven=True,
        )  # fmt: skip
        found = list(list_recipes(devices, Extents(batch, layers=layers), knobs))
        staged = [one for one in found if one.schedule]
        assert {one.schedule for one in staged} >= {*SCHEDULES} - {"dualpipev"}
        for one in staged:
            order = SCHEDULES[one.schedule](dict(one.axes)["pipe"], one.microbatches, one.chunks)
            assert order.stages == one.stages
