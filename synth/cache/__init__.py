"""What is kept on this machine between questions: results that are slow to compute, as JSON.

``folder`` stores entries in the user's cache folder, ``edition`` names the code that made them, and
``coding`` writes values as text without the risk of pickle, which executes what it reads.
"""
