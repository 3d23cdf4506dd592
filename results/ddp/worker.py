"""A process that is one rank of a DDP job: its steps with some buckets, and a step without DDP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from results.ddp.models import Model, built
from results.runs.worker import Worker

MIB = 2**20
Made = tuple[str, int, float]
"""A gradient: its parameter, how many numbers, and how many seconds after the step began."""


class Rank(Worker):
    """What a rank of a DDP job can be told to do, beside what any rank can."""

    def take(self, model: Model) -> None:
        """A model, in the place of the one before."""
        self._model = model
        self._ways: dict[str, Any] = {}
        self._plain = built(model)

    def alone(self, at: float | None = None) -> tuple[list[Made], float, float]:
        """A step without DDP: gradients as they are made; the backward pass, and all, in seconds.

        Ranks do it at the same moment, which is told where not all do it: what one does to the
        memory of the other is in it.
        """
        made: list[Made] = []
        module, optimizer, batch = self._plain
        names = {id(one): name for name, one in module.named_parameters()}

        def note(one: Any) -> None:
            made.append((names[id(one)], one.numel(), time.perf_counter() - begin))

        hooks = [one.register_post_accumulate_grad_hook(note) for one in module.parameters()]
        if at is None:
            self._dist.barrier()
        else:
            time.sleep(max(0.0, at - time.perf_counter()))
        begin = time.perf_counter()
        optimizer.zero_grad()
        self._model.loss(module, batch).backward()
        back = time.perf_counter() - begin
        optimizer.step()
        whole = time.perf_counter() - begin
        for hook in hooks:
            hook.remove()
        return made, back, whole

    def way(self, name: str, text: str, caps_mib: Sequence[float] | None) -> None:
        """One more way to fill buckets: by a written file, by caps, or, with neither, DDP's own."""
        from torch.nn.parallel import DistributedDataParallel

        module, optimizer, batch = self._fresh()
        if text:
            space: dict[str, Any] = {}
            exec(compile(text, "<buckets>", "exec"), space)
            wrapped = space["wrap"](module)
        elif caps_mib is not None:
            caps: Any = list(caps_mib)
            wrapped = DistributedDataParallel(module, bucket_cap_mb_list=caps)
        else:
            wrapped = DistributedDataParallel(module)
        self._ways[name] = wrapped, optimizer, batch
        self._go_first()

    def _fresh(self) -> tuple[Any, Any, Any]:
        """The model as it is before any step, what updates it, and a batch."""
        return built(self._model)

    def step(self, name: str) -> float:
        """Seconds of a step with these buckets."""
        module, optimizer, batch = self._ways[name]
        self._dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        self._model.loss(module, batch).backward()
        optimizer.step()
        return time.perf_counter() - begin

    def buckets(self, name: str) -> list[int]:
        """Their bytes, in the order in which they are sent, as DDP says once it has seen a step."""
        told = self._ways[name][0]._get_ddp_logging_data()
        sizes = told.get("rebuilt_bucket_sizes") or told["bucket_sizes"]
        return [int(one) for one in str(sizes).split(",")]

    def sums(self, name: str) -> float:
        """A number that all parameters change, as two ways to train are told apart by it."""
        module = self._ways[name][0]
        return float(sum(one.double().sum() for one in module.parameters()))
