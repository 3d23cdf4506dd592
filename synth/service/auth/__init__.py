"""Who asks, by which key, and how much they may ask for.

A key admits its team, as often a second as the key allows, and for so many jobs a day. The page has
sessions, which begin with a key or with what a trusted proxy says of who has signed in there.
Secrets are not kept, only digests of them, and are compared in constant time. A key that asks too
often is refused, with the time to wait: a token bucket holds two seconds' worth of requests.

>>> from synth.service.auth.keys import RateLimiter
>>> rates = RateLimiter(clock=lambda: 0.0)
>>> rates.take("a key", per_second=1)
>>> rates.take("a key", per_second=1)
>>> rates.take("a key", per_second=1)
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: this key may ask 1 times a second; ask again in 1 s
"""
