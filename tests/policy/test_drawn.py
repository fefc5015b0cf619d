"""Policies that are drawn from a seed (tests/e2e/matrix.py): all can be read, and are what they were."""

from pathlib import Path

from controlplane.policy.read import read_policy
from tests.e2e.matrix import Placing

SEEDS = range(1, 41)


def test_drawn_policies(tmp_path: Path) -> None:
    texts = set()
    for gpus in (2, 4):
        for seed in SEEDS:
            placing = Placing(f"drawn-{seed}+copies")
            file = placing.file(tmp_path, gpus)
            policy = read_policy(file)
            assert max(policy.gpus) == gpus - 1
            assert 2 <= len(policy.rules) <= 4
            texts.add(file.read_text())
            assert placing.rules(gpus) == Placing(placing.name).rules(gpus)
    assert len(texts) > 1.9 * len(SEEDS)
