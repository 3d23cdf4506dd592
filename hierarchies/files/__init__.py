"""A system as a TOML file: read, written, and found by its name in the catalogue.

Files speak to people, so they say ``GB_per_s`` and ``latency_us`` and name a source for each
number; Python gets seconds and bytes. Whatever is wrong in a file is refused with its line. What is
written reads back as what was written: else a machine would change on its way through a file.

>>> from hierarchies.files.loading import load
>>> from hierarchies.files.reading import read
>>> from hierarchies.files.writing import describe_system
>>> text = describe_system(load("dgx-h100:2"))
>>> next(line for line in text.splitlines() if line.startswith("bandwidth"))
'bandwidth_GB_per_s = 50.0'
>>> read(text).links[0].bandwidth_bytes_per_second
50000000000.0
>>> describe_system(read(text)) == text
True
"""
