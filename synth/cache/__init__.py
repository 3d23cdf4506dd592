"""A cache on this machine for results that are slow to compute, stored as JSON.

``folder`` stores entries, ``choice`` finds the folder, and ``edition`` names the code that made
them. ``coding`` writes values as text without the risk of pickle, which executes what it reads.
``kept`` is the interface for other packages: values by key, the latest of them in memory too.

>>> from synth.cache.codec import Codec
>>> codec = Codec()
>>> codec.decode(codec.encode({(1, 2): 0.5}))
{(1, 2): 0.5}
"""
