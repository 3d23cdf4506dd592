"""How the gradients of a plan are reduced: one by one, or several in a bucket.

>>> from synth.step.search.pins import pin_value_of
>>> from synth.step.search.sums.choosing import BUCKETS
>>> from synth.step.sharding import parse_recipe
>>> plan = parse_recipe("data=8; batch over data; buckets of 100 MB")
>>> plan.bucket_bytes in BUCKETS, pin_value_of(plan, "bucket")
(True, '100MB')
"""
