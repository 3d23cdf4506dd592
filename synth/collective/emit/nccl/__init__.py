"""Files in C for NCCL: a configuration of each call, and a tuner plugin."""
