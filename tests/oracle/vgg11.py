"""Initial weights and first losses of VGG-11: vgg11.py SEED BATCH STEPS.

The answer holds `tensors`, in order, of name, kind (parameter or buffer), shape
and SHA-256 of the values' bytes, and `losses` of STEPS steps of SGD (lr 0.1, momentum 0.9,
weight decay 1e-4) on BATCH random images and labels that stay the same.
"""
import hashlib
import importlib.util
import json
import pathlib
import sys

import torch
from torch import nn


spec = importlib.util.spec_from_file_location(
    "vgg11_model", pathlib.Path(__file__).with_name("vgg11_model.py"))
vgg11_model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(vgg11_model)


def describe(kind, name, tensor):
    sha256 = hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()
    return {"kind": kind, "name": name, "shape": list(tensor.shape), "sha256": sha256}


def train(model, batch, steps):
    images = torch.randn(batch, 3, 32, 32)
    labels = torch.randint(0, 10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


seed, batch, steps = (int(argument) for argument in sys.argv[1:])
torch.set_num_threads(1)
torch.manual_seed(seed)
model = vgg11_model.Vgg11()
tensors = [describe("parameter", *entry) for entry in model.named_parameters()]
tensors += [describe("buffer", *entry) for entry in model.named_buffers()]
json.dump({"tensors": tensors, "losses": train(model, batch, steps)}, sys.stdout)
