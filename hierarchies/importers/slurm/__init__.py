"""Slurm's topology files, in both of their languages."""
