"""Builds the index of presets: run `python -m planner.model.preset_index` after adding one."""

import json
from collections.abc import Iterator
from typing import Any

from planner.model.counts import active_parameters, kv_bytes_per_token, parameters
from planner.model.readers import read_config
from planner.model.spec import Attention, LatentAttention, ModelSpec, ParallelMixers, RecurrentMixer
from planner.resources import resource

WHAT = "Facts of the presets, derived from their configurations by planner.model.preset_index."


def kind_of(spec: ModelSpec) -> str:
    """What a model is, for people, told from its structure."""
    mixers = [group.mixer for stack in spec.stacks for group in stack.groups]
    if spec.task == "diffusion":
        return "diffusion"
    if spec.task == "image-text-to-text":
        return "vision and language"
    if spec.task == "audio-text-to-text":
        return "sound and language"
    if spec.task == "speech-seq2seq":
        return "speech"
    if any(stack.image is not None for stack in spec.stacks):
        return "vision"
    if any(group.cross_attention is not None for stack in spec.stacks for group in stack.groups):
        return "encoder and decoder"
    if any(isinstance(mixer, RecurrentMixer | ParallelMixers) for mixer in mixers):
        return "state space"
    if active_parameters(spec) != parameters(spec):
        return "mixture of experts"
    causal = any(mixer.causal for mixer in mixers if isinstance(mixer, Attention | LatentAttention))
    return "decoder" if causal else "encoder"


def records() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(file, family, record) of every preset."""
    for path in sorted(resource("models", "presets").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for record in content["models"]:
            yield f"presets/{path.name}", content["family"], record


def index_entries() -> list[dict[str, Any]]:
    """The facts that the picker shows, in its order."""
    entries = []
    for file, family, record in records():
        spec = read_config(record["config"], record["task"], record["id"])
        entries.append(
            {
                "id": record["id"],
                "title": record["title"],
                "family": family,
                "kind": kind_of(spec),
                "task": record["task"],
                "parameters": parameters(spec),
                "active_parameters": active_parameters(spec),
                "kv_bytes_per_token": kv_bytes_per_token(spec),
                "context": spec.max_positions,
                "file": file,
            }
        )
    order = json.loads(resource("models", "family-order.json").read_text(encoding="utf-8"))["families"]
    place = {family: index for index, family in enumerate(order)}

    def key(entry: dict[str, Any]) -> tuple[int, str, int]:
        return place.get(entry["family"], len(place)), entry["family"], entry["parameters"]

    return sorted(entries, key=key)


def index_text() -> str:
    """The content of `resources/models/index.json`, one model a line."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in index_entries())
    return f'{{"what": "{WHAT}", "models": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    resource("models", "index.json").write_text(index_text(), encoding="utf-8")
