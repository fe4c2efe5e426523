"""Initial weights and first losses of VGG-11: vgg11.py SEED BATCH STEPS.

The answer holds `tensors`, in order, of name, kind (parameter or buffer), shape
and SHA-256 of the values' bytes, and `losses` of STEPS steps of SGD (lr 0.1, momentum 0.9,
weight decay 1e-4) on BATCH random images and labels that stay the same.
"""
import hashlib
import json
import sys

import torch
from torch import nn


class Vgg11(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0]:
            if width == 0:
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width),
                       nn.ReLU(inplace=True)]
            channels = width
        self.layers = nn.Sequential(*layers)
        self.fc1 = nn.Linear(512, 10)

    def forward(self, images):
        return self.fc1(self.layers(images).flatten(1))


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
model = Vgg11()
tensors = [describe("parameter", *entry) for entry in model.named_parameters()]
tensors += [describe("buffer", *entry) for entry in model.named_buffers()]
json.dump({"tensors": tensors, "losses": train(model, batch, steps)}, sys.stdout)
