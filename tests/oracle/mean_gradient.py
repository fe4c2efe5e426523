"""The gradient that ranks average: mean_gradient.py SEED RANKS BATCH.

VGG-11 is seeded; then, rank by rank, BATCH random images and labels are drawn,
and the gradient of their mean cross entropy is taken at the initial weights.
Prints, for each parameter, sums over the mean of the ranks' gradients: of its
elements, of their squares, and of its elements times (index mod 7).
"""
import importlib.util
import json
import pathlib
import sys

import torch
from torch import nn

seed, ranks, batch = (int(argument) for argument in sys.argv[1:])
spec = importlib.util.spec_from_file_location(
    "vgg11_model", pathlib.Path(__file__).with_name("vgg11_model.py"))
vgg11_model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(vgg11_model)

torch.set_num_threads(1)
torch.manual_seed(seed)
model = vgg11_model.Vgg11()
mean = [torch.zeros_like(parameter) for parameter in model.parameters()]
for _ in range(ranks):
    images = torch.randn(batch, 3, 32, 32)
    labels = torch.randint(0, 10, (batch,))
    model.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    for total, parameter in zip(mean, model.parameters()):
        total += parameter.grad / ranks
answer = []
for gradient in mean:
    flat = gradient.double().flatten()
    weights = torch.arange(flat.numel()).remainder(7).double()
    answer.append([flat.sum().item(), flat.square().sum().item(), (flat * weights).sum().item()])
json.dump(answer, sys.stdout)
