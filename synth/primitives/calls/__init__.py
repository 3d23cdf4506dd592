"""How primitives are called in JAX and in PyTorch; neither is imported, only written.

>>> from synth.primitives.calls.torch import TORCH_SPELLING
>>> TORCH_SPELLING.dtypes["bf16"]
'torch.bfloat16'
"""
