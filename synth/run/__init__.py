"""THERE: schedules carried out by processes of this machine, from the very files handed out.

What is run is the emitted file itself and not a second implementation, so what is checked here is
what users get. Backends are rows of ``BACKENDS``: arrays in one process, PyTorch with gloo, MPI,
JAX with fake devices. Each says which dtypes it can reduce and how many devices it can bear. On
arrays sums of whole numbers must be equal to the plain sum, bit for bit:

>>> from synth.run import BACKENDS
>>> {name: backend.most_devices for name, backend in BACKENDS.items()}
{'numpy': 65536, 'jax': 512, 'gloo': 64, 'mpi': 64}
"""

from synth.run.backends import BACKENDS, Backend, run
from synth.run.trial import RunError, Seen, Trial

__all__ = ["BACKENDS", "Backend", "RunError", "Seen", "Trial", "run"]
