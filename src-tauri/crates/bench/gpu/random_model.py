#!/usr/bin/env python3
"""Writes a model folder in MLX's format: the exact config of a public model, random 4-bit weights, an invented tokenizer.

    python3 random_model.py SHAPE FOLDER        SHAPE: qwen3-0.6b, qwen3-4b or qwen3-tiny

For speed measurements where the real checkpoint cannot be fetched: shapes, quantisation and dtypes are those of the
public 4-bit conversions (groups of 64, bf16 scales and biases), so the device does the same work. Needs numpy alone.

Weights are uniform over the 16 levels and centred. Their spreads are chosen so that logits have a standard deviation
of about 6, which leaves a top-p 0.9 nucleus of a few tokens at temperature 0.7, as a trained model does; and so that
the residual stream outgrows the tied embedding, or each step would repeat its input token. Embedding rows of the
added tokens are zero: their logits stay far below the others, so no answer ends by chance.
"""
import json
import pathlib
import random
import sys

import numpy as np

GROUP, BITS = 64, 4
VOCAB, TOKENS, FIRST_ADDED = 151936, 151669, 151643
SHAPES = {
    "qwen3-0.6b": dict(hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, intermediate_size=3072),
    "qwen3-4b": dict(hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, intermediate_size=9728),
    "qwen3-tiny": dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512),
}
KV_HEADS, HEAD_DIM = 8, 128
LOGIT_SPREAD = 6.0

ADDED = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>",
    "<think>", "</think>",
]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def config_of(shape):
    quantization = {"group_size": GROUP, "bits": BITS}
    kv_heads = KV_HEADS if shape["num_attention_heads"] >= KV_HEADS else 2
    return {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": FIRST_ADDED, "eos_token_id": FIRST_ADDED + 2, "head_dim": HEAD_DIM, "hidden_act": "silu",
        "initializer_range": 0.02, "max_position_embeddings": 40960, "max_window_layers": shape["num_hidden_layers"],
        "model_type": "qwen3", "num_key_value_heads": kv_heads, "quantization": quantization,
        "quantization_config": quantization, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000,
        "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True,
        "use_sliding_window": False, "vocab_size": VOCAB, **shape,
    }


def bf16(values):
    """Bits of float32 values that have at most 8 significant bits."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any(), "a value does not fit bf16"
    return (bits >> 16).astype(np.uint16)


def short_mantissa(value):
    """Nearest float with 4 significant bits: it and 7.5 times it are exact in bf16, so weights stay centred."""
    mantissa, exponent = np.frexp(value)
    return np.ldexp(np.round(mantissa * 16) / 16, exponent)


def matrices(config):
    """Name, rows, columns and standard deviation of each quantised matrix."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    queries, keys = config["num_attention_heads"] * HEAD_DIM, config["num_key_value_heads"] * HEAD_DIM
    yield "model.embed_tokens", VOCAB, hidden, LOGIT_SPREAD / hidden**0.5
    for layer in range(config["num_hidden_layers"]):
        attention, mlp = f"model.layers.{layer}.self_attn", f"model.layers.{layer}.mlp"
        yield f"{attention}.q_proj", queries, hidden, hidden**-0.5
        yield f"{attention}.k_proj", keys, hidden, hidden**-0.5
        yield f"{attention}.v_proj", keys, hidden, hidden**-0.5
        # Attention averages values away, and the gated product halves its inputs: what returns to the residual
        # stream is scaled up again.
        yield f"{attention}.o_proj", hidden, queries, 6 * queries**-0.5
        yield f"{mlp}.gate_proj", ffn, hidden, hidden**-0.5
        yield f"{mlp}.up_proj", ffn, hidden, hidden**-0.5
        yield f"{mlp}.down_proj", hidden, ffn, 4 * ffn**-0.5


def norms(config):
    yield "model.norm.weight", config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        for name, size in [
            ("input_layernorm", config["hidden_size"]), ("post_attention_layernorm", config["hidden_size"]),
            ("self_attn.q_norm", HEAD_DIM), ("self_attn.k_norm", HEAD_DIM),
        ]:
            yield f"model.layers.{layer}.{name}.weight", size


