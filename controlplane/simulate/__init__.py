"""What a profiled program would do on some GPUs: in virtual time, with its requests, its threads and its placement."""
