"""Answers as JSON: made from what planners and judges found, and read back."""
