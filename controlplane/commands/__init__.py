"""The commands: `tessera-run`, and `tessera` with one module per sub-command."""
