#!/usr/bin/env python3
"""Writes a model folder in MLX's format: the exact config of a public model, random 4-bit weights, an invented tokenizer.

    python3 random_model.py SHAPE FOLDER        SHAPE: one of SHAPES below, such as qwen3-0.6b or gemma3-1b

For speed measurements where the real checkpoint cannot be fetched: shapes, quantisation and dtypes are those of the
public 4-bit conversions (groups of 64, bf16 scales and biases), so the device does the same work. Needs numpy alone.

The tokenizer's ordinary tokens fill a family's vocabulary up to its first added one; the added ones are Qwen3's.

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
# Fields of the config; "first_added" is the id of the first added token, and no field.
QWEN3 = dict(
    model_type="qwen3", architectures=["Qwen3ForCausalLM"], first_added=151643, vocab_size=151936, head_dim=128,
    num_key_value_heads=8, hidden_act="silu", max_position_embeddings=40960, rms_norm_eps=1e-06, rope_scaling=None,
    rope_theta=1000000, sliding_window=None, use_sliding_window=False,
)
SHAPES = {
    "qwen3-0.6b": dict(
        QWEN3, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, intermediate_size=3072,
        max_window_layers=28,
    ),
    "qwen3-4b": dict(
        QWEN3, hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, intermediate_size=9728,
        max_window_layers=36,
    ),
    "qwen3-tiny": dict(
        QWEN3, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512,
        num_key_value_heads=2, max_window_layers=3,
    ),
    "llama3.2-1b": dict(
        model_type="llama", architectures=["LlamaForCausalLM"], first_added=128000, vocab_size=128256,
        hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
        intermediate_size=8192, hidden_act="silu", max_position_embeddings=131072, mlp_bias=False, rms_norm_eps=1e-05,
        rope_theta=500000.0, pretraining_tp=1,
        rope_scaling={
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3",
        },
    ),
    "gemma3-1b": dict(
        model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], first_added=262000, vocab_size=262144,
        hidden_size=1152, num_hidden_layers=26, num_attention_heads=4, num_key_value_heads=1, head_dim=256,
        intermediate_size=6912, hidden_activation="gelu_pytorch_tanh", max_position_embeddings=32768,
        rms_norm_eps=1e-06, rope_theta=1000000, rope_local_base_freq=10000, rope_scaling=None,
        query_pre_attn_scalar=256, sliding_window=512, sliding_window_pattern=6, attn_logit_softcapping=None,
        final_logit_softcapping=None, cache_implementation="hybrid",
    ),
}
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
    fields = {name: value for name, value in shape.items() if name != "first_added"}
    quantization = {"group_size": GROUP, "bits": BITS}
    return {
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": shape["first_added"],
        "eos_token_id": shape["first_added"] + 2, "initializer_range": 0.02, "quantization": quantization,
        "quantization_config": quantization, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True,
        **fields,
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
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens", config["vocab_size"], hidden, LOGIT_SPREAD / hidden**0.5
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
    """Name, width and value of each norm's weight."""
    hidden, head = config["hidden_size"], config["head_dim"]
    # Gemma's norms add 1 to their weights. Its blocks are normed after the fact: 15 lets them outgrow the embedding.
    plain, after = (0, 15) if config["model_type"] == "gemma3_text" else (1, 1)
    in_layer = [("input_layernorm", hidden, plain), ("post_attention_layernorm", hidden, after)]
    if config["model_type"] != "llama":
        in_layer += [("self_attn.q_norm", head, plain), ("self_attn.k_norm", head, plain)]
    if config["model_type"] == "gemma3_text":
        in_layer += [("pre_feedforward_layernorm", hidden, plain), ("post_feedforward_layernorm", hidden, after)]
    yield "model.norm.weight", hidden, plain
    for layer in range(config["num_hidden_layers"]):
        for name, size, value in in_layer:
            yield f"model.layers.{layer}.{name}.weight", size, value


def tensors(config):
    """Name, dtype, shape and a function that makes the bytes, of every tensor."""
    rng = np.random.default_rng(1)
    for name, rows, columns, spread in matrices(config):
        # Standard deviation of a uniform choice of 0..15 is 4.61.
        scale = short_mantissa(spread / 4.61)
        added = slice(config["bos_token_id"], None) if name == "model.embed_tokens" else slice(0, 0)

        def level(value, rows=rows, columns=columns, added=added):
            grid = np.full((rows, columns // GROUP), value, np.float32)
            grid[added] = 0
            return bf16(grid)

        words = (rows, columns * BITS // 32)
        yield f"{name}.weight", "U32", words, lambda words=words: rng.integers(0, 1 << 32, words, np.uint32)
        groups = (rows, columns // GROUP)
        yield f"{name}.scales", "BF16", groups, lambda level=level, scale=scale: level(scale)
        yield f"{name}.biases", "BF16", groups, lambda level=level, scale=scale: level(-7.5 * scale)
    for name, size, value in norms(config):
        yield name, "BF16", (size,), lambda size=size, value=value: bf16(np.full(size, value))


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


def vocabulary(tokens):
    """Byte strings of the ordinary tokens: bytes, punctuation, white space, words with and without a space, CJK.

    The mixture is roughly that of a multilingual vocabulary, so that a grammar's mask costs about what it would."""
    draw = random.Random(1)
    seen = {bytes([byte]): None for byte in range(256)}
    punctuation = [chr(code) for code in range(33, 127) if not chr(code).isalnum()]
    seen.update((f"{a}{b}".encode(), None) for a in punctuation for b in punctuation)
    seen.update((mark * count, None) for mark in (b" ", b"\t", b"\n", b"\r\n") for count in range(1, 33))
    onsets = ["", *"bcdfghjklmnprstvwz", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "qu", "sh", "sp", "st", "th", "tr"]
    codas = ["", "", "", *"dlmnrst", "ck", "ll", "nd", "ng", "nt", "rd", "ss", "st"]
    while len(seen) < tokens:
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


def tokenizer_json(first_added):
    alphabet = byte_alphabet()
    spell = lambda token: "".join(alphabet[byte] for byte in token)
    added = [
        {"id": first_added + at, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
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
            "vocab": {spell(token): id for id, token in enumerate(vocabulary(first_added))}, "merges": [],
        },
    }


def main():
    shape, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    config = config_of(SHAPES[shape])
    first_added = SHAPES[shape]["first_added"]
    folder.mkdir(parents=True, exist_ok=True)
    write = lambda name, value: (folder / name).write_text(
        json.dumps(value, ensure_ascii=False), encoding="utf-8"
    )
    write("config.json", config)
    write("generation_config.json", {"eos_token_id": [first_added + 2, first_added]})
    write("tokenizer.json", tokenizer_json(first_added))
    write(
        "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": ADDED[2], "pad_token": ADDED[0],
         "chat_template": CHATML, "model_max_length": config["max_position_embeddings"]},
    )
    size = write_weights(config, folder / "model.safetensors")
    print(f"{folder}: {shape}, {size / 1e9:.2f} GB of weights")


main()
