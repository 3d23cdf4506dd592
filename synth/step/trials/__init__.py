"""Some training steps in real processes, beside the same steps on one device.

What runs is the emitted file itself, and what it is compared with is the model's own function,
which knows no plan: what is checked is what is handed out. Each step has a batch of its own:

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.trials import drawn
>>> step = parse_step('''
... step product
... in w: f32[4] parameter
... in x: f32[8,4] batch
... v0: f32[8] = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))
... out v0
... ''')
>>> {name: array.shape for name, array in drawn(step, steps=3, classes=2).items()}
{'w': (4,), 'x': (3, 8, 4)}
"""

from synth.step.trials.alone import Alone, as_text, by_own, in_jax
from synth.step.trials.comparison import Compared, Row, compared
from synth.step.trials.inputs import Values, drawn, in_pieces
from synth.step.trials.processes import Sharded, Trial, check, trained

__all__ = [
    "Alone",
    "Compared",
    "Row",
    "Sharded",
    "Trial",
    "Values",
    "as_text",
    "by_own",
    "check",
    "compared",
    "drawn",
    "in_jax",
    "in_pieces",
    "trained",
]
