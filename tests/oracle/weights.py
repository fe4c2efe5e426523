"""Weights by torch.save and torch.load: weights.py save|checkpoint|load FILE.

save writes a module's state dict, checkpoint a dict of more than tensors. The answer has the values
of all tensors of FILE, flat, by their keys.
"""
import json
import sys

import torch
from torch import nn

what, path = sys.argv[1:]
if what == "save":
    module = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3))
    state = module.state_dict()
    state["transposed"] = torch.arange(6.0).view(2, 3).t()
    state["part"] = torch.arange(6)[2:4]
    state["parameter"] = nn.Parameter(torch.ones(2))
    torch.save(state, path)
elif what == "checkpoint":
    torch.save({"epoch": 3, "weight": torch.ones(2)}, path)
if what == "checkpoint":
    answer = {}
else:
    answer = {key: tensor.double().flatten().tolist() for key, tensor in torch.load(path).items()}
json.dump(answer, sys.stdout)
