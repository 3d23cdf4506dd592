"""What happens when: one engine for segments, flows and whole steps. It knows no programs."""

from synth.events.engine import Course, Engine, Shares

__all__ = ["Course", "Engine", "Shares"]
