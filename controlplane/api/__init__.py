"""Tessera for Python programs and notebooks: what `import tessera` offers."""
