"""A sharded step in PyTorch: the language of its files, and what PyTorch has no function for."""

from synth.train.emit.torch.language import DTYPES, TORCH

__all__ = ["DTYPES", "TORCH"]
