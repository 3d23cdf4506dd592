"""Runs schedules as processes on this machine, from the same files that users get.

The emitted file itself is run, not a second implementation, so a check covers the code that users
run. Backends are rows of ``BACKENDS``: arrays in one process, PyTorch with gloo, MPI, JAX with fake
devices. Each row has the dtypes it can reduce and the most devices it can run. On arrays, sums of
whole numbers must equal the plain sum, bit for bit:

>>> from synth.collective.run import BACKENDS
>>> {name: backend.most_devices for name, backend in BACKENDS.items()}
{'numpy': 65536, 'jax': 512, 'gloo': 64, 'mpi': 64}
"""

from synth.collective.run.backends import BACKENDS as BACKENDS
from synth.collective.run.backends import check_trial as check_trial
from synth.collective.run.backends import run as run
from synth.collective.run.trial import RunError as RunError
from synth.collective.run.trial import TrialRequest as TrialRequest
from synth.collective.run.trial import TrialResult as TrialResult
