"""Pins against recipes that are written out, and against all recipes of a grid."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf

import pytest

from hierarchies import InputError
from synth.step.rows.grids import Extents, Knobs, list_recipes
from synth.step.search.hints import FARTHEST, find_least_memory, no_plan_error
from synth.step.search.pins import AXES, Pins, pin_value_of
from synth.step.sharding import Recipe, parse_recipe

EXTENTS = Extents(batch=32, tokens=64, megatron=8, vocabulary=96, experts=2, layers=8)
KNOWN = list(
    list_recipes(
        8, EXTENTS, Knobs(schedules=("1f1b", "zbv"), vocabulary=(True, False), chunks=(1, 2))
    )
)
WORDS = (*AXES, "zero", "microbatches", "chunks", "schedule", "remat", "sequence", "vocabulary")
STAGED = "pipe=2 data=2 tensor=2; batch over data; weights over tensor as Megatron; "
STAGED += "vocabulary over tensor; tokens over tensor; zero=1; "
STAGED += "schedule interleaved-1f1b, 2 chunks, 4 microbatches; remat layers"


def words_of(recipe: Recipe) -> dict[str, str]:
    """What pins may say of a recipe, from its fields."""
    answer = {True: "yes", False: "no"}
    axes = {name: str(size) for name, size in recipe.axes}
    return {
        **dict.fromkeys(AXES, "1"),
        **axes,
        "zero": str(recipe.zero),
        "microbatches": str(recipe.microbatches),
        "chunks": str(recipe.chunks),
        "schedule": recipe.schedule,
        "remat": answer[recipe.remat],
        "sequence": answer[recipe.tokens == "tensor"],
        "vocabulary": answer[recipe.vocabulary != ""],
    }


def test_a_pin_matches_the_clause_of_a_recipe() -> None:
    """``seq`` cuts tokens, too, and is no sequence parallelism."""
    said = {word: pin_value_of(parse_recipe(STAGED), word) for word in WORDS}
    axes = {"pipe": "2", "data": "2", "expert": "1", "seq": "1", "tensor": "2"}
    order = {"microbatches": "4", "chunks": "2", "schedule": "interleaved-1f1b"}
    assert said == {
        **axes,
        **order,
        "zero": "1",
        "remat": "yes",
        "sequence": "yes",
        "vocabulary": "yes",
    }
    context = parse_recipe("data=2 seq=2; batch over data; tokens over seq")
    assert [pin_value_of(context, word) for word in ("seq", "sequence", "tensor")] == [
        "2",
        "no",
        "1",
    ]


def test_all_words_of_a_recipe_pin_it_alone() -> None:
    """No two recipes of a grid say the same, and each has its own pins, read from their text."""
    said = [words_of(one) for one in KNOWN]
    assert len({tuple(one.values()) for one in said}) == len(KNOWN) > 300
    for recipe, words in list(zip(KNOWN, said, strict=True))[::29]:
        text = " ".join(f"{name}={value}" for name, value in words.items() if value)
        assert [one for one in KNOWN if Pins.parse(text).allow(one)] == [recipe]


def test_a_pin_allows_what_brute_force_finds() -> None:
    for word in WORDS:
        for value in {words_of(one)[word] for one in KNOWN} - {""}:
            pins = Pins.parse(f"{word}={value}")
            wanted = [one for one in KNOWN if words_of(one)[word] == value]
            assert [one for one in KNOWN if pins.allow(one)] == wanted, str(pins)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("bucket=25MB", 25_000_000),
        ("bucket=999999MB", 999_999_000_000),
        ("bucket=no", 0),
        ("", None),
    ],
)
def test_a_pinned_size_of_buckets_is_allowed_in_the_recipe_that_has_it(
    text: str, size_bytes: int | None
) -> None:
    pins = Pins.parse(text)
    assert pins.bucket_bytes == size_bytes
    recipe = parse_recipe("data=8; batch over data")
    sizes = (0, 24_900_000, 25_000_000, 26_000_000, 999_999_000_000)
    allowed = [size for size in sizes if pins.allow(replace(recipe, bucket_bytes=size))]
    assert allowed == [size for size in sizes if size_bytes in (None, size)]


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "", "yes", str(2**31), "²"])
@pytest.mark.parametrize("word", [*AXES, "microbatches", "chunks"])
def test_counts_are_whole_and_positive(word: str, value: str) -> None:
    with pytest.raises(InputError, match="not understood"):
        Pins.parse(f"{word}={value}")


@pytest.mark.parametrize("value", ["0MB", "025MB", "25", "25mb", "1000000MB", "yes", "2.5MB"])
def test_sizes_of_buckets_are_whole_megabytes(value: str) -> None:
    with pytest.raises(InputError, match="not understood"):
        Pins.parse(f"bucket={value}")


def test_a_repeated_setting_must_have_the_same_value() -> None:
    assert Pins.parse("zero=1, tensor=4; zero=1").values == {"zero": "1", "tensor": "4"}
    with pytest.raises(InputError, match="zero=1 and zero=2"):
        Pins.parse("zero=1 zero=2")


def test_the_smallest_sets_of_pins_come_first() -> None:
    pins = Pins.parse("zero=1 tensor=4 remat=no")
    names = [tuple(one.values) for one in pins.subsets()]
    assert names == [some for count in (1, 2, 3) for some in combinations(pins.values, count)]
    assert pins.without("tensor") == Pins.parse("zero=1 remat=no")


def test_values_are_reported_in_the_order_of_their_numbers() -> None:
    """Sixteen follows eight, and not one."""
    known = [parse_recipe(f"data={size}; batch over data") for size in (16, 2, 128, 8)]
    error = no_plan_error("m", 16, 32, Pins.parse("data=4"), known, lambda batch: False)
    assert error.hint == "data is one of 2, 8, 16, 128"


@pytest.mark.parametrize(
    ("devices", "batch", "divisible", "hint"),
    [
        (8, 3, 5, "a batch of 5"),  # none is no batch
        (8, 100, 97, "a batch of 97"),
        (8, 100, 91, "fewer or more devices"),  # 9 away from 8 devices
        (8, 100, 54, "a batch of 108"),  # as far as there are devices
        (10 * FARTHEST, 2 * FARTHEST, 3 * FARTHEST + 1, "fewer or more devices"),
    ],
)
def test_batches_are_looked_for_as_far_as_there_are_devices(
    devices: int, batch: int, divisible: int, hint: str
) -> None:
    looked: list[int] = []

    def possible(other: int) -> bool:
        looked.append(other)
        return other % divisible == 0

    error = no_plan_error("m", devices, batch, Pins({}), [], possible)
    assert error.hint is not None
    assert error.hint.partition(",")[0] == hint
    assert min(looked) > 0
    assert max(abs(batch - other) for other in looked) <= min(devices, FARTHEST)


class Sizes:
    """Stands for a composer: ``inf`` bytes are a recipe that cannot be."""

    def __init__(self, sizes: list[float]) -> None:
        self.left = sizes

    def size_bytes(self, recipe: Recipe) -> float:
        size = self.left.pop(0)
        if size == inf:
            raise InputError("cannot be")
        return size


def test_the_least_memory_is_of_what_can_be() -> None:
    recipe = KNOWN[0]
    assert find_least_memory(Sizes([inf, 7.0, 3.0, inf, 5.0]), [recipe] * 5) == 3.0  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no such plan"):
        find_least_memory(Sizes([inf, inf]), [recipe] * 2)  # type: ignore[arg-type]
