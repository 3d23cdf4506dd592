"""Sections: one kernel between products, attention at its own rate, never below a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grammar.tensors.operations import Operation, Value
from grammar.tensors.sharding import Type
from hierarchies.devices import device_named
from results.steps.attention import Attention, attention_estimate
from synth.compute import (
    NOTHING,
    Estimate,
    Section,
    estimate_operation,
    is_scores,
    scores_of,
    section_estimate,
    section_parts,
    sum_estimates_of_section,
)

H100 = device_named("H100 SXM5 80 GB")
WIDE = Type("bf16", (4096, 8192))


def chain(length: int) -> list[Operation]:
    values = [Value(f"v{at}", WIDE) for at in range(length + 1)]
    return [Operation("tanh", (values[at],), (values[at + 1],)) for at in range(length)]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_chain_reads_once_and_writes_once(length: int) -> None:
    """However long it is; one by one each would read and write."""
    operations = chain(length)
    found = section_estimate(Section(tuple(operations), frozenset((f"v{length}",))), H100)
    assert found.seconds == pytest.approx(estimate_operation(operations[0], H100).seconds)
    alone = sum(estimate_operation(one, H100).seconds for one in operations)
    assert found.seconds <= alone * (1 + 1e-9)
    assert found.low <= found.seconds <= found.high


def test_stored_results_are_written() -> None:
    operations = tuple(chain(2))
    one, both = (
        section_estimate(Section(operations, frozenset(kept)), H100).seconds
        for kept in (("v2",), ("v1", "v2"))
    )
    assert both - one == pytest.approx(0.5 * (one - H100.launch_seconds))


def test_constants_are_not_read() -> None:
    add = Operation("add", (Value("x", WIDE), Value("c", WIDE)), (Value("y", WIDE),))
    plain, known = (
        section_estimate(Section((add,), frozenset("y"), constants), H100).seconds
        for constants in (frozenset(), frozenset("c"))
    )
    assert known < plain


def products(heads: int, length: int, width: int) -> tuple[Operation, ...]:
    """Scores of queries and keys, masked, their exponentials, and what these take of values."""
    query, key, value = (Value(n, Type("bf16", (heads, length, width))) for n in ("q", "k", "v"))
    scores, masked, weight = (Value(n, Type("bf16", (heads, length, length))) for n in "smw")
    mask = Value("mask", Type("bool", (heads, length, length)))
    out = Value("o", query.type)
    told = ((((2,), (2,)), ((0,), (0,))), (((2,), (1,)), ((0,), (0,))))
    first, second = ((("dimension_numbers", one),) for one in told)
    return (
        Operation("dot_general", (query, key), (scores,), first),
        Operation("select_n", (mask, scores, scores), (masked,)),
        Operation("exp", (masked,), (weight,)),
        Operation("dot_general", (weight, value), (out,), second),
    )


def test_scores_are_known_by_their_size() -> None:
    operations = products(8, 4096, 128)
    assert scores_of(operations) == {(8, 4096, 4096)}
    assert is_scores(Type("f32", (1, 4096, 8, 4096)), scores_of(operations))
    assert not is_scores(Type("f32", (8, 4096, 128)), scores_of(operations))
    assert not scores_of(products(8, 64, 128))
    assert not scores_of(operations[:1])  # without a softmax: experts make as much of their tokens


@pytest.mark.parametrize("length", [2048, 8192])
def test_products_with_scores_are_flash_attention(length: int) -> None:
    """As told as one operation; masked, so half of it."""
    operations = products(16, length, 128)
    found = section_estimate(
        Section(operations, frozenset("o")), H100, scores=scores_of(operations)
    )
    told = attention_estimate(Attention(16, length, length, 128, causal=True), H100)
    assert found.seconds == pytest.approx(told.seconds)
    plain = section_estimate(Section(operations, frozenset("o")), H100)
    assert plain.seconds > found.seconds


def test_measured_seconds_take_precedence_and_the_rest_counts_by_its_share() -> None:
    section = Section(tuple(chain(3)), frozenset(("v3",)))
    told, plain = Estimate(1.0, 0.9, 1.1, "measured"), section_estimate(section, H100)
    assert section_estimate(replace(section, measured=told, rest=0.0), H100) == told
    partly = section_estimate(replace(section, measured=told, rest=0.25), H100)
    assert partly == sum_estimates_of_section((told, plain.times(0.25)))
    assert partly.how == "roofline"


def test_a_framework_s_factor_lengthens_what_was_not_measured() -> None:
    slow = replace(H100, compute_factor=1.5)
    section = Section(tuple(chain(3)), frozenset(("v3",)))
    usual = section_estimate(section, H100)
    assert section_estimate(section, slow) == usual.times(1.5)
    assert section_parts(section, slow)[0] == usual.times(1.5)
    told = Estimate(1.0, 0.9, 1.1, "measured")
    half = replace(section, measured=told, rest=0.5)
    assert section_estimate(half, slow).seconds == 1.0 + 0.75 * usual.seconds
    assert section_estimate(replace(section, measured=told, rest=0.0), slow) == told


@pytest.mark.parametrize("rest", [0.0, 0.25, 1.0])
def test_parts_of_a_section_add_up_to_it_however_it_is_known(rest: float) -> None:
    told = Estimate(1.0, 0.9, 1.1, "measured") if rest < 1 else NOTHING
    section = Section(tuple(chain(3)), frozenset(("v3",)), measured=told, rest=rest)
    whole, *both = section_parts(section, H100)
    assert whole == section_estimate(section, H100)
    for end in ("seconds", "low", "high"):
        assert sum(getattr(one, end) for one in both) == pytest.approx(getattr(whole, end))
