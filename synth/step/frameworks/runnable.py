"""Which frameworks run a recipe: the decision that their writers make before they write.

>>> from synth.step.frameworks.inputs import ModelSpec, TrainingSpec
>>> from synth.step.sharding import parse_recipe
>>> from synth.step.zoo.sizes import ZOO
>>> sizes = ZOO["llama3-8b"]
>>> rules = FrameworkRules("llama3-8b", sizes, TrainingSpec(64, 8192), lambda: None)
>>> recipe = parse_recipe("pipe=2 data=8; batch over data; zero=3; schedule 1f1b, 8 microbatches")
>>> rules.refusal("torchtitan", recipe)
''
>>> rules.refusal("deepspeed", recipe)
'zero=3 on stages: DeepSpeed: zero=0 or 1'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.frameworks.files import FRAMEWORKS
from synth.step.frameworks.inputs import ModelSpec, RecipeInputs, TrainingSpec
from synth.step.sharding.recipes import Recipe
from synth.step.zoo.sizes import Sizes

Decision = tuple[Recipe, str] | InputError
"""The recipe that a framework runs, and the notes on why it is another one; or why it cannot."""


@dataclass(frozen=True)
class FrameworkRules:
    """What each framework runs instead of a recipe of one model and job.

    ``step`` returns the step that partition specs are written for. It may have fewer layers than
    the model, and is called only for frameworks that need it.
    """

    name: str
    sizes: Sizes
    job: TrainingSpec
    step: Callable[[], Step | None]
    _known: dict[tuple[str, Recipe], Decision] = field(default_factory=dict)

    def express(self, framework: str, recipe: Recipe) -> Recipe:
        """Returns the recipe that a framework runs. Raises InputError if it cannot run it."""
        decision = self._decision(framework, recipe)
        if isinstance(decision, InputError):
            raise decision
        return decision[0]

    def refusal(self, framework: str, recipe: Recipe) -> str:
        """Returns why a framework does not run exactly this recipe; empty if it does."""
        decision = self._decision(framework, recipe)
        if isinstance(decision, InputError):
            return ": ".join(filter(None, (decision.problem, decision.hint)))
        return decision[1] if decision[0] != recipe else ""

    def runners(self, recipe: Recipe) -> list[str]:
        """Returns the frameworks that run exactly this recipe."""
        return [name for name in FRAMEWORKS if not self.refusal(name, recipe)]

    def _decision(self, framework: str, recipe: Recipe) -> Decision:
        key = framework, recipe
        if key not in self._known:
            try:
                self._known[key] = self._decide(framework, recipe)
            except InputError as error:
                self._known[key] = error
        return self._known[key]

    def _decide(self, framework: str, recipe: Recipe) -> tuple[Recipe, str]:
        writer = FRAMEWORKS[framework]
        model = ModelSpec(self.name, self.sizes, self.step() if writer.needs_step else None)
        inputs = RecipeInputs(recipe, model, self.job)
        found = writer.decide(inputs)
        words, parts = getattr(self.sizes, "vocabulary", 0), inputs.sizes["tensor"]
        if found.recipe.vocabulary and words % parts:
            # A framework pads these words; no recipe says that, and the given one is the nearest.
            return replace(found.recipe, vocabulary=recipe.vocabulary), ""
        return found.recipe, "; ".join(found.changes)
