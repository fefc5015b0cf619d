"""The instruction set: one table of every PTX instruction that works lane by lane (`semantics`), read by two consumers.

The emulated driver's operations are generated from it (`emit_c`); the access analysis takes each row's transfer.
"""
