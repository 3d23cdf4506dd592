"""Layers cut into stages, against trying every cut."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from synth.search.space import Infeasible, Optimal, Price
from synth.search.stage_cuts import cut_stages


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(0, 40),
)
def test_it_is_trying_all(layers: list[tuple[int, int]], stages: int, memory: int) -> None:
    """The first stages hold more of what their layers keep, as in 1F1B."""

    def price(begin: int, end: int, stage: int) -> Price:
        held = sum(bytes_ for _, bytes_ in layers[begin:end]) * (stages - stage)
        if held > memory:
            return Infeasible(f"stage {stage} holds {held}", held - memory)
        return float(sum(seconds for seconds, _ in layers[begin:end]))

    def parts(cuts: tuple[int, ...]) -> list[Price]:
        return [price(*ends, at) for at, ends in enumerate(zip((0, *cuts), cuts, strict=False))]

    found = cut_stages(len(layers), stages, price)
    every = [(*one, len(layers)) for one in combinations(range(1, len(layers)), stages - 1)]
    if not every:
        assert found == Infeasible(
            f"{stages} stages of {len(layers)} layers: a stage would be empty",
            stages - len(layers),
        )
        return
    feasible = [one for one in map(parts, every) if not any(isinstance(p, Infeasible) for p in one)]
    if feasible:
        assert isinstance(found, Optimal)
        assert found.seconds == max(parts(found.state)) == min(map(max, feasible))
    else:
        worst = [max(p.excess for p in map(_over, parts(one)) if p) for one in every]
        assert isinstance(found, Infeasible)
        assert found.excess == min(worst)
        assert str(int(found.excess) + memory) in found.because


def _over(price: Price) -> Infeasible | None:
    return price if isinstance(price, Infeasible) else None
