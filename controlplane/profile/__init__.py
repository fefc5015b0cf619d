"""Profiles: what a program's recurring iteration gives its GPUs, how long it takes on each, and what it needs."""
