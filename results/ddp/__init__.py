"""DDP's buckets executed: what was simulated of them beside what two ranks took."""
