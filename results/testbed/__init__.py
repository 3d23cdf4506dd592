"""A hierarchical network that is real: hosts as network namespaces, levels as shaped bridges."""
