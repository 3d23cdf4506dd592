"""Spells calls of primitives in JAX and in PyTorch, as text: neither is imported.

>>> from synth.primitives.calls.torch import TORCH_SPELLING
>>> TORCH_SPELLING.dtypes["bf16"]
'torch.bfloat16'
"""
