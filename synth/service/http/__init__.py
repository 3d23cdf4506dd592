"""The verbs over HTTP: routes, keys, problems, events, metrics and logs.

A route for each verb is made from the table of verbs, with its documents, so that HTTP and the
command line cannot drift apart. Refusals are ``application/problem+json`` (RFC 9457). With
``Prefer: wait=5`` (RFC 7240) a caller waits up to 5 s for the answer, and gets a job after that.

>>> from synth.service.http.verbs import wait_seconds
>>> wait_seconds("wait=5"), wait_seconds("respond-async, wait=0")
(5.0, 0.0)
"""
