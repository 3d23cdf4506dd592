"""The front end: what JAX traced becomes our graph. The only place that reads jaxprs.

A function is traced over shapes, so that nothing is allocated. Calls are replaced by what they
call, loops are kept with their bodies, and what is not known is refused with its user's line.

>>> import jax, jax.numpy as jnp
>>> from synth.step.trace.reading import read_jaxpr
>>> vector = jax.ShapeDtypeStruct((10**12,), jnp.float32)
>>> graph, _ = read_jaxpr(jax.make_jaxpr(lambda x: jnp.sin(x).sum())(vector), ["x"])
>>> [one.primitive for one in graph.operations]
['sin', 'reduce_sum']
"""
