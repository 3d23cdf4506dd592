"""Authentication of callers, rate limits and quotas.

A key admits its team, with a limit of requests per second and of jobs per day. The page has
sessions, which begin with a key or with the user whom a trusted proxy has signed in. Only digests
of secrets are kept, and they are compared in constant time. A key that exceeds its rate is refused
with the time to wait: a token bucket holds two seconds' worth of requests.

>>> from synth.service.auth.keys import RateLimiter
>>> rates = RateLimiter(clock=lambda: 0.0)
>>> rates.take("a key", per_second=1)
>>> rates.take("a key", per_second=1)
>>> rates.take("a key", per_second=1)
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: this key may send 1 requests a second; try again in 1 s
"""
