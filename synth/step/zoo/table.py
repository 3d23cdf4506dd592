"""A model of the zoo by the kind of its sizes, and the step that trains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.trace.tracing import trace_step
from synth.step.zoo.bert import bert
from synth.step.zoo.gpt2 import gpt2, gpt2_inference
from synth.step.zoo.llama import llama
from synth.step.zoo.lstm import lstm
from synth.step.zoo.mlp import mlp
from synth.step.zoo.models import Inference, Model, ModelOptions
from synth.step.zoo.optimizers import OPTIMIZERS
from synth.step.zoo.resnet import resnet
from synth.step.zoo.sizes import Bert, Gpt2, Llama, Lstm, Mlp, ResNet, Sizes, ViT
from synth.step.zoo.vit import vit

MODELS: Mapping[type[Any], Callable[[str, Any, ModelOptions], Model]] = {
    Mlp: mlp,
    Gpt2: gpt2,
    Llama: llama,
    Bert: bert,
    ResNet: resnet,
    Lstm: lstm,
    ViT: vit,
}
"""What makes a model of its name, its sizes, and how it is to be written."""


def model_of(name: str, sizes: Sizes, how: ModelOptions) -> Model:
    """A model of the zoo of these sizes."""
    return MODELS[type(sizes)](name, sizes, how)


INFERENCES: Mapping[type[Any], Callable[[str, Any, ModelOptions, int], Inference]] = {
    Gpt2: gpt2_inference
}
"""What makes a pass of inference over so many new tokens."""


def inference_of(name: str, sizes: Sizes, how: ModelOptions, new: int) -> Inference:
    """Inference by a model of the zoo. Raises InputError for one that is only trained."""
    if type(sizes) not in INFERENCES:
        able = ", ".join(one.__name__ for one in INFERENCES)
        raise InputError(f"{name} has no inference", hint=f"written for it: {able}")
    longest = getattr(sizes, "sequence", new)
    if new > longest:
        raise InputError(f"{new} new tokens", where=name, hint=f"at most {longest}, its sequence")
    return INFERENCES[type(sizes)](name, sizes, how, new)


def inference_step_of(one: Inference) -> Step:
    """The pass as a step: the parameters come back as they are, the cache with more in it."""
    given = (one.parameters, one.cache, one.batch)
    return trace_step(one.name, one.step, given, kept="cache")


def step_of(model: Model, optimizer: str) -> Step:
    """The step that trains a model. Raises InputError for an optimizer that is not known."""
    if optimizer not in OPTIMIZERS:
        raise InputError(f"no optimizer {optimizer!r}", hint=f"there are: {', '.join(OPTIMIZERS)}")
    how = OPTIMIZERS[optimizer]
    given = (model.parameters, how.moments(model.parameters), model.batch)
    return trace_step(model.name, how.step(model.loss), given)
