"""What every part of the control plane uses and that knows none of them."""
