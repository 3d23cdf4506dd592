"""A sharded step in PyTorch: the language of its files, and functions that PyTorch lacks.

The torch types of JAX's element types:

>>> from synth.step.emit.torch import DTYPES
>>> DTYPES["bf16"]
'torch.bfloat16'
"""

from synth.step.emit.torch.language import DTYPES, TORCH

__all__ = ["DTYPES", "TORCH"]
