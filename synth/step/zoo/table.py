"""Models of the zoo by the type of their sizes, and their training and inference steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.trace.tracing import trace_step
from synth.step.zoo.bert import bert
from synth.step.zoo.decoder import decoder
from synth.step.zoo.gpt2 import gpt2, gpt2_inference
from synth.step.zoo.lstm import lstm
from synth.step.zoo.mlp import mlp
from synth.step.zoo.models import Inference, Model, ModelOptions
from synth.step.zoo.optimizers import OPTIMIZERS
from synth.step.zoo.resnet import resnet
from synth.step.zoo.sizes import Bert, Decoder, Gpt2, Lstm, Mlp, ResNet, Sizes, ViT
from synth.step.zoo.vit import vit

MODELS: Mapping[type[Any], Callable[[str, Any, ModelOptions], Model]] = {
    Mlp: mlp,
    Gpt2: gpt2,
    Decoder: decoder,
    Bert: bert,
    ResNet: resnet,
    Lstm: lstm,
    ViT: vit,
}
"""Functions that build a model from its name, sizes and options."""


def model_of(name: str, sizes: Sizes, how: ModelOptions) -> Model:
    """Returns a model of the zoo with these sizes."""
    return MODELS[type(sizes)](name, sizes, how)


INFERENCES: Mapping[type[Any], Callable[[str, Any, ModelOptions, int], Inference]] = {
    Gpt2: gpt2_inference
}
"""Functions that build a pass of inference over a number of new tokens."""


def inference_of(name: str, sizes: Sizes, how: ModelOptions, new: int) -> Inference:
    """Returns inference by a model of the zoo. Raises InputError for a model that only trains."""
    if type(sizes) not in INFERENCES:
        known = ", ".join(kind.__name__ for kind in INFERENCES)
        raise InputError(f"{name} has no inference", hint=f"models with inference: {known}")
    longest = getattr(sizes, "sequence", new)
    if new > longest:
        raise InputError(f"{new} new tokens", where=name, hint=f"at most {longest}, its sequence")
    return INFERENCES[type(sizes)](name, sizes, how, new)


def inference_step_of(inference: Inference) -> Step:
    """Traces a pass as a step, which returns the parameters unchanged and the extended cache."""
    arguments = (inference.parameters, inference.cache, inference.batch)
    return trace_step(inference.name, inference.step, arguments, kept="cache")


def step_of(model: Model, optimizer: str) -> Step:
    """Traces the step that trains a model. Raises InputError for an unknown optimizer."""
    if optimizer not in OPTIMIZERS:
        raise InputError(f"no optimizer {optimizer!r}", hint=f"there are: {', '.join(OPTIMIZERS)}")
    how = OPTIMIZERS[optimizer]
    arguments = (model.parameters, how.moments(model.parameters), model.batch)
    return trace_step(model.name, how.step(model.loss), arguments)
