"""Paths of moves put to z3: right ones are proved for every size, wrong ones refuted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from math import prod
from re import findall

import numpy as np
import pytest

from each import each
from exhaustive import Sample, sampled
from grammar.tensors.sharding import ReductionKind, Sharding, Split, Type, shardings
from places import TESTS
from redistribution_proof import Proved, Unknown, Wrong, prove
from replicas import carry_out, cut, mismatch
from synth.step.redistribution import MoveKind, RedistributionPath, ShardingMove, find_path

TWO = {"data": 2, "model": 3}
THREE = {"data": 2, "model": 3, "seq": 2}


def paths(
    sizes: Mapping[str, int], kind: ReductionKind = ReductionKind.SUM
) -> Iterator[RedistributionPath]:
    value = Type("f32", (prod(sizes.values()),) * 2)
    for pair in permutations(shardings(2, tuple(sizes), [kind]), 2):
        yield find_path(value, *pair, sizes)


def widened(one: Sharding, other: Sharding, axes: Mapping[str, int]) -> bool:
    """Whether the other is the one with some blocks read as partial: zeros written around them."""
    for axis in axes:
        was, now = one.along(axis), other.along(axis)
        if was != now and not (isinstance(was, Split) and isinstance(now, ReductionKind)):
            return False
    return all(
        kept == axes_of[: len(kept)]
        for axes_of, kept in zip(one.dimensions, other.dimensions, strict=True)
    )


def test_all_paths_over_two_axes_are_proved() -> None:
    verdicts = [prove(path, axes=tuple(TWO)) for path in paths(TWO)]
    assert len(verdicts) == 306
    assert all(isinstance(verdict, Proved) for verdict in verdicts)


@pytest.mark.parametrize("kind", [ReductionKind.MAX, ReductionKind.MIN])
def test_paths_of_maxima_and_minima_are_proved(kind: ReductionKind) -> None:
    for path in list(paths(TWO, kind))[::15]:
        assert isinstance(prove(path, axes=tuple(TWO)), Proved), path


@sampled(40, seed=1, parts=8)
def test_paths_over_three_axes_are_proved(sample: Sample) -> None:
    value = Type("f32", (prod(THREE.values()),) * 2)
    for pair in sample(list(permutations(shardings(2, tuple(THREE), [ReductionKind.SUM]), 2))):
        path = find_path(value, *pair, THREE)
        assert isinstance(prove(path, axes=tuple(THREE)), Proved), path


@sampled(150, seed=2, parts=4)
def test_every_wrong_target_is_refuted(sample: Sample) -> None:
    """But a block with zeros around it: the same contributions, of which z3 sees no shape."""
    every = list(shardings(2, tuple(TWO), [ReductionKind.SUM]))
    narrow = [path for path in paths(TWO) if all(m.how is not MoveKind.WIDEN for m in path.moves)]
    for path, target in sample([(path, one) for path in narrow for one in every]):
        verdict = prove(path, target, axes=tuple(TWO))
        right = widened(path.target, target, TWO)
        assert isinstance(verdict, Proved if right else Wrong), (path, target)


def test_moves_over_other_axes_are_refuted_by_both_judges() -> None:
    """Of a fused request an axis is forgotten; the arrays and z3 alike say that it is wrong."""
    value, draw = np.arange(36.0, dtype=np.float32).reshape(6, 6) / 8, np.random.default_rng(4)
    seen = 0
    for path in paths(TWO):
        for place, move in enumerate(path.moves):
            if len(move.axes) == 1:
                continue
            damaged = replace(move, axes=move.axes[1:])
            moves = (*path.moves[:place], damaged, *path.moves[place + 1 :])
            wrong = RedistributionPath(path.source, path.target, moves)
            verdict = prove(wrong, axes=tuple(TWO))
            parts = cut(value, path.source, TWO, draw)
            try:
                problem = mismatch(carry_out(wrong, parts, TWO), value, path.target, TWO)
            except ValueError as error:
                problem = str(error)
            # z3 sees no shapes: what is left of a permute would be an exchange of uneven pieces.
            assert isinstance(verdict, Wrong) or move.how is MoveKind.PERMUTE, str(damaged)
            assert problem is not None, str(damaged)
            seen += 1
    assert seen > 40


def test_an_axis_in_another_order_is_refuted() -> None:
    one, other = Sharding((("data", "model"), ())), Sharding((("model", "data"), ()))
    path = find_path(Type("f32", (6, 6)), one, other, TWO)
    assert isinstance(prove(path), Proved)
    assert prove(path, one) == Wrong(None, "a device holds what is outside its block")


def test_axes_minor_to_those_that_change_places_keep_their_blocks() -> None:
    one, other = Sharding((("a", "b", "c"),)), Sharding((("b", "a", "c"),))
    path = find_path(Type("f32", (30,)), one, other, {"a": 2, "b": 3, "c": 5})
    [move] = path.moves
    assert (move.how, move.axes) == (MoveKind.PERMUTE, ("a", "b"))
    assert isinstance(prove(path), Proved)
    assert isinstance(prove(path, one), Wrong)


def test_exchanged_axes_are_proved_for_every_size_that_they_share() -> None:
    sizes = {"data": 2, "model": 2}
    pair = Sharding((("data",), ("model",))), Sharding((("model",), ("data",)))
    path = find_path(Type("f32", (4, 4)), *pair, sizes)
    assert [move.how for move in path.moves] == [MoveKind.PERMUTE]
    assert isinstance(prove(path), Proved)


def test_replicas_are_masked_before_they_are_added_up() -> None:
    whole = Sharding(((),))
    partial = whole.laid("data", ReductionKind.SUM)
    summed = ShardingMove(MoveKind.ALL_REDUCE, ("data",), partial, whole)
    masked = ShardingMove(MoveKind.MASK, ("data",), whole, partial)
    assert isinstance(prove(RedistributionPath(whole, whole, (masked, summed))), Proved)
    verdict = prove(RedistributionPath(whole, whole, (replace(masked, how=MoveKind.WIDEN), summed)))
    assert isinstance(verdict, Wrong)
    assert verdict.move == summed
    assert verdict.reason.endswith("a contribution would be added twice")


def test_too_little_effort_is_no_verdict() -> None:
    path = next(paths(TWO))
    assert isinstance(prove(path, effort=1), Unknown)


@each(("judge", "knows"), [("replicas", {"moves"}), ("redistribution_proof", {"moves", "verdict"})])
def test_judges_share_nothing_with_the_rules_nor_with_each_other(
    judge: str, knows: set[str]
) -> None:
    text = (TESTS / f"{judge}.py").read_text(encoding="utf-8")
    assert set(findall(r"(?m)^(?:from|import) synth\.?(?:.*\.)?(\w+)", text)) == knows
    assert not findall(r"(?m)^from (?:replicas|redistribution_proof) ", text)
