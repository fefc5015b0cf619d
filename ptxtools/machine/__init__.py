"""What a kernel reads and writes, from its machine code: a cubin becomes templates as PTX does (`ptxtools.access`)."""
