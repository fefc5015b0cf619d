"""How the control plane process waits for many things at once."""
