"""tessera-run: what is put before a program, and what is said after it."""
