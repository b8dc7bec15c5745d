"""Tuning by a Ray cluster: each problem is a task that takes one GPU."""
