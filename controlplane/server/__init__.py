"""The control plane process."""
