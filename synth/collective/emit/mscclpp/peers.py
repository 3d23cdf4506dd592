"""Refuses steps in which a rank has too many peers, before any message is built.

A rank that collects or spreads a chunk talks to all others of its group in one threadblock, however
the chunks are cut into lanes. So only the number of peers counts, and no layout helps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grammar import Collective
from hierarchies import Devices
from synth.collective.emit.buffers import follow_buffers
from synth.collective.emit.mscclpp.blocks import (
    MEMORY,
    MOST_CHANNELS,
    PORT,
    Excess,
    too_many_channels,
)
from synth.collective.semantics.schedule import Exchange, Schedule

Mask = npt.NDArray[np.bool_]


def find_crowded_phase(schedule: Schedule, hosts: Devices) -> Excess | None:
    """Returns the first phase in which a rank (on ``hosts[device]``) has too many channels."""
    needed = follow_buffers(schedule).needed
    for number, phase in enumerate(schedule.phases):
        if not isinstance(phase, Exchange):
            continue
        for kind, most in _most_peers(phase, hosts, needed[number + 1]).items():
            if most > MOST_CHANNELS:
                return Excess(number, too_many_channels(most, kind))
    return None


def _most_peers(phase: Exchange, hosts: Devices, needed: Mask) -> dict[str, int]:
    """Returns the largest number of a member's peers for each channel type."""
    busy, peers = _busy_masks(phase.collective, needed[phase.groups])
    at = hosts[phase.groups]
    near = (at[:, :, None] == at[:, None, :]) & peers[:, None, :]
    beside = near.sum(axis=2)
    elsewhere = peers.sum(axis=1, keepdims=True) - beside
    return {
        # ``beside`` counts the member itself, which needs no channel.
        MEMORY: int(np.max(beside - peers, where=busy, initial=0)),
        PORT: int(np.max(elsewhere, where=busy, initial=0)),
    }


def _busy_masks(collective: Collective, needed: Mask) -> tuple[Mask, Mask]:
    """Returns masks of group members with a share to collect or spread, and of their peers.

    ``needed``, of shape (groups, members), marks whose values are read later.
    """
    everyone = np.ones_like(needed)
    root = np.zeros_like(needed)
    root[:, 0] = True
    holding = root if collective.rooted else everyone
    if not collective.reduces:
        return holding, needed
    read = needed.any(axis=1, keepdims=True) if collective.copies else needed
    return holding & read, everyone
