"""How the gradients of a plan go: each sum by itself, or several in a bucket.

>>> from synth.train.planner.pins import said_of
>>> from synth.train.planner.sums.choosing import BUCKETS
>>> from synth.train.plans import parse_recipe
>>> plan = parse_recipe("data=8; batch over data; buckets of 100 MB")
>>> plan.bucket_bytes in BUCKETS, said_of(plan, "bucket")
(True, '100MB')
"""
