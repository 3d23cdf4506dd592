"""Answers as people read them in a terminal."""
