"""How much faster two workers answer than one process."""
