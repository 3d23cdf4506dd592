"""Runs an MSCCL++ plan on numpy arrays, threadblocks in any order: what is left in the outputs.

Written apart from the project's own proof: it knows no sets of ranks and no races, only bytes.
Proxies are as late as they may be: what a port channel puts is copied when its signal is taken.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Key = tuple[str, int, int]


def outputs(text: str, inputs: Array, seed: int = 0) -> Array:
    """What every rank has in its output (in place: in its input), from inputs as in a file."""
    return _Run(json.loads(text), inputs).done(Random(seed))


class _Run:
    def __init__(self, plan: Any, inputs: Array) -> None:
        self.gpus = plan["gpus"]
        self.memory = []
        for gpu, row in zip(self.gpus, inputs, strict=True):
            chunk = len(row) // gpu["input_chunks"]
            assert chunk * gpu["input_chunks"] == len(row)
            own = row.reshape(-1, chunk).copy()
            out = own if plan["inplace"] else np.full((gpu["output_chunks"], chunk), -1)
            self.memory.append(
                {"i": own, "o": out, "s": np.full((gpu["scratch_chunks"], chunk), -7)}
            )
        self.other: dict[Key, Key] = {}
        self.fifo: dict[Key, deque[Any]] = defaultdict(deque)
        self._pair()

    def _pair(self) -> None:
        for kind in ("memory", "port"):
            ends: dict[tuple[int, int], list[Key]] = defaultdict(list)
            for gpu in self.gpus:
                number = 0
                for channel in gpu["channels"]:
                    if channel["channel_type"] == kind:
                        for peer in channel["connected_to"]:
                            ends[gpu["id"], peer].append((kind, gpu["id"], number))
                            number += 1
            for (here, there), mine in ends.items():
                self.other.update(zip(mine, ends[there, here], strict=True))

    def done(self, random: Random) -> Array:
        waiting = [[gpu, block, 0] for gpu in self.gpus for block in gpu["threadblocks"]]
        while waiting:
            ready = [one for one in waiting if self._may(*one)]
            assert ready, "all threadblocks wait"
            one = random.choice(ready)
            self._step(*one)
            one[2] += 1
            waiting = [one for one in waiting if one[2] < len(one[1]["ops"])]
        assert not any(self.fifo.values()), "something is left on a channel"
        return np.stack([own["o"].reshape(-1) for own in self.memory])

    def _channels(self, gpu: Any, block: Any, op: Any) -> list[Key]:
        listed = [
            (c["channel_type"], gpu["id"], i) for c in block["channels"] for i in c["channel_ids"]
        ]
        own = [key for key in listed if key[0] == op["channel_type"]]
        return [own[i] for i in op.get("channel_ids", [])]

    def _may(self, gpu: Any, block: Any, at: int) -> bool:
        op = block["ops"][at]
        if op["name"] != "wait":
            return True
        return all("signal" in self.fifo[key] for key in self._channels(gpu, block, op))

    def _step(self, gpu: Any, block: Any, at: int) -> None:
        op, own = block["ops"][at], self.memory[gpu["id"]]
        match op["name"]:
            case "put":
                self._put(gpu, block, op)
            case "copy":
                [came], [goes] = op["src_buff"], op["dst_buff"]
                _part(own, goes)[:] = _part(own, came)
            case "re":
                [goes] = op["dst_buff"]
                _part(own, goes)[:] = sum(_part(own, came).copy() for came in op["src_buff"])
            case "signal":
                for key in self._channels(gpu, block, op):
                    self.fifo[self.other[key]].append("signal")
            case "wait":
                for key in self._channels(gpu, block, op):
                    while (late := self.fifo[key].popleft()) != "signal":
                        came, goes = late
                        goes[:] = came

    def _put(self, gpu: Any, block: Any, op: Any) -> None:
        kind = op["channel_type"]
        refs = [
            gpu["remote_buffers"][i]
            for refs in block["remote_buffer_refs"]
            if refs["access_channel_type"] == kind
            for i in refs["remote_buffer_ids"]
        ]
        own = self.memory[gpu["id"]]
        keys: list[Key | None] = [*self._channels(gpu, block, op)] or [None] * len(op["src_buff"])
        for came, goes, key in zip(op["src_buff"], op["dst_buff"], keys, strict=True):
            ref = refs[goes["buffer_id"]]
            there = _part(self.memory[ref["rank"]], {"type": ref["type"], **goes})
            if key is None:
                there[:] = _part(own, came)
            else:
                self.fifo[self.other[key]].append((_part(own, came), there))


def _part(memory: Any, ref: Any) -> Array:
    first, size = ref["index"], ref["size"]
    found: Array = memory[ref["type"]][first : first + size]
    assert len(found) == size > 0
    return found
