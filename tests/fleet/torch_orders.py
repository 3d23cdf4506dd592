"""Prints the orders of PyTorch's own schedules, without processes: by the methods that make rows.

``torch_orders.py CLASS RANKS MICROBATCHES CHUNKS``, any number of such four, prints JSON: for each
the CSV that PyTorch would write, without what it adds when the gradients of a stage are complete.
"""

import csv
import io
import json
import sys
from types import SimpleNamespace

from torch.distributed.pipelining import schedules

found = []
for at in range(1, len(sys.argv), 4):
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
    file = io.StringIO()
    for rank in range(ranks):
        row = [one for one in rows[rank] if "REDUCE_GRAD" not in str(one)]
        csv.writer(file).writerow(row)
    found.append(file.getvalue())
print(json.dumps(found))
