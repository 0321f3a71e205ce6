"""Real checkpoint files: a small network, its optimizer after a step, and its weights as safetensors.

Writes where it is started, and prints JSON.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    network = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024), num_layers=4).to(torch.bfloat16)
    measured: dict[str, object] = {"shapes": [list(weight.shape) for weight in network.parameters()]}
    for name, optimizer in (
        ("adamw", torch.optim.AdamW(network.parameters())),
        ("sgd_momentum", torch.optim.SGD(network.parameters(), momentum=0.9)),
    ):
        network(torch.randn(8, 2, 256, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        file = Path(f"{name}.pt")
        torch.save({"model": network.state_dict(), "optimizer": optimizer.state_dict()}, file)
        measured[name] = file.stat().st_size
    exported = Path("model.safetensors")
    save_file(network.state_dict(), exported)
    measured["safetensors"] = exported.stat().st_size
    json.dump(measured, sys.stdout)


if __name__ == "__main__":
    main()
