"""Opening a model from the header of a file with 700 tensors ÷ what another reader needs to list its tensors.

A GGUF file against `gguf.GGUFReader`, without and with a vocabulary; a safetensors file, with its config.json, against
the format's own reader in Rust, `safetensors.safe_open`, and against a reading of its JSON without any check. Ours give
a whole model each time: the structure, and every tensor compared with it. The files are made on the fly; their data are
a hole that no reader looks into.
"""

import itertools
import json
import struct
import tempfile
from pathlib import Path

from harness import Ratio, compare
from planner.model.counts import parameters
from planner.model.files import open_model

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCABULARY = 58, 5120, 40, 8, 128, 13824, 152_064
TENSORS = 12 * LAYERS + 4
PARAMETERS = 17_522_719_744
QUERY, KEY = (HIDDEN, HEADS * HEAD_DIM), (HIDDEN, KV_HEADS * HEAD_DIM)
LAYER = {
    ("attn_norm.weight", "input_layernorm.weight"): (HIDDEN,),
    ("attn_q.weight", "self_attn.q_proj.weight"): QUERY,
    ("attn_q.bias", "self_attn.q_proj.bias"): QUERY[1:],
    ("attn_k.weight", "self_attn.k_proj.weight"): KEY,
    ("attn_k.bias", "self_attn.k_proj.bias"): KEY[1:],
    ("attn_v.weight", "self_attn.v_proj.weight"): KEY,
    ("attn_v.bias", "self_attn.v_proj.bias"): KEY[1:],
    ("attn_output.weight", "self_attn.o_proj.weight"): QUERY,
    ("ffn_norm.weight", "post_attention_layernorm.weight"): (HIDDEN,),
    ("ffn_gate.weight", "mlp.gate_proj.weight"): (HIDDEN, INNER),
    ("ffn_up.weight", "mlp.up_proj.weight"): (HIDDEN, INNER),
    ("ffn_down.weight", "mlp.down_proj.weight"): (INNER, HIDDEN),
}
ENDS = {
    ("token_embd.weight", "model.embed_tokens.weight"): (HIDDEN, VOCABULARY),
    ("output_norm.weight", "model.norm.weight"): (HIDDEN,),
    ("output.weight", "lm_head.weight"): (HIDDEN, VOCABULARY),
    ("rope_freqs.weight", "model.rotary_emb.inv_freq"): (HEAD_DIM // 2,),
}
"""(name in GGUF, name in safetensors) of the tensors of a Qwen2.5 of 58 layers, with their sizes, the fastest first."""
CONFIG = {
    "model_type": "qwen2",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": INNER,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
}
F16, TEXT, WHOLE, LIST = 1, 8, 4, 9


def tensors(which: int) -> dict[str, tuple[int, ...]]:
    """All tensors, by their names in GGUF (0) or safetensors (1)."""
    place = ("blk.{}.{}", "model.layers.{}.{}")[which]
    inner = {place.format(layer, names[which]): size for layer in range(LAYERS) for names, size in LAYER.items()}
    return inner | {names[which]: size for names, size in ENDS.items()}


def write_gguf(path: Path, words: int) -> Path:
    """A GGUF file in F16 with a vocabulary of so many words."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    whole = {
        "block_count": LAYERS,
        "context_length": 131_072,
        "embedding_length": HIDDEN,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
    }
    keys = [text("general.architecture") + struct.pack("<I", TEXT) + text("qwen2")]
    keys += [text(f"qwen2.{key}") + struct.pack("<II", WHOLE, value) for key, value in whole.items()]
    if words:
        entries = b"".join(text(f"word{number}") for number in range(words))
        keys.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", LIST, TEXT, words) + entries)
    listed, end = [], 0
    for name, sizes in tensors(0).items():
        listed.append(text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, F16, end))
        end += -(-2 * _product(sizes) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(keys)) + b"".join(keys + listed)
    return _with_hole(path, head + bytes(-len(head) % 32), end)


def write_safetensors(path: Path) -> Path:
    """A safetensors file in BF16."""
    header, end = {}, 0
    for name, sizes in tensors(1).items():
        begin, end = end, end + 2 * _product(sizes)
        header[name] = {"dtype": "BF16", "shape": list(reversed(sizes)), "data_offsets": [begin, end]}
    content = json.dumps(header).encode()
    return _with_hole(path, struct.pack("<Q", len(content)) + content, end)


def list_tensors(path: Path) -> dict[str, tuple[list[int], str]]:
    """Names, shapes and types as the format's own reader gives them."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        return {name: (tensor.get_shape(), tensor.get_dtype()) for name, tensor in found.items()}


def read_plainly(path: Path) -> int:
    """Only the JSON of a header."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return len(header)


def measure(rounds: int = 15) -> list[Ratio]:
    from gguf import GGUFReader

    with tempfile.TemporaryDirectory() as folder:
        bare = write_gguf(Path(folder, "bare.gguf"), 0)
        spoken = write_gguf(Path(folder, "spoken.gguf"), VOCABULARY)
        stored = write_safetensors(Path(folder, "model.safetensors"))
        Path(folder, "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        for path in (bare, spoken, stored):
            opened = open_model(path)
            assert opened.tensors is not None
            assert len(opened.tensors.entries) == TENSORS == 700
            assert parameters(opened.spec) == PARAMETERS
            assert opened.spec.layers == LAYERS
        assert len(GGUFReader(bare).tensors) == len(list_tensors(stored)) == read_plainly(stored) == TENSORS
        return [
            compare(
                "opening a GGUF file of 700 tensors ÷ gguf.GGUFReader",
                lambda: open_model(bare),
                lambda: GGUFReader(bare),
                limit=1.5,
                rounds=rounds,
                calls=(3, 3),
            ),
            compare(
                "the same with a vocabulary of 152 064 words",
                lambda: open_model(spoken),
                lambda: GGUFReader(spoken),
                limit=1.5,
                rounds=3,
            ),
            *(
                compare(
                    f"opening a safetensors file of 700 tensors ÷ {name}",
                    lambda: open_model(stored),
                    lambda theirs=theirs: theirs(stored),
                    limit=limit,
                    rounds=rounds,
                    calls=(10, 10),
                )
                for name, theirs, limit in (
                    ("listing them with safetensors.safe_open", list_tensors, 4.0),
                    ("reading the JSON of its header", read_plainly, None),
                )
            ),
        ]


def _product(sizes: tuple[int, ...]) -> int:
    return list(itertools.accumulate(sizes, lambda left, right: left * right))[-1]


def _with_hole(path: Path, head: bytes, data: int) -> Path:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + data)
    return path


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
