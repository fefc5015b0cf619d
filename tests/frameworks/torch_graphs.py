"""PyTorch, CUDA graphs: a decoding step captured once and replayed, with work between the replays."""

import torch
from common import Digest, torch_main
from llama import Shape, build


@torch.inference_mode()
def run(digest: Digest) -> None:
    model = build(Shape(layers=4))
    token = torch.full((1, 1), 5, device="cuda")
    position = torch.zeros(1, dtype=torch.long, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(token, position)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = model(token, position)
        token.copy_(logits.argmax(-1, keepdim=True))
        position.add_(1)
    for _ in range(32):
        graph.replay()
        digest.add_tensors(token)
    digest.add_tensors(logits, position)


torch_main(run)
