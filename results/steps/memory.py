"""Peak memory beside published runs: what each stage holds of parameters, activations and logits.

The laws are the house's: bytes of a parameter and its moments by ZeRO's stage, activations of as
many microbatches as the order holds (1F1B: min(S - s, m) on stage s), and a step's memory is that
of its fullest stage. How many bytes of each a framework keeps is fitted to a third of nanotron's
runs: six numbers. Not the memory of a traced step (``synth.step.simulation``): the zoo's attention
writes its scores out, where these runs have flash attention, and keeps what JAX keeps.

Zero bubble's runs are estimated without any fit, from what its orders hold on our clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from results.steps.composed import Floats
from results.steps.pipelines import SPREAD, Run, activations, runs
from results.steps.protocol import fitted_to, short, summed_up
from results.steps.rows import Family, Row, raw_rows
from results.steps.shapes import Plan, Shape, stages_as_built

NAMES = ("parameter", "shared", "hidden", "ffn", "logit", "fixed")
START = np.array([6.0, 12.0, 26.0, 6.0, 10.0, 0.3])
"""Bytes of a parameter with its gradient (2 + 4), and of what ZeRO shares (4 + 4 + 4); of a token
in a layer for each of its hidden and of its feed-forward elements; of a logit (2 + 4 + 4); and GB
of everything else."""

MEGATRON = 16.0
"""Bytes of a parameter (mixed precision Adam)."""

KEPT_INPUTS = 4.0
"""Bytes for each hidden element, not cut, where what is gathered for the two column-wise products
of a layer is kept for the backward pass (nanotron: ``tp_recompute_allgather: false``)."""

MAIN_GRADIENTS = 18.0
"""Bytes of a parameter with gradients of four bytes (Megatron-LM)."""

LOGIT_BYTES = 10.0
WORDS = 50_304
_GIGA = 1e9
WITHIN = 0.08


@dataclass(frozen=True)
class Held:
    """Of rows, arrays of shape (rows, most stages, 5) in billions: what numbers multiply.

    ``gathered`` is what two kept inputs of each layer take in all, shape (rows, most stages).
    """

    parts: Floats
    gathered: Floats
    plain: Floats

    def estimate(self, numbers: Floats, *, gathered: bool = False) -> Floats:
        """GB of the fullest stage."""
        each = self.parts @ numbers[:-1]
        if gathered:
            each = each + KEPT_INPUTS * self.gathered
        return np.asarray(each.max(axis=1) + numbers[-1])


def held(rows: Sequence[Row]) -> Held:
    most = max(row.plan.pipe for row in rows)
    parts, gathered = np.zeros((len(rows), most, len(START) - 1)), np.zeros((len(rows), most))
    for number, row in enumerate(rows):
        for stage, found in enumerate(_stages(row.shape, row.plan)):
            parts[number, stage] = found[:-1]
            gathered[number, stage] = found[-1]
    plain = np.array([_plain(row.shape, row.plan) for row in rows])
    return Held(parts / _GIGA, gathered / _GIGA, plain / _GIGA)


def _stages(shape: Shape, plan: Plan) -> list[tuple[float, ...]]:
    """By stage: parameters, those that ZeRO leaves, elements of hidden, of ffn, logits, gathered.

    The embedding is the first stage's; where there is one stage it is the head's, too.
    """
    found: list[tuple[float, ...]] = []
    tokens = plan.micro * shape.sequence
    for stage, (layers, head) in enumerate(stages_as_built(shape, plan)):
        words = shape.head_parameters * ((not stage) + (head and plan.pipe > 1))
        parameters = (layers * shape.layer_parameters + words) / plan.tensor
        kept = layers * tokens * min(plan.pipe - stage, plan.micros)
        found.append(
            (
                parameters,
                parameters / (plan.data if plan.sharded else 1),
                kept * shape.hidden / plan.tensor,
                kept * shape.ffn / plan.tensor,
                head * tokens * shape.vocab / plan.tensor,
                kept * shape.hidden * (plan.tensor > 1),
            )
        )
    return found


def _plain(shape: Shape, plan: Plan) -> float:
    """16 bytes a parameter and 34 a hidden element, all stages alike, nothing beside."""
    whole = (shape.parameters + shape.head_parameters) / plan.tensor / plan.pipe
    state = (4 + 12 / plan.data if plan.sharded else MEGATRON) * whole
    in_flight = min(plan.pipe, plan.micros) * plan.micro * shape.sequence
    layers = shape.layers / plan.pipe
    return state + SPREAD * in_flight * layers * shape.hidden / plan.tensor


def fit(some: Held, measured: Floats) -> Floats:
    """The six numbers that explain these peaks best; rows of another kind count little (Cauchy)."""

    def off(logarithms: Floats) -> Floats:
        return np.asarray(np.log(some.estimate(np.exp(logarithms)) / measured))

    found = least_squares(off, np.log(START), loss="cauchy", f_scale=WITHIN, diff_step=1e-2)
    return np.asarray(np.exp(found.x))


def peaks(
    known: Sequence[Row], asked: Sequence[Row], names: Collection[str]
) -> tuple[Floats, Floats]:
    """Estimated peaks of rows that numbers are fitted to, and of others, of sets that have some."""
    told = _published(names)
    some = held(known)
    numbers = fit(some, _measured(known, told))
    return some.estimate(numbers), held(asked).estimate(numbers)


def _published(names: Collection[str]) -> dict[str, str]:
    return {raw["id"]: raw["peak_memory_GB"] for name in names for raw in raw_rows(name)}


def made(family: Family) -> dict[str, Any]:
    """All figures of memory."""
    told = _published(family.told["sets"])
    known = [row for row in family.rows if told[row.name]]
    mine = [row for row in known if fitted_to(row)]
    others = [row for row in known if not fitted_to(row)]
    numbers = fit(held(mine), _measured(mine, told))
    judge, measured = held(others), _measured(others, told)
    found, kept = judge.estimate(numbers), judge.estimate(numbers, gathered=True)
    nearer = np.where(
        np.abs(np.log(found / measured)) < np.abs(np.log(kept / measured)), found, kept
    )
    ways = {
        "six numbers fitted": found,
        "nothing fitted": judge.estimate(START),
        "16 bytes a parameter, 34 a hidden element": judge.plain,
        "nearer of inputs gathered again, or kept (no estimate)": nearer,
    }
    pipes = np.array([row.plan.pipe for row in others])
    tensors = np.array([row.plan.tensor for row in others])
    return {
        "fitted_rows": len(mine),
        "numbers": {name: short(float(one)) for name, one in zip(NAMES, numbers, strict=True)},
        "judged": {name: _told(some, measured) for name, some in ways.items()},
        "stages": {
            str(n): _told(found[pipes == n], measured[pipes == n]) for n in sorted({*pipes})
        },
        "tensors": {
            str(n): _told(found[tensors == n], measured[tensors == n]) for n in sorted({*tensors})
        },
        "kept": int((nearer == kept).sum()),
        "pipelines": _pipelines(),
    }


def _measured(rows: Sequence[Row], told: Mapping[str, str]) -> Floats:
    return np.array([float(told[row.name]) for row in rows])


def _told(found: Floats, measured: Floats) -> dict[str, Any]:
    told = summed_up(np.abs(found / measured - 1))
    return told | {"bias": short(float(np.median(found / measured)))}


def _pipelines() -> dict[str, Any]:
    """Zero bubble's runs by schedule; nothing is fitted."""
    found: dict[str, list[tuple[float, float]]] = {}
    for one in runs():
        pair = (run_memory(one), float(one.raw["peak_memory_GB"]))
        found.setdefault(one.schedule, []).append(pair)
    pairs = {name: np.array(some) for name, some in found.items()}
    whole = np.concatenate(list(pairs.values()))
    told = {name: _told(some[:, 0], some[:, 1]) for name, some in pairs.items()}
    return told | {"all": _told(whole[:, 0], whole[:, 1])}


def run_memory(run: Run) -> float:
    """GB of the fullest rank of a run: its stages' parameters, and the activations of its order.

    The first and the last rank have a layer less, and the embedding or the logits instead.
    """
    order, hidden = run.order, int(run.raw["hidden"])
    ranks = len(order.ranks)
    each = (int(run.raw["layers"]) + 2) // ranks
    tokens = int(run.raw["seq"]) * int(run.raw["micro_batch"])
    bytes_, kept = activations(run.raw)
    most = 0.0
    for rank, held_ in enumerate(order.held_with(kept)):
        ends = (rank == 0) + (rank == ranks - 1)
        state = MAIN_GRADIENTS * ((each - ends) * 12 * hidden**2 + ends * WORDS * hidden)
        layers = (each - ends) * ranks / order.stages
        logits = LOGIT_BYTES * tokens * WORDS * (rank == ranks - 1)
        most = max(most, state + layers * tokens * bytes_ * held_ + logits)
    return most / _GIGA
