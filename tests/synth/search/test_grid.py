"""Everything in a finite tree of choices: pruned and not, the answer is the same."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from puzzles import Row, Stopping, rows
from synth.search.grid import Product, grid
from synth.search.space import BestFound, Budget, Infeasible, NoneFound, Optimal, Price


def choices(row: Row) -> list[range]:
    return [range(len(one)) for one in row.alone]


def least(row: Row, slack: int) -> Callable[[tuple[int, ...]], Price]:
    """A bound of the completions of what is chosen so far, weaker by so much."""

    def bound(chosen: tuple[int, ...]) -> Price:
        every = [row.price(one) for one in row.states() if one[: len(chosen)] == chosen]
        feasible = [one for one in every if not isinstance(one, Infeasible)]
        if feasible:
            return max(0.0, min(feasible) - slack)
        nearest = min(one.excess for one in every if isinstance(one, Infeasible))
        return 0.0 if slack else Infeasible("all of these", nearest)

    return bound


@given(rows(), st.integers(0, 2))
def test_the_answer_is_that_of_trying_all_whatever_is_pruned(row: Row, slack: int) -> None:
    every = [(row.price(state), state) for state in row.states()]
    feasible = [(price, state) for price, state in every if not isinstance(price, Infeasible)]
    plain = grid(Product(choices(row), row.price))
    bounded = grid(Product(choices(row), row.price, least(row, slack)))
    if feasible:
        price, state = min(feasible)  # of equal prices the first in the order of choices
        assert plain == bounded == Optimal(state, price)
    else:
        nearest = min((one for one, _ in every), key=lambda one: one.excess)
        assert plain == bounded == nearest


def test_bounds_leave_out_what_cannot_be_better() -> None:
    priced = []

    def price(chosen: tuple[int, ...]) -> Price:
        priced.append(chosen)
        return float(sum(chosen))

    found = grid(Product([range(9)] * 3, price, lambda chosen: float(sum(chosen))))
    assert found == Optimal((0, 0, 0), 0.0)
    assert priced == [(0, 0, 0)]


@given(rows(), st.integers(1, 9))
def test_what_is_stopped_gives_the_best_so_far(row: Row, after: int) -> None:
    space = Product(choices(row), row.price)
    for budget, observer in ((Budget(after), None), (None, Stopping(after - 1))):
        found = grid(space, budget, observer)
        seen = [row.price(state) for state in row.states()[:after]]
        feasible = [one for one in seen if not isinstance(one, Infeasible)]
        match found:
            case Optimal():
                assert found.seconds == min(feasible)
                assert after >= len(row.states()) or not found.seconds
            case BestFound():
                assert (found.seconds, found.bound) == (min(feasible), 0.0)
            case NoneFound():
                assert not feasible
                assert after < 2 * len(row.states())
            case Infeasible():
                assert not feasible


def test_an_observer_hears_of_every_price() -> None:
    observer = Stopping(99)
    grid(Product([range(3)], lambda chosen: float(5 - chosen[0])), None, observer)
    assert observer.told == [(1, 5.0), (2, 4.0), (3, 3.0)]
