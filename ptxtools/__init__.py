"""PTX tools: reading PTX, and what its instructions mean. No part of this package needs a GPU or a CUDA toolkit."""
