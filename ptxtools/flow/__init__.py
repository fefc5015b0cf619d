"""Control flow of a function: blocks, who dominates whom, loops, and where a register's value comes from."""
