"""The service: the verbs over HTTP, with durable jobs, for many users of one instance.

A long question becomes a job. The job is written to the store before it is accepted, computed in
separate processes, reported through events, and recovered after a crash. Untrusted input is parsed
strictly and limited before any work begins: JSON that two parsers could read differently is
refused.

>>> from synth.service.strict_json import json_of
>>> json_of(b'{"system": "dgx-h100"}')
{'system': 'dgx-h100'}
>>> json_of(b'{"k": 1, "k": 2}')
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: body: the key 'k' is given twice; give it once
"""
