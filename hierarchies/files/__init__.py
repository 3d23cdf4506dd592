"""Systems as TOML files: reading, writing, and the catalogue.

Files are for people, so they state ``GB_per_s`` and ``latency_us`` and a source for each number.
In Python, numbers are in seconds and bytes. Errors in a file are reported with their line. Written
text reads back as the same system, so that a file never changes a machine.

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
