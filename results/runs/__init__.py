"""Whole training steps, run here over shaped links, beside what they are simulated to take."""
