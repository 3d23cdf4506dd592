"""From a question to its job: where it is put, waits, is worked on, and is heard of."""
