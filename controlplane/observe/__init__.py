"""What programs did: records from the shim in, statistics and traces out."""
