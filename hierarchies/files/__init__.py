"""A system as a TOML file: read, written, and found by its name in the catalogue."""
