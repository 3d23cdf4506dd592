"""From a question to its job: where it waits, is worked on, and is followed.

The broker knows no HTTP and the dispatcher no requests: they meet in the store. A job is written
before it is accepted, and the server that takes it holds a lease. So a server that dies loses no
job, and two servers do not work on one. How a job ended is one word:

>>> from synth.service.jobs.bodies import outcome_word
>>> [outcome_word(code) for code in (0, 1, 4, 5)]
['ok', 'no', 'partial', 'unknown']
"""
