"""The verb that traces a model: the computation of one of its training steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import Field

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import check_beginning, parse_step
from hierarchies import InputError
from synth.ask.answers.parts import AnswerPart, OneFile, ReplyModel, Whole
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag, LimitExemption
from synth.ask.questions.named_texts import NamedText, NameOrText
from synth.ask.questions.question import Question
from synth.ask.reply import Reply, reply
from synth.collective.ranking.request import Watcher
from synth.step.configs import is_config, read_config
from synth.step.models import ModelSettings, check_zoo_sizes, zoo_step
from synth.step.work import list_repetitions, peak_bytes, work_of
from synth.step.zoo.sizes import ModelSource, apart, sizes_of

MOST_READ = 2**17
"""Longer texts, in characters, are read by the worker alone: to read one, and to write a plan out
for it, takes half a second. Steps of transformers have half of it, those that convolve twice it.
"""
SHAPE = LimitExemption("shapes grow with it, operations do not, and unrolled layers have a limit")


S = TypeVar("S", covariant=True)


class StepParser(Protocol[S]):
    """What reads a text: a step, or a step that may be sharded."""

    def __call__(self, text: str, *, where: str) -> S: ...


def source_of(model: str | NamedText) -> ModelSource | None:
    """A model of the zoo by its name, or one that a text in JSON describes; None for a step's text.

    Raises InputError for what is wrong in the JSON.
    """
    if not isinstance(model, NamedText):
        return model
    return read_config(model.text, model.name) if is_config(model.text) else None


class ModelQuestion(Question):
    """A model: one of the zoo, one that its config.json describes, or the text of a traced step.

    The sizes of the first two may be changed; a step is what its text says.
    """

    model: Annotated[
        NameOrText,
        CostLimit.TEXT,
        Flag(
            "A model of the zoo, as gpt2-small, another's config.json, or a step that was kept",
            ": a file, a folder or -; or a model of your own: FILE.py:FUNCTION, which is run",
            "MODEL",
            file=File.STEP,
        ),
    ]
    sizes: Annotated[
        dict[str, Annotated[int, SHAPE]],
        Field(max_length=16),
        Flag(
            "Sizes that differ from the model's",
            ", as layers=2,sequence=128",
            notation=notations.AXES,
        ),
    ] = Field(default_factory=dict)
    batch: Annotated[int, SHAPE, Field(ge=1), Flag("Samples per batch")] = 8
    optimizer: Annotated[Literal["adamw", "sgd"], Flag("Optimizer: adamw or sgd")] = "adamw"
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        Flag("Data type of compute: float32, or bfloat16 with float32 parameters"),
    ] = "float32"
    unrolled: Annotated[bool, Flag("Unroll layers instead of tracing them as a loop")] = False
    remat: Annotated[bool, Flag("Recompute layers instead of keeping their activations")] = False
    infer: Annotated[
        int | None,
        SHAPE,
        Field(ge=1),
        Flag("Inference: a pass over this many new tokens, with a cache of earlier ones"),
    ] = None

    def spelling(self) -> ModelSettings:
        """How a model of the zoo is written down."""
        return self.fill(ModelSettings)

    def source(self) -> ModelSource | None:
        """The model, as ``source_of`` finds it."""
        return source_of(self.model)

    def step(self) -> Step:
        """The step. Raises InputError for what is wrong in a text, or with the sizes."""
        return self.read(parse_step)

    def check_model(self) -> None:
        """Raises InputError for a model that is not in the zoo, and sizes that it has not.

        And where something else than its text is said of a text; the text is not read.
        """
        source = self.source()
        if source is None:
            usual = type(self).model_fields
            for name in sorted(set(ModelQuestion.model_fields) - {"model"}):
                if getattr(self, name) != usual[name].get_default(call_default_factory=True):
                    hint = "a text is what it is: trace the model again"
                    raise InputError("this changes models of the zoo", where=name, hint=hint)
        else:
            check_zoo_sizes(source, self.sizes, self.spelling())

    def check_early(self) -> None:
        self.check_model()
        step: Step | ShardedStep | None = None
        if isinstance(self.model, NamedText) and self.source() is None:
            if len(self.model.text) <= MOST_READ:
                step = self.read_short()
            else:
                check_beginning(self.model.text, where=self.model.name)
        self.check_step(step)

    def read_short(self) -> Step | ShardedStep:
        """The step of a short text. Raises InputError for what is wrong in it."""
        return self.step()

    def check_step(self, step: Step | ShardedStep | None) -> None:
        """Raises InputError for what does not go with the step.

        It is None of a model of the zoo, which is not traced here, and of a text that takes long.
        """

    def read(self, parse: StepParser[S], replicas: int = 1) -> S | Step:
        """The step, by ``parse`` where it is a text; ``replicas`` normalise their own samples."""
        self.check_model()
        source = self.source()
        if source is None:
            assert isinstance(self.model, NamedText)
            return parse(self.model.text, where=self.model.name)
        return zoo_step(source, apart(source, self.sizes, replicas), self.spelling())

    def all_sizes(self) -> dict[str, int]:
        """The sizes of a model that are numbers; none of a step's text."""
        source = self.source()
        if source is None:
            return {}
        found = asdict(sizes_of(source, self.sizes))
        return {name: size for name, size in found.items() if isinstance(size, int)}


