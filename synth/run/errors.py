"""What goes wrong while programs run."""

from __future__ import annotations

from hierarchies import InputError


class RunError(InputError):
    """The processes of a run did not get to their end."""
