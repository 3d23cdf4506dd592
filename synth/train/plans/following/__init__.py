"""Completes a plan whose inputs are said: every operation follows how its operands lie."""

from synth.train.plans.following.following import follow

__all__ = ["follow"]
