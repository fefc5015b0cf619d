"""Control flow of a function: blocks, dominators, loops, and reaching definitions of registers."""
