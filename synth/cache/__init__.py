"""What is kept on this machine between questions: results that are slow to compute, as JSON.

``folder`` stores entries, ``choice`` finds the folder, and ``edition`` names the code that made
them. ``coding`` writes values as text without the risk of pickle, which executes what it reads.
``kept`` is what others use: values by keys, the latest in memory and all on disk.

>>> from synth.cache.codec import Codec
>>> codec = Codec()
>>> codec.decode(codec.encode({(1, 2): 0.5}))
{(1, 2): 0.5}
"""
