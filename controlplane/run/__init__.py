"""tessera-run: what happens before a program starts and after it has ended."""
