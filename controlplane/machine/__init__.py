"""The GPUs of this machine, and machines that are emulated."""

SPEC = "a number of GPUs, names from `tessera devices` separated by commas, or a YAML file"  # what --emulate takes
