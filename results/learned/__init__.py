"""How far off estimators of fused kernels are on models and families that they never saw."""
