"""What is said of a run when it has ended."""
