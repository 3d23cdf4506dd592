"""Orders against their brute-force enumeration, and everything that is refused."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations, product
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hierarchies import InputError
from manual import DOCS
from synth.cli.app import app
from synth.step.schedules import (
    SCHEDULES,
    V_SHAPED,
    Action,
    Pass,
    PipelineSchedule,
    parse_schedule,
    to_csv,
)

Rows = tuple[tuple[str, ...], ...]


def can_run(rows: Rows) -> bool:
    """The judge: words only, what each needs and what its row has before, without a circle."""
    graph = nx.DiGraph()
    last = len(rows) - 1
    for stage, row in enumerate(rows):
        nx.add_path(graph, row)
        for word in row:
            kind, microbatch = re.fullmatch(r"\d+([FB])(\d+)", word).groups()  # type: ignore[union-attr]
            if kind == "F" and stage:
                graph.add_edge(f"{stage - 1}F{microbatch}", word)
            if kind == "B":
                before = f"{stage + 1}B" if stage < last else f"{stage}F"
                graph.add_edge(before + microbatch, word)
                graph.add_edge(f"{stage}F{microbatch}", word)
    return nx.is_directed_acyclic_graph(graph)


def accepted(rows: Rows) -> bool:
    try:
        order = parse_schedule("\n".join(map(" ".join, rows)))
    except InputError:
        return False
    assert str(order) == "\n".join(map(" ".join, rows))
    return True


def of_a_stage(stage: int, microbatches: int, every: bool = False) -> list[tuple[str, ...]]:
    """All permutations of its passes, or those with F before B."""
    words = [f"{stage}{kind}{m}" for kind in "FB" for m in range(microbatches)]
    return [
        row
        for row in permutations(words)
        if every
        or all(row.index(f"{stage}F{m}") < row.index(f"{stage}B{m}") for m in range(microbatches))
    ]


@pytest.mark.parametrize(
    ("stages", "microbatches", "valid", "of"),
    [
        (1, 1, 1, 1),
        (1, 2, 6, 6),
        (1, 3, 90, 90),
        (2, 1, 1, 1),
        (3, 1, 1, 1),
        (4, 1, 1, 1),
        (2, 2, 26, 36),
        (3, 2, 106, 216),
        pytest.param(2, 3, 3750, 8100, marks=pytest.mark.slow),
    ],
)
def test_counts_of_valid_orders(stages: int, microbatches: int, valid: int, of: int) -> None:
    every = list(product(*(of_a_stage(stage, microbatches) for stage in range(stages))))
    assert len(every) == of
    found = [accepted(rows) for rows in every]
    assert found == [can_run(rows) for rows in every]
    assert sum(found) == valid


@pytest.mark.parametrize(("stages", "microbatches", "valid"), [(1, 1, 1), (1, 2, 6), (2, 1, 1)])
def test_of_all_permutations_those_are_valid(stages: int, microbatches: int, valid: int) -> None:
    every = list(product(*(of_a_stage(stage, microbatches, True) for stage in range(stages))))
    assert [accepted(rows) for rows in every] == [can_run(rows) for rows in every]
    assert sum(map(accepted, every)) == valid


SIZES = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
NAMES = st.sampled_from(sorted(SCHEDULES))


@st.composite
def orders(draw: st.DrawFn) -> PipelineSchedule:
    (ranks, rounds, chunks), name = draw(SIZES), draw(NAMES)
    return SCHEDULES[name](ranks, ranks * rounds * (1 + (name in V_SHAPED)), chunks)


@given(orders(), st.integers(0, 9))
def test_an_order_reads_back(order: PipelineSchedule, seed: int) -> None:
    """With spaces, as CSV, and as PyTorch dumps it: with empty cells where a rank has to wait."""
    assert parse_schedule(str(order)) == order
    assert parse_schedule(to_csv(order)) == order
    random = Random(seed)
    lines = [line.split(",") for line in to_csv(order).splitlines()]
    gaps = [[cell for one in line for cell in (*[""] * random.randrange(3), one)] for line in lines]
    assert parse_schedule("\r\n".join(map(",".join, gaps))) == order


@given(orders(), st.data())
def test_a_damaged_order_is_refused(order: PipelineSchedule, data: st.DataObject) -> None:
    """An action left out, doubled, put on another rank, or of another kind."""
    rows = [list(row) for row in order.ranks]
    rank = data.draw(st.integers(0, len(rows) - 1))
    place = data.draw(st.integers(0, len(rows[rank]) - 1))
    damage = data.draw(st.sampled_from(["left out", "doubled", "moved", "changed"]))
    action = rows[rank][place]
    if damage == "left out":
        del rows[rank][place]
    elif damage == "doubled":
        rows[rank].insert(data.draw(st.integers(0, len(rows[rank]))), action)
    elif damage == "moved":
        rows.append([rows[rank].pop(place)])
    else:
        other = data.draw(st.sampled_from([kind for kind in Pass if kind is not action.kind]))
        rows[rank][place] = Action(action.stage, other, action.microbatch)
    with pytest.raises(InputError):
        PipelineSchedule(tuple(map(tuple, rows)))


def test_a_pair_that_overlaps_is_its_two_actions() -> None:
    one = parse_schedule("0F0,(0F1;0B0)OVERLAP_F_B,,0B1")
    assert one == parse_schedule("0F0 0F1 0B0 0B1")


CIRCLE = (
    "no rank can continue: 0B0 needs 1B0, rank 1 runs 1F1 before 1B0, 1F1 needs 0F1, "
    "rank 0 runs 0B0 before 0F1; swap the two on one of the ranks"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an order without ranks; a line for each rank, as in 0F0 0B0"),
        ("0F0 0B0\n\n1F0 1B0", "rank 1 has no actions; give each rank a stage"),
        (",,\n0F0,0B0", "rank 0 has no actions; give each rank a stage"),
        (
            "0F0 0X0",
            "line 1, action 2: '0X0' is not an action; stage, F, B, I or W, and microbatch, ",
        ),
        ("0F0 0B", "line 1, action 2: '0B' is not an action"),
        ("0F0,0F٣", "line 1, action 2: '0F٣' is not an action"),
        ("0F1234567 0B0", "line 1, action 1: '0F1234567' is not an action"),
        ("0F0,(0B0;)OVERLAP_F_B", "line 1, action 2: '' is not an action"),
        (
            "0UNSHARD,0F0,0B0",
            "line 1, action 1: '0UNSHARD' is communication; give the order without comm",
        ),
        ("0F0 0SEND_F0 0B0", "line 1, action 2: '0SEND_F0' is communication"),
        (
            "0F0 0B0\n2F0 2B0",
            "stage 1 has no actions, stage 2 has; stages are numbered from 0 without gaps",
        ),
        ("0F0 0B0 999999F0", "stage 1 has no actions, stage 999999 has"),
        (
            "0F0 0B0 1F0\n1B0",
            "stage 1 is on rank 0 and, by 1B0, on rank 1; all passes of a stage run on the rank of",
        ),
        ("0F0 0F0 0B0", "rank 0 has 0F0 twice"),
        (
            "0F0 0F2 0B0 0B2",
            "rank 0: 0F1 is missing; microbatches are 0 to 2",
        ),
        ("0F0 0B0 0F999999", "rank 0: 0F1 is missing; microbatches are 0 to 999999"),
        ("0F0 0F1 0B0", "rank 0: 0B1 is missing; microbatches are 0 to 1"),
        ("0B0", "rank 0: 0F0 is missing"),
        (
            "0F0 0B0 0I0",
            "rank 0: 0B0 and 0I0 repeat each other; write a backward pass as B, or as",
        ),
        (
            "0F0 0I0",
            "rank 0: 0W0 is missing, as there is 0I0; write a backward pass as B, or as",
        ),
        ("0F0 0W0", "rank 0: 0I0 is missing, as there is 0W0"),
        ("0F0 0B1 0F1 0B0", "rank 0: 0B1 comes before 0F1; 0B1 needs the result of 0F1"),
        ("0F0 0W0 0I0", "rank 0: 0W0 comes before 0I0; 0W0 needs the result of 0I0"),
        (
            "0F0 0B0 0F1 0B1\n1F0 1F1 1B1 1B0",
            CIRCLE,
        ),
        ("1F0 0F0 1B0 0B0", "no rank can continue: 1F0 needs 0F0, rank 0 runs 1F0 before 0F0"),
    ],
)
def test_invalid_orders_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_schedule(text)
    assert str(error.value).startswith(said)


def test_the_page_shows_a_circle_as_it_is_reported() -> None:
    page = (DOCS / "pipeline-orders.md").read_text(encoding="utf-8")
    [text] = re.findall(r"printf '([^']*)' [|] collsynth order -", page)
    said = CliRunner().invoke(app, ["order", "-"], input=text.replace(r"\n", "\n"))
    assert said.exit_code == 2
    assert f"\n    {said.stderr}" in page


def test_the_page_shows_ranks_that_wait_for_each_other_s_receives() -> None:
    page = (DOCS / "pipeline-orders.md").read_text(encoding="utf-8")
    [text] = re.findall(r"printf '([^']*)' > comms[.]csv", page)
    said = CliRunner().invoke(app, ["order", "-"], input=text.replace(r"\n", "\n"))
    assert said.exit_code == 2
    assert f"\n    {said.stderr}" in page


def test_losses_out_of_order_are_not_returned() -> None:
    order = parse_schedule("0F0 0F1 0B0 0B1\n1F1 1F0 1B0 1B1")
    with pytest.raises(InputError, match=r"runs 1F1, which PyTorch.s runtime takes for 1F0"):
        to_csv(order)


@given(orders())
def test_an_order_s_numbers(order: PipelineSchedule) -> None:
    assert Counter(action.stage for action in order.actions).keys() == set(range(order.stages))
    each = Counter(action.kind for action in order.actions)
    assert each[Pass.FORWARD] == order.stages * order.microbatches
    assert each[Pass.BACKWARD] + each[Pass.INPUT] == each[Pass.FORWARD]
    assert each[Pass.INPUT] == each[Pass.WEIGHT]
    assert [order.actions[n] for n in order.numbers.values()] == list(order.actions)
