"""What the verbs answer that look at training steps."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Self

from pydantic import Field

from grammar.tensors.operations import Step
from synth.ask.answers.parts import AnswerPart, OneFile, ReplyModel, Whole
from synth.step.work import list_repetitions, peak_bytes, work_of


class WorkOfPrimitive(AnswerPart):
    """All that one primitive does in a step."""

    primitive: str = Field(min_length=1, description="Its name in JAX.")
    kind: Literal["products", "elementwise", "reductions", "movement", "unknown"] = Field(
        description="Matrix products and convolutions, arithmetic by element, sums, or moves."
    )
    times: Whole = Field(description="How often it is done, in loops as often as they go round.")
    flops: Whole = Field(description="Floating-point operations, all times together.")


class LoopPart(AnswerPart):
    """A body that is repeated, such as a layer."""

    count: Whole = Field(description="Iterations in a step.")
    operations: Whole = Field(description="Number of operations.")
    line: str = Field(description="Where its user wrote it; empty if that is not known.")


class BytesByRole(AnswerPart):
    """What a step takes in, and what lives while it runs, on one device that does all of it."""

    parameter: Whole = Field(description="Parameters.")
    moment: Whole = Field(description="State of the optimizer.")
    state: Whole = Field(description="Counters, constant arrays, and what inference keeps.")
    batch: Whole = Field(description="A batch.")
    values: Whole = Field(
        description="The most of all other values at once, in the order of the text, unfused."
    )


class TraceReply(ReplyModel):
    """A training step in numbers, and its text."""

    name: str = Field(description="Name of the model.")
    sizes: dict[str, Whole] = Field(description="Of a model of the zoo; empty for a text.")
    operations: Whole = Field(description="Operations in the text, those of loops once.")
    parameters: Whole = Field(description="Number of parameters.")
    arrays: Whole = Field(description="Number of parameter arrays.")
    bytes: BytesByRole = Field(description="Bytes by role.")
    flops: Whole = Field(description="Floating-point operations of a step.")
    work: list[WorkOfPrimitive] = Field(description="By primitive, the most operations first.")
    loops: list[LoopPart] = Field(
        description="In the order of the text, those inside others later."
    )
    files: OneFile = Field(description="The text of the step.")

    @classmethod
    def of(cls, step: Step, sizes: dict[str, int]) -> Self:
        """What is to be said of a step."""
        work = work_of(step)
        by_role: Counter[str] = Counter()
        for role, value in zip(step.roles, step.graph.inputs, strict=True):
            by_role[role] += value.type.bytes
        held = [
            value.type.elements
            for role, value in zip(step.roles, step.graph.inputs, strict=True)
            if role == "parameter"
        ]
        by_role["state"] += by_role["cache"]
        roles = {role: by_role[role] for role in ("parameter", "moment", "state", "batch")}
        return cls.like(
            name=step.name,
            sizes=sizes,
            operations=sum(1 for _ in step.graph.everywhere()),
            parameters=sum(held),
            arrays=len(held),
            bytes=BytesByRole(**roles, values=peak_bytes(step)),
            flops=sum(one.flops for one in work),
            work=work,
            loops=list_repetitions(step),
            files={f"{step.name}.step": str(step)},
        )
