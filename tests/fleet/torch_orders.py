"""Prints the orders of PyTorch's own schedules, without processes: by the methods that make rows.

``torch_orders.py CLASS RANKS MICROBATCHES CHUNKS``, any number of such four, prints JSON: for each
the CSV that PyTorch would write, without what it adds when the gradients of a stage are complete.
``--comms`` before them: for each its dumps with sends and receives, as it has them (``plain``),
with FSDP's (``fsdp``), and with receives as late as can be (``deferred``).
"""

import csv
import io
import json
import sys
from types import SimpleNamespace

from torch.distributed.pipelining import schedules


def text_of(rows):
    file = io.StringIO()
    for rank in sorted(rows):
        csv.writer(file).writerow(rows[rank])
    return file.getvalue()


def with_comms(rows, stages):
    """As ``_PipelineScheduleRuntime`` lowers an order."""
    ranks = {}
    for rank, row in rows.items():
        for one in (inner for a in row if a is not None for inner in a.sub_actions or (a,)):
            ranks[one.stage_index] = rank

    def lowered(given):
        return schedules._add_send_recv(given, ranks.__getitem__, stages)

    def own():
        return {rank: [one for one in row if one is not None] for rank, row in rows.items()}

    fsdp = {
        rank: schedules._add_reduce_grad(schedules._add_unshard_reshard(row), microbatches)
        for rank, row in own().items()
    }
    deferred = schedules._defer_recv_ops(lowered(own()), ranks.__getitem__)
    return {
        "plain": text_of(lowered(own())),
        "fsdp": text_of(lowered(fsdp)),
        "deferred": text_of(deferred),
    }


found = []
comms = sys.argv[1] == "--comms"
for at in range(1 + comms, len(sys.argv), 4):
    ranks, microbatches, chunks = map(int, sys.argv[at + 1 : at + 4])
    rounds = max(1, microbatches // ranks)
    made = SimpleNamespace(
        pp_group_size=ranks,
        num_stages=ranks * chunks,
        _num_stages=ranks * chunks,
        _n_microbatches=microbatches,
        n_local_stages=chunks,
        number_of_rounds=rounds,
        microbatches_per_round=microbatches // rounds,
        _stages=[None] * chunks,
    )
    kind = getattr(schedules, sys.argv[at])
    if "_get_pipeline_order" in vars(kind):
        rows = kind._get_pipeline_order(made)
    else:
        rows = {rank: kind._calculate_single_rank_operations(made, rank) for rank in range(ranks)}
    rows = {
        rank: [one for one in rows[rank] if "REDUCE_GRAD" not in str(one)] for rank in range(ranks)
    }
    found.append(with_comms(rows, ranks * chunks) if comms else text_of(rows))
print(json.dumps(found))
