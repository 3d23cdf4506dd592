"""The verbs over HTTP: routes, keys, problems, events, metrics and logs.

A route for each verb is made from the table of verbs, with its documents, so that HTTP and the
command line cannot drift apart. Refusals are ``application/problem+json`` (RFC 9457). A caller says
with ``Prefer: wait=5`` (RFC 7240) how long to hold the line for an answer; later it gets a job.

>>> from synth.service.http.verbs import wait_seconds
>>> wait_seconds("wait=5"), wait_seconds("respond-async, wait=0")
(5.0, 0.0)
"""
