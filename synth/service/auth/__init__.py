"""Authentication of callers, rate limits and quotas.

A key authenticates its team and has limits of requests per second and jobs per day. Sessions of
the page begin with a key, or with a user whom a trusted proxy has signed in. Only digests of
secrets are stored, and they are compared in constant time. A key that exceeds its rate is refused
with the time to wait: a token bucket holds the requests of two seconds.

>>> from synth.service.auth.keys import RateLimiter
>>> rates = RateLimiter(clock=lambda: 0.0)
>>> rates.take("a key", per_second=1)
>>> rates.take("a key", per_second=1)
>>> rates.take("a key", per_second=1)
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: this key may send 1 requests a second; try again in 1 s
"""
