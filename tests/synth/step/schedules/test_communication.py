"""Orders with their sends and receives: PyTorch's own, shuffled ones, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.util import find_spec
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from forking import FLEET, torch_python
from hierarchies import InputError
from order_replay import carried_out
from synth.step.schedules import (
    SCHEDULES,
    V_SHAPED,
    CommSchedule,
    Durations,
    PipelineSchedule,
    TransferProtocol,
    Transfers,
    parse_comm_schedule,
    time_schedule,
)

EAGER, MET = TransferProtocol.EAGER, TransferProtocol.RENDEZVOUS


def with_transfers(order: PipelineSchedule, random: Random, swaps: int) -> list[list[str]]:
    """The words of an order, each receive with its send; then receives moved on their ranks.

    Every receive stays before its reader.
    """
    rows: list[list[str]] = [[] for _ in order.ranks]
    left = [list(row) for row in order.ranks]
    done = set()
    while any(left):
        for rank, row in enumerate(left):
            while row and done.issuperset(order.needs(row[0])):
                action = row.pop(0)
                done.add(action)
                rows[rank].append(str(action))
                stage, kind = action.stage, action.kind.value
                other = stage + (1 if kind == "F" else -1)
                if kind == "W" or order.rank_of.get(other, rank) == rank:
                    continue
                way = "F" if kind == "F" else "B"
                rows[rank].append(f"{stage}SEND_{way}{action.microbatch}")
                rows[order.rank_of[other]].append(f"{other}RECV_{way}{action.microbatch}")
    for _ in range(swaps):
        row = random.choice(rows)
        place = random.randrange(len(row))
        if "RECV" not in row[place]:
            continue
        stage, rest = row[place].split("RECV_")
        readers = [f"{stage}{kind}{rest[1:]}" for kind in ("F" if rest[0] == "F" else "BI")]
        [last] = [row.index(one) for one in readers if one in row]
        half = row.pop(place)
        row.insert(random.randrange(last), half)
    return rows


def text_of(rows: list[list[str]]) -> str:
    return "\n".join(map(",".join, rows))


@st.composite
def rows_of(draw: st.DrawFn) -> tuple[PipelineSchedule, list[list[str]]]:
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    ranks, rounds, chunks = (draw(st.integers(1, most)) for most in (4, 2, 2))
    order = SCHEDULES[name](ranks, ranks * rounds * (1 + (name in V_SHAPED)), chunks)
    random = Random(draw(st.integers(0, 2**16)))
    return order, with_transfers(order, random, draw(st.sampled_from([0, 1, 2, 4, 40])))


@examples(60, 600)
@given(rows_of())
def test_the_clock_and_a_replay_deadlock_alike(
    case: tuple[PipelineSchedule, list[list[str]]],
) -> None:
    """By the place of receives alone; and where buffered sends stand still, all others do."""
    order, rows = case
    at = {protocol: carried_out(rows, buffered=protocol is EAGER) for protocol in (EAGER, MET)}
    for protocol, waiting in at.items():
        if not waiting:
            assert parse_comm_schedule(text_of(rows), protocol).order == order
            continue
        with pytest.raises(InputError, match="no rank can continue") as error:
            parse_comm_schedule(text_of(rows), protocol)
        named = re.findall(r"\d+(?:SEND|RECV)_[FB]\d+", error.value.problem)
        assert len(named) >= 4
        assert {*named} <= {*waiting}
        assert ("--protocol eager" in error.value.hint) == (protocol is MET and not at[EAGER])
    assert at[MET] or not at[EAGER]


@given(rows_of(), st.sampled_from([0.0, 0.25, 1.0]))
def test_laws_of_time(case: tuple[PipelineSchedule, list[list[str]]], transfer: float) -> None:
    """Eager ends no later than by rendezvous, that no later than blocking; none beats the order."""
    order, rows = case
    seconds = Durations(1, 2).on(order)
    ends = [time_schedule(order, seconds, Transfers(transfer)).seconds]
    for protocol in (EAGER, MET, TransferProtocol.BLOCKING):
        try:
            found = parse_comm_schedule(text_of(rows), protocol)
        except InputError:
            break
        ends.append(found.timeline(seconds, transfer).seconds)
    assert ends == sorted(ends)


def test_a_receive_ahead_holds_up_the_sends_behind_it() -> None:
    """The head of the line: rank 0 sends its second microbatch when the first has come back."""
    early = (
        "0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2F0 2B0 2RECV_F1 2SEND_B0 2F1 2B1 0RECV_B0 2SEND_B1 "
    )
    late = early.replace("2RECV_F0 0F1 0SEND_F1", "0F1 0SEND_F1 2RECV_F0")
    rest = "0B0 0RECV_B1 0B1\n1RECV_F0 1F0 {} "
    rest += "1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1"
    ahead = rest.format("1SEND_F0 1RECV_F1 1F1 1SEND_F1")
    behind = rest.format("1RECV_F1 1SEND_F0 1F1 1SEND_F1")
    with pytest.raises(InputError, match="waits in 0SEND_F1 until rank 1 runs 1RECV_F1, after"):
        parse_comm_schedule(late + ahead)
    waits, goes = (parse_comm_schedule(one) for one in (early + ahead, late + behind))
    assert waits.order == goes.order
    begins = [
        {str(span.action): span.begin_seconds for row in found.ranks for span in row}
        for found in (one.timeline(lambda action: 1.0, 0.5) for one in (waits, goes))
    ]
    assert begins[0]["1F1"] == 3.5  # 0F0, sent, 1F0, sent back, sent
    assert begins[1]["1F1"] == 3.0  # 0F0, sent, 1F0, sent


REFUSED = {
    "1RECV_F0 1F0 1B0 1SEND_B0\n0F0 0B0": "rank 0: 1RECV_F0 waits forever: 0SEND_F0 is missing",
    "0F0 0SEND_F0 0B0\n1RECV_F0 1F0 1B0": "rank 0: 0B0 needs 0RECV_B0, which is missing",
    "0F0 0SEND_F0 0RECV_B0 0B0\n1F0 1RECV_F0 1B0 1SEND_B0": (
        "rank 1: 1F0 comes before 1RECV_F0; 1F0 needs the result of 1RECV_F0"
    ),
    "0SEND_F0 0F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0": (
        "rank 0: 0SEND_F0 comes before 0F0; 0SEND_F0 needs the result of 0F0"
    ),
    "0F0 0SEND_F0 1RECV_F0 1F0 1B0 0B0": (
        "rank 0: 0SEND_F0: stages 0 and 1 are both on rank 0; stages of one rank send nothing"
    ),
    "0F0 0SEND_F0 0B0": "rank 0: 0SEND_F0: there is no stage 1",
    "0F0 0SEND_F0 1RECV_F0 0B0\n1F0 1B0": "rank 0: 1RECV_F0 on a rank without passes of stage 1",
    "0F0 0SEND_F0 0SEND_F0 0B0\n1F0 1B0": "rank 0 has 0SEND_F0 twice",
    "0UNSHARD 0F0 0F0 0B0": "rank 0 has 0F0 twice",
    "0UNSHARD 0F0 0RESHARD 0B0": "rank 0: 0B0 while stage 0 is sharded; 0UNSHARD before it",
    "0UNSHARD 0UNSHARD 0F0 0B0": "rank 0: 0UNSHARD is repeated",
    "0F0 0REDUCE_GRAD 0B0": "rank 0: 0REDUCE_GRAD before the last backward pass of stage 0",
    "0F0 0SEND_F 0B0": "line 1, action 2: '0SEND_F' is communication",
    "1UNSHARD 0F0 0B0": "rank 0: 1UNSHARD on a rank without passes of stage 1",
    "0UNSHARD": "rank 0: 0UNSHARD on a rank without passes of stage 0",
}


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_input_is_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_comm_schedule(text)
    assert str(error.value).startswith(REFUSED[text])


def test_gradients_are_reduced_when_all_of_a_stage_are_made() -> None:
    for text in ("0F0 0B0 0REDUCE_GRAD", "0F0 0I0 0W0 0REDUCE_GRAD"):
        assert parse_comm_schedule(text).order.stages == 1


def test_two_ranks_that_send_before_they_receive() -> None:
    """As in pytorch/pytorch#172668: each waits for the other's receive."""
    text = "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0\n1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1"
    with pytest.raises(InputError) as error:
        parse_comm_schedule(text)
    assert error.value.problem == (
        "no rank can continue: rank 0 waits in 0SEND_F1 until rank 1 runs 1RECV_F1, "
        "after 1SEND_F0; "
        "rank 1 waits in 1SEND_F0 until rank 0 runs 2RECV_F0, after 0SEND_F1"
    )


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_dumps_of_pytorch_are_read() -> None:
    """With FSDP and without; its deferred receives only go on where sends are buffered."""
    cases = [
        ("ScheduleZBVZeroBubble", 3, 7, 2),
        ("ScheduleDualPipeV", 3, 7, 2),
        ("ScheduleInterleaved1F1B", 3, 6, 2),
        ("ScheduleInterleavedZeroBubble", 4, 8, 1),
        ("ScheduleLoopedBFS", 2, 5, 3),
    ]
    words = [str(word) for case in cases for word in case]
    command = [*torch_python(), str(FLEET / "torch_orders.py"), "--comms", *words]
    found: list[dict[str, str]] = json.loads(subprocess.check_output(command, text=True))
    for texts, protocol in product(found, (EAGER, MET)):
        plain = parse_comm_schedule(texts["plain"], protocol)
        assert isinstance(plain, CommSchedule)
        assert "UNSHARD" in texts["fsdp"]
        assert parse_comm_schedule(texts["fsdp"], protocol).order == plain.order
        assert plain.csv().splitlines() == texts["plain"].splitlines()
        for text in texts.values():
            rows = [line.split(",") for line in text.splitlines()]
            rows = [[w for cell in row for w in cell.strip("()").split(";")] for row in rows]
            rows = [[word.removesuffix(")OVERLAP_F_B") for word in row] for row in rows]
            waiting = carried_out(rows, buffered=protocol is EAGER)
            if not waiting:
                assert parse_comm_schedule(text, protocol).order == plain.order
                continue
            assert text == texts["deferred"]
            with pytest.raises(InputError, match="no rank can continue") as refused:
                parse_comm_schedule(text, protocol)
            assert protocol is MET
            assert "give --protocol eager" in refused.value.hint
