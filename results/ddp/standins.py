"""A rank whose model computes nothing: it sleeps until a gradient is made, and DDP does the rest.

The autograd graph has a node for each parameter, in the order in which a real backward pass made
their gradients; a node sleeps as long as it took, and hands out a gradient of the same size. So
DDP's reducer sees what it would see, on many more ranks than there are cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from results.ddp.worker import Made, Rank
from results.runs.worker import SENDING

FLAT = -1
"""In the place of a step's number: the runtime's own all-reduce over all ranks."""


class StandIn(Rank):
    """What a rank of a replayed job can be told to do."""

    def join(self, text: str) -> None:
        """Make the groups of an all-reduce program's file."""
        self._file: dict[str, Any] = {"__name__": "program"}
        # annotations of its own, not as they are in this file: torch looks at them
        exec(compile(text, "<program>", "exec", dont_inherit=True), self._file)
        self._own = SENDING
        self._file["program"]()
        self._go_first()

    def replay(self, made: Sequence[Made], update_seconds: float) -> None:
        """Let gradients be made when they were made elsewhere, in the place of those before."""
        self._made, self._update = list(made), update_seconds
        self._ways = {}

    def _fresh(self) -> tuple[Any, Any, Any]:
        module = slept(self._made, self._rest, self.rank + 1.0)
        return module, _Update(module, lambda: self._rest(self._update)), self._torch.zeros(())

    def way_by_program(self, name: str, caps_mib: Sequence[float] | None) -> None:
        """One more way to fill buckets, which the program sums through DDP's hook."""
        from torch.nn.parallel import DistributedDataParallel

        module, optimizer, batch = self._fresh()
        group = self._file["program"]().group
        caps: Any = {} if caps_mib is None else {"bucket_cap_mb_list": list(caps_mib)}
        wrapped = DistributedDataParallel(module, process_group=group, **caps)
        self._file["install_ddp"](wrapped)
        self._ways[name] = wrapped, optimizer, batch

    def step_at(self, name: str, at: float) -> float:
        """Seconds of a step from a moment on, for which all ranks wait."""
        module, optimizer, batch = self._ways[name]
        optimizer.zero_grad()
        self._slept = self._owed = 0.0
        self._go_first()
        time.sleep(max(0.0, at - time.perf_counter()))
        module(batch).backward()
        optimizer.step()
        return time.perf_counter() - at

    def sums(self, name: str) -> float:
        """Of all that gradients were averaged to."""
        module = self._ways[name][0]
        return float(sum(one.grad.double().sum() for one in module.parameters()))

    def exchange(self, step: int, size_bytes: int, at: float) -> float:
        """Seconds of the collective of a program's step, whose largest buffer has so many bytes."""
        dist, run = self._dist, self._file["program"]()
        step_, group = ("all-reduce", None) if step == FLAT else self._step_of(run, step)
        members = dist.get_world_size(group)
        whole = self._held((-(-size_bytes // 4 // members) * members,), self._torch.float32)
        share = whole[: len(whole) // members]
        time.sleep(max(0.0, at - time.perf_counter()))
        if step_ == "all-reduce":
            dist.all_reduce(whole, group=group)
        elif step_ == "all-gather":
            dist.all_gather_single(whole, share.clone(), group=group)
        else:  # as the file does it on a CPU
            got = self._torch.empty_like(whole)
            dist.all_to_all_single(got, whole, group=group)
            share.copy_(got.view(members, -1).sum(dim=0))
        return time.perf_counter() - at

    def whole(self, size_bytes: int, at: float) -> float:
        """Seconds of the program by itself, of so many bytes, in the thread that sums buckets."""
        run, numbers = self._file["program"](), -(-size_bytes // 4)
        held = self._held((numbers,), self._torch.float32)
        time.sleep(max(0.0, at - time.perf_counter()))
        self._file["_beside"]().submit(run, held).result()
        return time.perf_counter() - at

    def _step_of(self, run: Any, number: int) -> tuple[str, Any]:
        exchanges = [one for one in run._steps if hasattr(one[0], "collective")]
        step, group = exchanges[number]
        return step.collective, group.group


class _Update:
    """What an optimizer takes, and nothing of what it does."""

    def __init__(self, module: Any, rest: Callable[[], None]) -> None:
        self._module, self._rest = module, rest

    def zero_grad(self) -> None:
        for one in self._module.parameters():
            one.grad = None

    def step(self) -> None:
        self._rest()


def slept(made: Sequence[Made], rest: Callable[[float], None], value: float) -> Any:
    """A module with these parameters, each of whose gradients is made when it was, all ``value``.

    Parameters are registered the other way round, as those of layers are.
    """
    import torch
    from torch import nn

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, parameter: Any, seconds: float) -> Any:
            ctx.told = seconds, parameter.shape
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            seconds, shape = ctx.told
            begin = time.perf_counter()
            gradient = torch.full(shape, value)
            rest(seconds - (time.perf_counter() - begin))
            return given[0], gradient, None

    made_at: Callable[..., Any] = Node.apply

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for at, (_, elements, _) in reversed(list(enumerate(made))):
                self.register_parameter(f"made{at}", nn.Parameter(torch.zeros(elements)))

        def forward(self, x: Any) -> Any:
            moments = [0.0, *(seconds for *_, seconds in made)]
            for at in reversed(range(len(made))):
                parameter = self.get_parameter(f"made{at}")
                x = made_at(x, parameter, moments[at + 1] - moments[at])
            return x

    return Model()
