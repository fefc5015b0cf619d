"""One forward pass, or some decoding steps, of a model as people run it, with random weights: zoo.py MODEL [--steps N].

Models come from Hugging Face's transformers, by their configurations, and from mmdit.py: nothing is downloaded. Sizes
are those of real models with fewer layers, as layers repeat. The last line is a digest of the result.
"""

import argparse
import hashlib
import json
from collections.abc import Callable

import torch
from mmdit import DiffusionTransformer, Shape
from torch import Tensor, nn

LAYERS = 4
TOKENS = 512


def tokens(batch: int, length: int, vocabulary: int) -> Tensor:
    return torch.randint(vocabulary, (batch, length), device="cuda")


def random(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def llama(layers: int = LAYERS) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, vocab_size=32000, **shape))


def mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    shape = {"hidden_size": 2048, "intermediate_size": 7168, "num_attention_heads": 16, "num_key_value_heads": 8}
    return MixtralForCausalLM(MixtralConfig(num_hidden_layers=LAYERS, vocab_size=32000, num_local_experts=8, **shape))


def mamba() -> nn.Module:
    from transformers import Mamba2Config, Mamba2ForCausalLM

    shape = {"hidden_size": 2048, "num_heads": 64, "head_dim": 64, "state_size": 128, "n_groups": 1}
    return Mamba2ForCausalLM(Mamba2Config(num_hidden_layers=LAYERS, vocab_size=32000, expand=2, **shape))


def prefill(make: Callable[[], nn.Module]) -> Callable[[int, bool], Tensor]:
    def run(steps: int, compiled: bool) -> Tensor:
        model = placed(make(), compiled)
        prompt = tokens(1, TOKENS, 32000)
        return torch.stack([model(prompt, use_cache=False).logits[:, -1] for _ in range(steps)])

    return run


def decode(make: Callable[[], nn.Module]) -> Callable[[int, bool], Tensor]:
    def run(steps: int, compiled: bool) -> Tensor:
        model = placed(make(), False)
        if compiled:
            model.generation_config.cache_implementation = "static"
            model.forward = torch.compile(model.forward)
        prompt = tokens(1, 64, 32000)
        return model.generate(prompt, max_new_tokens=steps, min_new_tokens=steps, do_sample=False)

    return run


def diffusion(steps: int, compiled: bool) -> Tensor:
    """The transformer of Stable Diffusion 3 medium, with fewer layers."""
    shape = Shape(layers=LAYERS)
    model = placed(DiffusionTransformer(shape), compiled)
    inputs = (
        random(2, shape.channels, shape.side, shape.side),
        random(2, 154, shape.text_width),
        random(2, shape.pooled_width),
    )
    times = torch.tensor([500.0, 500.0], device="cuda")
    return torch.stack([model(*inputs, times - step) for step in range(steps)])


def resnet(steps: int, compiled: bool) -> Tensor:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = placed(ResNetForImageClassification(ResNetConfig()), compiled)
    images = random(16, 3, 224, 224)
    return torch.stack([model(images).logits for _ in range(steps)])


def whisper(steps: int, compiled: bool) -> Tensor:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    shape = {"d_model": 768, "encoder_attention_heads": 12, "decoder_attention_heads": 12}
    layers = {"encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}
    model = placed(WhisperForConditionalGeneration(WhisperConfig(**shape, **layers)), compiled)
    sound = random(1, 80, 3000)
    begin = torch.full((1, 4), model.config.decoder_start_token_id, device="cuda")
    return torch.stack([model(input_features=sound, decoder_input_ids=begin).logits for _ in range(steps)])


def placed(model: nn.Module, compiled: bool) -> nn.Module:
    model = model.to("cuda", torch.bfloat16).eval()
    return torch.compile(model) if compiled else model


MODELS: dict[str, Callable[[int, bool], Tensor]] = {
    "llama-prefill": prefill(llama),
    "llama-decode": decode(llama),
    "diffusion": diffusion,
    "mixtral": prefill(mixtral),
    "mamba2": prefill(mamba),
    "resnet50": resnet,
    "whisper": whisper,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    with torch.inference_mode():
        result = MODELS[arguments.model](arguments.steps, arguments.compile)
    data = result.float().cpu().numpy().tobytes()
    print(json.dumps({"digest": hashlib.sha256(data).hexdigest(), "shape": list(result.shape)}))


if __name__ == "__main__":
    main()
