"""Prices that agree with measurements: reading them, fitting to them, being judged by them."""
