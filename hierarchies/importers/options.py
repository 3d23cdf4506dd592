"""Options that complete the files of an import."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchies.errors import InputError

MOST_NODES = 10**6


@dataclass(frozen=True)
class ImportOptions:
    """``nodes``: the number of identical nodes; ``gpu``: their GPUs' model, one of ``MODELS``;
    ``keys``: labels of Kubernetes nodes that name the levels, outermost first.
    """

    nodes: int | None = None
    gpu: str | None = None
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise InputError(f"{self.nodes} nodes", hint=f"from 1 to {MOST_NODES}")
