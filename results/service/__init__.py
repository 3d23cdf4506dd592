"""The service under load and under kill -9: on this machine's own address, for a bounded time."""
