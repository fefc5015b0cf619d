"""The control plane: starts programs on GPUs (real or emulated), and looks at what they did."""

__version__ = "0.1.0"
