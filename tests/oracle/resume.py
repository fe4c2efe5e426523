"""Continues training in PyTorch: resume.py MODEL OPTIMIZER NAME DATA.

MODEL is the state dict of a small network, OPTIMIZER that of torch.optim's NAME, and DATA has the
batches x0, y0, x1, y1, … The answer has the loss of each batch, before its update.
"""
import json
import struct
import sys

import torch
from torch import nn

TYPES = {"F32": torch.float32, "I64": torch.int64}


def read(path):
    """{key: tensor} of a file by torch.save or in safetensors format."""
    if not path.endswith(".safetensors"):
        return torch.load(path)
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        entries = json.loads(file.read(length))
        values = bytearray(file.read())
    return {key: torch.frombuffer(values[slice(*entry["data_offsets"])],
                                  dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
            for key, entry in entries.items()}


model_path, optimizer_path, name, data_path = sys.argv[1:]
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                      nn.Linear(144, 3))
model.load_state_dict(read(model_path), strict=True)
# The state dict replaces this learning rate.
optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam,
             "adamw": torch.optim.AdamW}[name](model.parameters(), lr=1e6)
optimizer.load_state_dict(torch.load(optimizer_path))
data = read(data_path)
losses = []
for step in range(len(data) // 2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(data[f"x{step}"]), data[f"y{step}"])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
json.dump(losses, sys.stdout)
