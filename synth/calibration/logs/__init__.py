"""What nccl-tests and rccl-tests printed, as measurements of ranks on a system."""
