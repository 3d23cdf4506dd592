"""How primitives are called in JAX and in PyTorch; neither is imported, only written."""
