"""The GPUs of this machine, and machines that are emulated."""
