"""The verb that derives a job file from the shape of a transformer and how it is trained."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hierarchies import MOST_AXES
from synth.ask.answers.parts import (
    OneFile,
    ReplyModel,
)
from synth.ask.questions import notations
from synth.ask.questions.fields import Flag
from synth.ask.questions.flags import (
    Figure,
    Measure,
)
from synth.ask.questions.question import (
    Question,
)
from synth.ask.reply import Reply, reply
from synth.collective.ranking.request import Watcher
from synth.collective.workload.files import parse_sizes, write
from synth.collective.workload.job import Workload
from synth.collective.workload.shapes import StateSharding, Training, TransformerShape
from synth.collective.workload.transformer import transformer_job


class JobQuestion(Question):
    """Derive a job file for plan: what a transformer's training step communicates."""

    axes: Annotated[
        dict[str, str | Figure],
        Field(max_length=MOST_AXES),
        Flag("Sizes", ", as in data=any,tensor=1|2|4|8,pipeline=4", notation=notations.OPEN_AXES),
    ]
    layers: Annotated[Figure, Flag("Layers of the transformer")]
    hidden: Annotated[Figure, Flag("Width of the model")]
    heads: Annotated[Figure, Flag("Attention heads")]
    vocabulary: Annotated[Figure, Flag("Size of the vocabulary")]
    sequence: Annotated[Figure, Flag("Tokens per sequence")]
    name: Annotated[str, Flag("Name of the job")] = "transformer"
    micro_batch: Annotated[Figure, Flag("Sequences per micro-batch")] = 1
    batch: Annotated[Figure | None, Flag("Sequences per step, over all devices")] = None
    micro_batches: Annotated[Figure | None, Flag("Micro-batches per step on each device")] = None
    kv_heads: Annotated[Figure, Flag("Key and value heads, if fewer")] = 0
    feed_forward: Annotated[
        Figure, Flag("Width of the feed-forward network, unless 4 x hidden")
    ] = 0
    gated: Annotated[bool, Flag("A gated network, as in Llama", also={"classic": False})] = False
    classic: bool = True
    experts: Annotated[Figure, Flag("Experts per layer")] = 0
    experts_per_token: Annotated[Figure, Flag("Experts per token")] = 2
    sharding: Annotated[
        StateSharding,
        Field(strict=False),
        Flag("none, optimizer, fsdp or hsdp"),
    ] = StateSharding.NONE
    sequence_parallel: bool = True
    recompute: Annotated[bool, Flag("Recompute activations")] = False
    memory_GB: Annotated[
        Measure | None, Flag("GB per device for the training state", spelled="--memory")
    ] = Field(default=None, strict=False)
    most_bubble: Measure | None = Field(default=None, strict=False)

    def job(self) -> Workload:
        """The job. Raises InputError for numbers that make no transformer."""
        sizes = {name: parse_sizes(_parse_whole(size)) for name, size in self.axes.items()}
        shape, training = self.fill(TransformerShape), self.fill(Training)
        return transformer_job(shape, training, sizes, name=self.name)

    def check_early(self) -> None:
        self.job()


class JobReply(ReplyModel):
    """A job file for ``plan``."""

    job: str = Field(description="The job's name.")
    files: OneFile = Field(description="The job file, in TOML.")


def derive_job(question: JobQuestion, watcher: Watcher) -> Reply:
    """A job file for ``plan``, from the shape of a transformer and how it is trained."""
    job = question.job()
    return reply(JobReply.like(job=job.name, files={"job.toml": write(job)}))


def _parse_whole(size: str | int) -> str | int:
    return int(size) if isinstance(size, str) and size.isdecimal() else size
