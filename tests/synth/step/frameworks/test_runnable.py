"""What frameworks run is what their writers write: one decision, and one recipe."""

from __future__ import annotations

import pytest

from framework_cases import machine, sampled, sequence
from hierarchies import InputError
from synth.step.frameworks import FRAMEWORKS, FrameworkRules, TrainingSpec, write_configuration
from synth.step.zoo.sizes import Decoder, Gpt2

SAID = [name for name in FRAMEWORKS if name != "jax"]


@pytest.mark.parametrize("framework", SAID)
def test_a_framework_runs_what_its_writer_writes(framework: str) -> None:
    """A recipe that one expresses is expressed as itself, and written without a change."""
    runs = changed = refused = 0
    for model, recipe in sampled(5, 120):
        job = TrainingSpec(128, sequence(model))
        rules = FrameworkRules(model.name, model.sizes, job, lambda: None)
        try:
            written = write_configuration(framework, recipe, model, job, machine(recipe))
        except InputError:
            with pytest.raises(InputError) as refusal:
                rules.express(framework, recipe)
            assert rules.refusal(framework, recipe).startswith(refusal.value.problem)
            refused += 1
            continue
        expressed = rules.express(framework, recipe)
        assert isinstance(model.sizes, Gpt2 | Decoder)
        padded = model.sizes.vocabulary % dict(recipe.axes).get("tensor", 1) > 0
        assert expressed == written.recipe or padded
        assert bool(rules.refusal(framework, recipe)) == (expressed != recipe)
        assert rules.refusal(framework, expressed) == ""
        assert (framework in rules.runners(recipe)) == (expressed == recipe)
        runs += expressed == recipe
        changed += expressed != recipe
    assert min(runs, changed, refused) > 0, (runs, changed, refused)
