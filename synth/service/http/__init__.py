"""The verbs over HTTP: routes, keys, problems, events, metrics and logs.

The routes of verbs and their documentation are generated from the table of verbs, so that HTTP and
the command line cannot drift apart. Refusals are ``application/problem+json`` (RFC 9457). With
``Prefer: wait=5`` (RFC 7240) a caller waits up to 5 s for the answer, and then gets a job.

>>> from synth.service.http.verbs import wait_seconds
>>> wait_seconds("wait=5"), wait_seconds("respond-async, wait=0")
(5.0, 0.0)
"""
