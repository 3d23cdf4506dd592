"""Runs training steps in real processes, and compares them with the same steps on one device.

It runs the emitted file that users get, and compares it with the model's own function, which
is independent of the plan. Each step has its own batch:

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.trials import draw_inputs
>>> step = parse_step('''
... step product
... in w: f32[4] parameter
... in x: f32[8,4] batch
... v0: f32[8] = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))
... out v0
... ''')
>>> {name: array.shape for name, array in draw_inputs(step, steps=3, classes=2).items()}
{'w': (4,), 'x': (3, 8, 4)}
"""

from synth.step.trials.alone import SingleDeviceRun, run_in_jax, run_own_function, run_text
from synth.step.trials.comparison import StepDifference, TrialComparison, compare_runs
from synth.step.trials.inputs import Values, draw_inputs, split_stacks
from synth.step.trials.processes import RankOutputs, TrialSettings, check, run_trial

__all__ = [
    "RankOutputs",
    "SingleDeviceRun",
    "StepDifference",
    "TrialComparison",
    "TrialSettings",
    "Values",
    "check",
    "compare_runs",
    "draw_inputs",
    "run_in_jax",
    "run_own_function",
    "run_text",
    "run_trial",
    "split_stacks",
]
