"""Orders in PyTorch's own pipelining runtime, on real ranks: gradients are the whole model's.

``torch_pipeline.py FILE.csv...`` under RANK and WORLD_SIZE. The model has as many stages as the
order; each rank makes those that the file gives it. Stages are of several layers and all unlike, so
that a microbatch or a stage taken for another is seen. Prints the largest relative error of each.
"""

import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, ROWS = 8, 3


def whole_model(stages: int) -> torch.nn.ModuleList:
    torch.manual_seed(7)
    return torch.nn.ModuleList(
        torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 5 + number), torch.nn.Tanh(), torch.nn.Linear(5 + number, WIDTH)
        )
        for number in range(stages)
    ).double()


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).sum()


def error_of(file: Path) -> float:
    """Of all gradients of this rank's stages, the largest relative error."""
    rows = [re.findall(r"(\d+)[FBIW](\d+)", line) for line in file.read_text().splitlines()]
    count = 1 + max(int(stage) for row in rows for stage, _ in row)
    microbatches = 1 + max(int(one) for row in rows for _, one in row)
    mine = sorted({int(stage) for stage, _ in rows[dist.get_rank()]})
    model = whole_model(count)
    batch, target = torch.randn(2, microbatches * ROWS, WIDTH, dtype=torch.float64)
    stages = [PipelineStage(model[one], one, count, torch.device("cpu")) for one in mine]
    runtime = _PipelineScheduleRuntime(stages, microbatches, loss_fn=loss_of, scale_grads=False)
    runtime._load_csv(str(file))
    runtime.step(*[batch] if 0 in mine else [], target=target if count - 1 in mine else None)
    alone = whole_model(count)
    loss_of(torch.nn.Sequential(*alone)(batch), target).backward()
    errors = [
        ((given.grad - right.grad).abs().max() / right.grad.abs().max()).item()
        for one in mine
        for given, right in zip(model[one].parameters(), alone[one].parameters(), strict=True)
    ]
    return max(errors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in sys.argv[1:]:
        worst = torch.tensor(error_of(Path(name)))
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        print(f"{Path(name).stem} {worst.item()}", flush=True)
    dist.destroy_process_group()
