"""The program that `tessera demo` runs; it knows nothing of Tessera."""
