"""The front end: converts a JAX trace to our graph. No other package reads jaxprs.

A function is traced over shapes, so nothing is allocated. Calls are inlined, loops keep their
bodies, and unknown primitives are refused with the line of the user's code.

>>> import jax, jax.numpy as jnp
>>> from synth.step.trace.reading import read_jaxpr
>>> vector = jax.ShapeDtypeStruct((10**12,), jnp.float32)
>>> graph, _ = read_jaxpr(jax.make_jaxpr(lambda x: jnp.sin(x).sum())(vector), ["x"])
>>> [operation.primitive for operation in graph.operations]
['sin', 'reduce_sum']
"""