class TraceQuestion(ModelQuestion):
    """Trace a training step: what it computes, and its text, which other verbs take."""


class WorkOfPrimitive(AnswerPart):
    """All that one primitive does in a step."""

    primitive: str = Field(min_length=1, description="Its name in JAX.")
    kind: Literal["products", "elementwise", "reductions", "movement", "unknown"] = Field(
        description="Matrix products and convolutions, arithmetic by element, sums, or moves."
    )
    times: Whole = Field(description="Executions in a step, counting each iteration of loops.")
    flops: Whole = Field(description="Floating-point operations of all executions.")


class LoopPart(AnswerPart):
    """A body that is repeated, such as a layer."""

    count: Whole = Field(description="Iterations in a step.")
    operations: Whole = Field(description="Number of operations.")
    line: str = Field(description="Source line; empty if unknown.")


class BytesByRole(AnswerPart):
    """What a step takes in, and what lives while it runs, on one device that does all of it."""

    parameter: Whole = Field(description="Parameters.")
    moment: Whole = Field(description="State of the optimizer.")
    state: Whole = Field(description="Counters, constant arrays, and the state of inference.")
    batch: Whole = Field(description="A batch.")
    values: Whole = Field(
        description="Peak of all other values in the order of the text, without fusion."
    )


class TraceReply(ReplyModel):
    """A training step in numbers, and its text."""

    name: str = Field(description="Name of the model.")
    sizes: dict[str, Whole] = Field(
        description="Of a model of the zoo or a config.json; empty for a text."
    )
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


def trace(question: TraceQuestion, watcher: Watcher) -> Reply:
    """The step in numbers, and its text."""
    step = question.step()
    work = work_of(step)
    by_role: Counter[str] = Counter()
    held: list[int] = []
    for role, value in zip(step.roles, step.graph.inputs, strict=True):
        by_role[role] += value.type.bytes
        if role == "parameter":
            held.append(value.type.elements)
    by_role["state"] += by_role["cache"]
    roles = {role: by_role[role] for role in ("parameter", "moment", "state", "batch")}
    answer = TraceReply.like(
        name=step.name,
        sizes=question.all_sizes(),
        operations=sum(1 for _ in step.graph.everywhere()),
        parameters=sum(held),
        arrays=len(held),
        bytes=BytesByRole(**roles, values=peak_bytes(step)),
        flops=sum(primitive.flops for primitive in work),
        work=work,
        loops=list_repetitions(step),
        files={f"{step.name}.step": str(step)},
    )
    return reply(answer)
