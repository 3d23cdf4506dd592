"""Permutes and what stages send, handed out: files that say who sends to whom."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import Axis, Hierarchy, InputError, Placement
from strategies import placed, switches
from synth.emit import Options, RankOrder
from synth.emit.mesh import mesh
from synth.emit.transfers import (
    TRANSFER_TARGETS,
    TransferSource,
    emit_transfer,
    read_transfer,
)
from synth.semantics.point_to_point import NOBODY, PointToPoint, Transfer, send_receive
from synth.train.point_to_point import priced_transfer

PLACED = Placement(
    Hierarchy.of(node=2, gpu=6), (Axis("data", 4), Axis("model", 3)), ((2, 2), (1, 3))
)


def source(request: PointToPoint, order: RankOrder = RankOrder.MACHINE) -> TransferSource:
    system = switches(request.placement.hierarchy)
    return TransferSource(
        request, system, priced_transfer(request, system), Options(rank_order=order)
    )


def rotated() -> PointToPoint:
    """Everyone sends to the next device, the last to the first."""
    return PointToPoint(Transfer.PERMUTE, PLACED, np.roll(np.arange(12), 1), 4096)


def text_of(target: str, given: TransferSource) -> str:
    [text] = emit_transfer(target, given).values()
    return str(text)


@st.composite
def requests(draw: st.DrawFn) -> PointToPoint:
    placement = draw(placed())
    senders = np.array(draw(st.permutations(range(placement.hierarchy.devices))))
    what = draw(st.sampled_from(Transfer))
    if what is Transfer.SEND_RECEIVE:
        idle = draw(st.lists(st.booleans(), min_size=len(senders), max_size=len(senders)))
        senders[np.array(idle)] = NOBODY
    return PointToPoint(what, placement, senders, draw(st.integers(1, 2**30)))


@settings(max_examples=40)
@given(requests())
def test_a_document_is_read_back_as_it_was(request: PointToPoint) -> None:
    text = text_of("json", source(request))
    found = read_transfer(text)
    assert (found.what, found.placement, found.size_bytes) == (
        request.what,
        request.placement,
        request.size_bytes,
    )
    assert np.array_equal(found.senders, request.senders)
    assert text_of("json", source(found)) == text


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: d["senders"].pop(), "senders: 11 senders for 12 devices"),
        (lambda d: d["senders"].__setitem__(0, 12), "senders: a sender that is no device"),
        (lambda d: d["senders"].__setitem__(0, 0), "senders: a device sends twice"),
        (lambda d: d["senders"].__setitem__(0, None), "senders: a device gets nothing"),
        (lambda d: d.update(version=2), "format: format 'collsynth-transfer' of version 2"),
        (lambda d: d.update(bytes="many"), "bytes: Input should be"),
        (lambda d: d.update(more=1), "more: Extra inputs"),
        (lambda d: d["axes"].update(model=4), "levels, axes, placement"),
    ],
)
def test_a_spoiled_document_is_refused(spoil: Callable[[Any], object], says: str) -> None:
    body = json.loads(text_of("json", source(rotated())))
    spoil(body)
    with pytest.raises(InputError, match=says):
        read_transfer(json.dumps(body))


@settings(max_examples=40)
@given(requests(), st.sampled_from([RankOrder.MACHINE, RankOrder.AXES]))
def test_ranks_send_as_their_devices_do(request: PointToPoint, order: RankOrder) -> None:
    devices = mesh(request.placement, order).devices
    for rank, sender in enumerate(source(request, order).senders):
        wanted = request.senders[devices[rank]]
        assert wanted == (NOBODY if sender == NOBODY else devices[sender])


def test_a_trace_shows_every_buffer_at_both_ends() -> None:
    given = source(send_receive(PLACED, "data", 0, 3, 2**20))
    body = json.loads(text_of("trace", given))
    slices = [event for event in body["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 2 * 3
    assert {one["dur"] for one in slices} == {given.price.seconds * 1e6}
    assert len({(one["pid"], one["tid"]) for one in slices}) == len(slices)


def test_a_target_without_point_to_point_is_refused() -> None:
    with pytest.raises(InputError, match="no target 'svg' for a permute"):
        emit_transfer("svg", source(rotated()))


@pytest.mark.parametrize("target", ["torch", "jax", "mpi"])
@pytest.mark.parametrize("request_", [rotated(), send_receive(PLACED, "data", 0, 1, 64)])
def test_files_pass_ruff_and_name_nothing_of_ours(
    target: str, request_: PointToPoint, tmp_path: Path
) -> None:
    [(name, text)] = emit_transfer(target, source(request_)).items()
    (tmp_path / name).write_text(str(text))
    for words in (("check",), ("format", "--check", "--line-length=100")):
        command = [sys.executable, "-m", "ruff", *words, "--isolated", name]
        subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    assert "import synth" not in str(text)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["torch", "jax", "mpi"])
def test_files_pass_mypy(target: str, tmp_path: Path) -> None:
    if find_spec({"mpi": "mpi4py"}.get(target, target)) is None:
        pytest.skip(f"needs the extra {target}")
    for number, request in enumerate((rotated(), send_receive(PLACED, "data", 0, 1, 64))):
        (tmp_path / f"emitted{number}.py").write_text(text_of(target, source(request)))
    flags = ("--allow-untyped-calls",) if target == "jax" else ()  # JAX's own have no types
    words = [sys.executable, "-m", "mypy", "--strict", *flags, "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_all_that_carries_out_collectives_carries_these_out() -> None:
    assert tuple(TRANSFER_TARGETS) == ("torch", "jax", "mpi", "json", "trace")
