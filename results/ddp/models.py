"""What is trained: models of PyTorch's own layers, small enough for a core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Model:
    """Its kind, with the samples of a rank; of a perceptron width and layers, likewise else."""

    name: str
    kind: str
    width: int
    layers: int
    batch: int

    def loss(self, module: Any, batch: Any) -> Any:
        """Of a batch, to go back from."""
        return module(batch).square().mean()


LENGTH, CHANNELS = 64, 3
WIDE = Model("perceptron", "linear", 1024, 8, 256)
DECODER = Model("transformer", "attention", 256, 6, 4)
PICTURES = Model("convolutions", "convolution", 128, 8, 2)
MODELS = (WIDE, DECODER, PICTURES)


def built(model: Model) -> tuple[Any, Any, Any]:
    """The same numbers each time: the module, what updates it, and a rank's batch."""
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.manual_seed(0)
    width, module = model.width, nn.Sequential()
    shape: tuple[int, ...] = (model.batch,)
    if model.kind == "linear":
        for _ in range(model.layers):
            module.extend([nn.Linear(width, width), nn.ReLU()])
        shape += (width,)
    elif model.kind == "attention":
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        module.append(nn.TransformerEncoder(layer, model.layers, enable_nested_tensor=False))
        shape += (LENGTH, width)
    else:
        module.append(nn.Conv2d(CHANNELS, width, 3, padding=1))
        for at in range(model.layers):
            stride = 2 if at % 2 else 1
            module.extend([nn.Conv2d(width, width, 3, stride, padding=1), nn.ReLU()])
        module.extend([nn.Flatten(), nn.LazyLinear(width)])
        shape += (CHANNELS, 32, 32)
    draw = torch.Generator().manual_seed(1 + dist.get_rank())
    batch = torch.randn(shape, generator=draw)
    module(batch)
    return module, torch.optim.SGD(module.parameters(), lr=0.01), batch
