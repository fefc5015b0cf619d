"""What depends on what in a recorded program, and how much of it could run at the same time."""
