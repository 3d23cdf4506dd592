"""Answers about whole training steps, as people read them in a terminal."""
