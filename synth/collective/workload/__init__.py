"""A training job's collectives: read from a file, derived from a model's shape, placed best.

One training step sends several collectives over several axes, and one placement must serve them
all: the best placement for the gradients may be bad for tensor parallelism, which communicates a
hundred times as often. A job file gives amounts as formulas of the axes' sizes, so sizes can be
left open; sizes that do not meet the job's requirements (memory, whole layers) are left out.

>>> from synth.collective.workload.assignments import assignments
>>> from synth.collective.workload.files import load_job
>>> job = load_job("gpt-18b-3d")
>>> for entry in job.entries:
...     print(entry.name, *entry.over)
activations gathered tensor
activations scattered tensor
activations gathered again tensor
gradients summed data
>>> len(assignments(job, devices=32))
9
>>> assignments(job, devices=32)[0]
{'data': 1, 'tensor': 4, 'pipeline': 8}
"""
