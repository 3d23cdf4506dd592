"""A rule as its generator saw it: values of whole tensors, and nothing of how they are cut."""

from __future__ import annotations

from dataclasses import replace

from synth.train.substitutions.flexflow import Operator, Refuted, Rule, judged
from synth.verify.verdict import Proved


def values_alike(rule: Rule) -> bool:
    """Whether the values alone are proved to be alike, wherever there are both."""
    found = judged(of_values(rule))
    return isinstance(found, Proved) or (isinstance(found, Refuted) and found.elsewhere)


def of_values(rule: Rule) -> Rule:
    """The same without cuts: copies are put behind each other, a reduction adds two halves."""
    source, before = _of_values(rule.source)
    target, after = _of_values(rule.target)
    outputs = tuple((before[one], after[other]) for one, other in rule.outputs)
    return replace(rule, source=source, target=target, outputs=outputs)


Renamed = dict[tuple[int, int], tuple[int, int]]


def _of_values(operators: tuple[Operator, ...]) -> tuple[tuple[Operator, ...], Renamed]:
    made: list[Operator] = []
    renamed: Renamed = {}
    for at, one in enumerate(operators):
        read = tuple(renamed.get(tensor, tensor) for tensor in one.inputs)
        along = (("PM_AXIS", dict(one.parameters).get("PM_PARALLEL_DIM", 0)),)
        match one.type:
            case "OP_PARTITION" | "OP_COMBINE":
                made.append(Operator("OP_IDENTITY", read, ()))
            case "OP_REPLICATE":
                made.append(Operator("OP_CONCAT", read * 2, along))
            case "OP_REDUCE":
                made.append(Operator("OP_SPLIT", read, along))
                halves = len(made) - 1
                made.append(Operator("OP_EW_ADD", ((halves, 0), (halves, 1)), ()))
            case _:
                made.append(replace(one, inputs=read))
        renamed |= {(at, which): (len(made) - 1, which) for which in (0, 1)}
    return tuple(made), renamed
