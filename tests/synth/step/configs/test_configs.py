"""Configurations of published models: counted to the last parameter, and computed by hand."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traced_steps
from config_cases import PUBLISHED, TINY, text_of, tiny
from decoder_reference import reference_loss
from hierarchies import InputError
from synth.step.configs import read_config
from synth.step.configs.families import FAMILIES, UNTRACED
from synth.step.zoo.models import Model, ModelOptions
from synth.step.zoo.sizes import Decoder, DescribedModel
from synth.step.zoo.table import model_of, step_of
from traced_steps import compiled

SHARED = Path(__file__).parents[5] / "shared" / "data" / "models"


def build(model: DescribedModel, **how: Any) -> Model:
    return model_of(model.name, model.sizes, ModelOptions(**({"batch": 2} | how)))


def count(model: DescribedModel) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(build(model).parameters))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_their_publishers_count(name: str) -> None:
    known = PUBLISHED[name]
    text = json.dumps(known["config"])
    if known["config"]["model_type"] in UNTRACED:
        with pytest.raises(InputError, match="Mamba-2 layers of a nemotron_h are not supported"):
            read_config(text, name)
    else:
        assert count(read_config(text, name)) == known["total_params"]


def test_shared_configurations_have_as_many_parameters_as_published() -> None:
    """All files that are there, also those that a later list adds."""
    if not SHARED.is_dir():
        pytest.skip("no shared data")
    with (SHARED / "models.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        text = (SHARED / row["file"]).read_text()
        if json.loads(text)["model_type"] not in UNTRACED:
            assert count(read_config(text, row["file"])) == int(row["total_params"]), row["name"]


def test_every_family_has_a_small_configuration() -> None:
    assert {*TINY, "gemma3"} == {*FAMILIES}


DECODERS = [kind for kind in TINY if isinstance(tiny(kind).sizes, Decoder)]


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_computes_what_one_would_write_by_hand(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token by token and head by head in float64, from the fields of the configuration."""
    monkeypatch.setattr("synth.step.zoo.experts.CAPACITY", 4.0)  # no expert drops a token
    model = build(tiny(kind))
    parameters, _, batch = traced_steps.arguments(model)
    noise = np.random.default_rng(0)
    # Biases, norms, corrections and sinks are drawn as well, so that each of them is judged.
    parameters = jax.tree.map(
        lambda leaf: leaf + jnp.float32(0.2) * noise.standard_normal(leaf.shape, np.float32),
        parameters,
    )
    found = float(compiled(model.loss)(parameters, batch))
    exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters)
    fields = json.loads(text_of(kind))
    wanted = reference_loss(
        fields, exact, np.asarray(batch["tokens"]), np.asarray(batch["targets"])
    )
    assert math.isclose(found, wanted, rel_tol=2e-5), (found, wanted)


@pytest.mark.parametrize("kind", TINY)
def test_the_step_of_every_family_is_traced(kind: str) -> None:
    step = step_of(build(tiny(kind), dtype="bfloat16"), "adamw")
    assert step.roles.count("parameter") == len(jax.tree.leaves(build(tiny(kind)).parameters))
