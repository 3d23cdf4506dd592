"""Jobs: questions that wait in a queue, are computed, and can be followed.

The broker does not depend on HTTP, nor the dispatcher on requests: they communicate through the
store. A job is written before it is accepted, and the server that claims it holds a lease. A server
that dies therefore loses no job, and no two servers work on the same job. The outcome of a job is
one word:

>>> from synth.service.jobs.bodies import outcome_word
>>> [outcome_word(code) for code in (0, 1, 4, 5)]
['ok', 'no', 'partial', 'unknown']
"""
