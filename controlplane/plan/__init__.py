"""Where the launches of a recurring request should run: candidates from coarse to fine, a bound, and the winner."""