def tensors(config):
    """Name, dtype, shape and a function that makes the bytes, of every tensor."""
    rng = np.random.default_rng(1)
    for name, rows, columns, spread in matrices(config):
        # Standard deviation of a uniform choice of 0..15 is 4.61.
        scale = short_mantissa(spread / 4.61)
        added = slice(FIRST_ADDED, None) if name == "model.embed_tokens" else slice(0, 0)

        def level(value, rows=rows, columns=columns, added=added):
            grid = np.full((rows, columns // GROUP), value, np.float32)
            grid[added] = 0
            return bf16(grid)

        words = (rows, columns * BITS // 32)
        yield f"{name}.weight", "U32", words, lambda words=words: rng.integers(0, 1 << 32, words, np.uint32)
        groups = (rows, columns // GROUP)
        yield f"{name}.scales", "BF16", groups, lambda level=level, scale=scale: level(scale)
        yield f"{name}.biases", "BF16", groups, lambda level=level, scale=scale: level(-7.5 * scale)
    for name, size in norms(config):
        yield name, "BF16", (size,), lambda size=size: bf16(np.ones(size))


def write_weights(config, path):
    header, at, makers = {"__metadata__": {"format": "mlx"}}, 0, []
    for name, dtype, shape, make in tensors(config):
        size = int(np.prod(shape)) * (4 if dtype == "U32" else 2)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
        makers.append((size, make))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for size, make in makers:
            array = np.ascontiguousarray(make())
            assert array.nbytes == size
            file.write(array)
    return at


def byte_alphabet():
    """Character that stands for each byte in a byte-level vocabulary: itself where printable, else from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def vocabulary():
    """Byte strings of the ordinary tokens: bytes, punctuation, white space, words with and without a space, CJK.

    The mixture is roughly that of a multilingual vocabulary, so that a grammar's mask costs about what it would."""
    draw = random.Random(1)
    seen = {bytes([byte]): None for byte in range(256)}
    punctuation = [chr(code) for code in range(33, 127) if not chr(code).isalnum()]
    seen.update((f"{a}{b}".encode(), None) for a in punctuation for b in punctuation)
    seen.update((mark * count, None) for mark in (b" ", b"\t", b"\n", b"\r\n") for count in range(1, 33))
    onsets = ["", *"bcdfghjklmnprstvwz", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "qu", "sh", "sp", "st", "th", "tr"]
    codas = ["", "", "", *"dlmnrst", "ck", "ll", "nd", "ng", "nt", "rd", "ss", "st"]
    while len(seen) < FIRST_ADDED:
        kind = draw.random()
        if kind < 0.15:
            word = "".join(chr(draw.randrange(0x4E00, 0x9FA5)) for _ in range(draw.choice([1, 2, 2, 3])))
        else:
            syllables = draw.choice([1, 2, 2, 2, 3, 3, 4])
            word = "".join(
                draw.choice(onsets) + draw.choice("aeiouy") + draw.choice(codas) for _ in range(syllables)
            )
            word = word.capitalize() if kind > 0.85 else word
            word = " " + word if draw.random() < 0.5 else word
        seen[word.encode()] = None
    return list(seen)


def tokenizer_json():
    alphabet = byte_alphabet()
    spell = lambda token: "".join(alphabet[byte] for byte in token)
    added = [
        {"id": FIRST_ADDED + at, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": text.startswith("<|")}
        for at, text in enumerate(ADDED)
    ]
    stage = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": stage, "post_processor": None, "decoder": stage,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {spell(token): id for id, token in enumerate(vocabulary())}, "merges": [],
        },
    }


def main():
    shape, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    assert FIRST_ADDED + len(ADDED) == TOKENS
    config = config_of(SHAPES[shape])
    folder.mkdir(parents=True, exist_ok=True)
    write = lambda name, value: (folder / name).write_text(
        json.dumps(value, ensure_ascii=False), encoding="utf-8"
    )
    write("config.json", config)
    write("generation_config.json", {"eos_token_id": [FIRST_ADDED + 2, FIRST_ADDED]})
    write("tokenizer.json", tokenizer_json())
    write(
        "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": ADDED[2], "pad_token": ADDED[0],
         "chat_template": CHATML, "model_max_length": 40960},
    )
    size = write_weights(config, folder / "model.safetensors")
    print(f"{folder}: {shape}, {size / 1e9:.2f} GB of weights")


main()
