"""Requests, branches and steps one after another in one thread and stream: independent.py PROGRAM [--units N].

Programs as people write them, with random weights; nothing marks where a request or a branch begins. Models come
from transformers and from mmdit.py, by their configurations; nothing is downloaded. The last line is a digest.
"""

import argparse
import hashlib
import json
from collections.abc import Callable

import torch
from mmdit import DiffusionTransformer, Shape
from torch import Tensor, nn
from zoo import decode, llama, mamba, mixtral, random, tokens


def placed(model: nn.Module, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    return model.to("cuda", dtype).eval()


def each(model: nn.Module, inputs: list[dict[str, Tensor]], pick: Callable[[object], Tensor]) -> Tensor:
    """A request for each of the inputs, which are all there before the first one."""
    results = [pick(model(**some)) for some in inputs]
    torch.cuda.synchronize()
    return torch.stack(results)


def requests(make: Callable[[], nn.Module], length: int, vocabulary: int = 32000) -> Callable[[int], Tensor]:
    def run(units: int) -> Tensor:
        model = placed(make())
        inputs = [{"input_ids": tokens(1, length, vocabulary)} for _ in range(units)]
        return each(model, inputs, lambda out: out.logits[:, -1])

    return run


def llama_of_ten() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=10, vocab_size=32000, **shape))


def guidance(units: int) -> Tensor:
    """Steps with two branches, with the prompt and without, and an update from both."""
    shape = Shape(layers=12)
    model = placed(DiffusionTransformer(shape))
    latent = random(1, shape.channels, shape.side, shape.side)
    prompts = [(random(1, 154, shape.text_width), random(1, shape.pooled_width)) for _ in range(2)]
    times = torch.linspace(1000, 0, units + 1, device="cuda").split(1)
    for step in range(units):
        with_prompt, without = (model(latent, *prompt, times[step]) for prompt in prompts)
        latent = latent + (without + 5.0 * (with_prompt - without)) / units
    torch.cuda.synchronize()
    return latent


def ensemble(units: int) -> Tensor:
    from transformers import ResNetConfig, ResNetForImageClassification

    models = [placed(ResNetForImageClassification(ResNetConfig()), torch.float16) for _ in range(4)]
    batches = [random(32, 3, 224, 224).half() for _ in range(units)]
    results = [torch.stack([model(batch).logits for model in models]).mean(0) for batch in batches]
    torch.cuda.synchronize()
    return torch.stack(results)


def bert(units: int) -> Tensor:
    from transformers import BertConfig, BertModel

    model = placed(BertModel(BertConfig()))
    inputs = [{"input_ids": tokens(8, 512, 30000)} for _ in range(units)]
    return each(model, inputs, lambda out: out.pooler_output)


def vit(units: int) -> Tensor:
    from transformers import ViTConfig, ViTForImageClassification

    model = placed(ViTForImageClassification(ViTConfig()))
    return each(model, [{"pixel_values": random(32, 3, 224, 224)} for _ in range(units)], lambda out: out.logits)


def whisper_encoder(units: int) -> Tensor:
    from transformers import WhisperConfig, WhisperModel

    shape = {"d_model": 768, "encoder_attention_heads": 12, "encoder_layers": 12, "encoder_ffn_dim": 3072}
    model = placed(WhisperModel(WhisperConfig(**shape)).encoder)
    inputs = [{"input_features": random(4, 80, 3000)} for _ in range(units)]
    return each(model, inputs, lambda out: out.last_hidden_state)


def training(units: int) -> Tensor:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=8, n_embd=1024, n_head=16)).to("cuda").train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = [tokens(8, 512, 50000) for _ in range(units)]
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return loss.detach()


PROGRAMS: dict[str, Callable[[int], Tensor]] = {
    "llama-requests": requests(llama_of_ten, 2048),
    "guidance": guidance,
    "ensemble": ensemble,
    "bert": bert,
    "vit": vit,
    "whisper-encoder": whisper_encoder,
    "mamba2": requests(mamba, 2048),
    "moe": requests(mixtral, 512),
    "training": training,
    "decode": lambda units: decode(llama)(4 * units, False),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--units", type=int, default=16)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    if arguments.program == "training":
        result = PROGRAMS[arguments.program](arguments.units)
    else:
        with torch.inference_mode():
            result = PROGRAMS[arguments.program](arguments.units)
    data = result.float().cpu().numpy().tobytes()
    print(json.dumps({"digest": hashlib.sha256(data).hexdigest(), "shape": list(result.shape)}))


if __name__ == "__main__":
    main()
