"""Configuration files of frameworks that run a recipe. The frameworks are not imported.

From a recipe, a model, a job and a machine it writes files for each framework that can express the
recipe. If a framework cannot, an error says why. If it runs something else, a line that begins with
``differs:`` says so, and the result contains the recipe that the files express.

>>> from hierarchies import Axis, load, row_major_placement
>>> from synth.step.frameworks import TrainingSpec, PlacedSystem, ModelSpec, write_configurations
>>> from synth.step.sharding import parse_recipe
>>> from synth.step.zoo.sizes import ZOO
>>> text = "data=4 tensor=8; batch over data; weights over tensor as Megatron; zero=1; remat layers"
>>> system = load("dgx-h100:4")
>>> placement = row_major_placement(system.hierarchy, [Axis("data", 4), Axis("tensor", 8)])
>>> model, job = ModelSpec("llama3-70b", ZOO["llama3-70b"]), TrainingSpec(batch=64, sequence=8192)
>>> found = write_configurations(parse_recipe(text), model, job, PlacedSystem(system, placement))
>>> list(found.files)
['megatron/arguments.sh', 'megatron/launch.sh', 'bridge/collsynth_bridge.py', 'bridge/launch.sh', \
'deepspeed/launch.sh', 'deepspeed/deepspeed.json']
>>> for line in found.files["megatron/arguments.sh"].splitlines()[6:8]:
...     print(line)
# differs: Megatron also shards the vocabulary over tensor (128256 words in 8 parts)
# differs: Megatron's distributed optimizer reduces gradients by a reduce-scatter, not an all-reduce
>>> print(found.refused["torchtitan"])
zero=1: torchtitan shards moments only together with gradients; zero=2 or 3
"""

from synth.collective.emit.launchers import PlacedSystem as PlacedSystem
from synth.step.frameworks.files import FRAMEWORKS as FRAMEWORKS
from synth.step.frameworks.files import Configurations as Configurations
from synth.step.frameworks.files import write_configuration as write_configuration
from synth.step.frameworks.files import write_configurations as write_configurations
from synth.step.frameworks.inputs import FrameworkFiles as FrameworkFiles
from synth.step.frameworks.inputs import ModelSpec as ModelSpec
from synth.step.frameworks.inputs import TrainingSpec as TrainingSpec
from synth.step.frameworks.runnable import FrameworkRules as FrameworkRules
