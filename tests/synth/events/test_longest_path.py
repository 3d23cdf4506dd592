"""Tasks in a given order on each resource: the laws of a longest path, and circles shown."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.events import Course, Engine
from synth.events.longest_path import (
    CircleError,
    TaskOrder,
    arrange_tasks,
    time_tasks,
)

Tasks = tuple[list[list[int]], list[list[int]]]


@st.composite
def tasks(draw: st.DrawFn, circles: bool = False) -> Tasks:
    """Up to nine tasks on up to three resources, or on none, and on a fourth that is needed beside
    these; without circles unless asked for.
    """
    count = draw(st.integers(1, 9))
    others = st.integers(0, count - 1)
    before = [
        sorted(draw(st.sets(others, max_size=3)) - {task})
        if circles
        else sorted(one for one in draw(st.sets(others, max_size=3)) if one < task)
        for task in range(count)
    ]
    places = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    queues = [[task for task in range(count) if places[task] == place] for place in range(3)]
    queues += [sorted(draw(st.sets(others, max_size=4)))]
    return before, [draw(st.permutations(queue)) for queue in queues] if circles else queues


def graph_of(given: Tasks) -> nx.DiGraph:
    before, queues = given
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(before)))
    graph.add_edges_from((one, task) for task, some in enumerate(before) for one in some)
    for queue in queues:
        graph.add_edges_from(pairwise(queue))
    return graph


SECONDS = st.lists(st.integers(0, 20).map(lambda n: n / 4), min_size=9, max_size=9)


def ends_of(done: TaskOrder, seconds: list[float]) -> list[float]:
    begins, ends = time_tasks(done, seconds)
    assert [begin + one for begin, one in zip(begins, seconds, strict=True)] == ends
    return ends


class Unmoved:
    """Nothing is moved: items only wait."""

    def change(
        self, leaving: Collection[int], arriving: Collection[int], now: float
    ) -> list[tuple[int, float]]:
        assert not leaving
        assert not arriving
        return []


@given(tasks(), SECONDS)
def test_ends_are_longest_paths(given_: Tasks, seconds: list[float]) -> None:
    """A judge written apart: each task's end by the tasks behind it, looked at by themselves."""
    before, queues = given_
    ends = ends_of(arrange_tasks(before, queues), seconds[: len(before)])
    graph = graph_of(given_)
    for task, end in enumerate(ends):
        behind = graph.subgraph({task, *nx.ancestors(graph, task)})
        longest: dict[int, float] = {}
        for one in nx.topological_sort(behind):
            longest[one] = seconds[one] + max(map(longest.__getitem__, behind.pred[one]), default=0)
        assert end == longest[task]


@given(tasks(), SECONDS)
def test_ends_are_the_event_engine_s(given_: Tasks, seconds: list[float]) -> None:
    """A judge that shares no code: there too an order is written as who comes before whom."""
    before, queues = given_
    n = len(before)
    done = arrange_tasks(before, queues)
    engine = Engine(
        Course([1] * n, seconds[:n], [False] * n, list(map(done.waits, range(n)))), Unmoved()
    )
    list(engine.moments())
    assert [ends[0] for ends in engine.ends] == ends_of(done, seconds[:n])


@given(tasks(), SECONDS, st.integers(0, 8), st.integers(1, 9))
def test_laws_of_the_clock(given_: Tasks, seconds: list[float], which: int, more: int) -> None:
    """Monotone in every duration; never below the busiest resource nor the longest chain."""
    before, queues = given_
    n = len(before)
    done = arrange_tasks(before, queues)
    ends = ends_of(done, seconds[:n])
    slower = [one + more * (task == which) for task, one in enumerate(seconds[:n])]
    assert all(map(float.__le__, ends, ends_of(done, slower)))
    free = ends_of(arrange_tasks(before, []), seconds[:n])
    busiest = max(sum(seconds[task] for task in queue) for queue in queues)
    assert max(ends) >= max(busiest, *free)


@given(tasks(circles=True))
def test_a_circle_is_found_where_there_is_one(given_: Tasks) -> None:
    before, queues = given_
    graph = graph_of(given_)
    if nx.is_directed_acyclic_graph(graph):
        places = {task: place for place, task in enumerate(arrange_tasks(before, queues).sequence)}
        assert all(places[one] < places[task] for one, task in graph.edges)
        return
    with pytest.raises(CircleError) as error:
        arrange_tasks(before, queues)
    circle = error.value.tasks
    assert len(set(circle)) == len(circle)
    for task, needed in zip(circle, (*circle[1:], circle[0]), strict=True):
        earlier = any(
            {task, needed} <= {*queue} and queue.index(needed) < queue.index(task)
            for queue in queues
        )
        assert needed in before[task] or earlier


def test_tasks_that_wait_for_each_other_are_named() -> None:
    with pytest.raises(CircleError, match="tasks wait for each other: 0 > 3 > 2 > 1"):
        arrange_tasks([[3], [], [1], []], [[0, 1], [2, 3]])


def test_nothing_takes_no_time() -> None:
    assert arrange_tasks([], []) == TaskOrder([], [], [])
    assert ends_of(arrange_tasks([], []), []) == []
