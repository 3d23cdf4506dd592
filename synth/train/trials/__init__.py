"""Some training steps in real processes, beside the same steps on one device.

What runs is the emitted file itself, a process for each device, and what it is compared with is
the model's own function, which knows no plan: what is checked is what is handed out.
"""

from synth.train.trials.alone import Alone, as_text, in_jax
from synth.train.trials.comparison import Compared, compared
from synth.train.trials.processes import Sharded, Trial, trained

__all__ = [
    "Alone",
    "Compared",
    "Sharded",
    "Trial",
    "as_text",
    "compared",
    "in_jax",
    "trained",
]
