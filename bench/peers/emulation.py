"""Sleeps in place of computation, as gradwire-worker --compute-seconds does."""
import time

import torch
from torch import nn

GRADIENT_SCALE = 1e-4


class PacedSleep:
    """Shortens the next sleep by the time that a sleep took too long."""

    def __init__(self):
        self._owed = 0.0

    def sleep(self, seconds):
        end = time.monotonic() + seconds - self._owed
        time.sleep(max(0.0, end - time.monotonic()))
        self._owed = time.monotonic() - end


def multiply_adds(model, sample):
    """Returns the layers with parameters of their own, in the order in which `sample` passes them,
    each with the multiply-adds of one forward pass; and the number of scores."""
    layers, hooks = [], []

    def count(layer, _inputs, output):
        factors = layer.weight[0].numel() if isinstance(layer, (nn.Conv2d, nn.Linear)) else 0
        layers.append((layer, output.numel() * factors))

    for layer in model.modules():
        if list(layer.parameters(recurse=False)):
            hooks.append(layer.register_forward_hook(count))
    model.eval()
    with torch.no_grad():
        classes = model(sample).shape[1]
    model.train()
    for hook in hooks:
        hook.remove()
    return layers, classes


class Layer:
    """A layer that sleeps; seconds are those of one sample."""

    def __init__(self, layer, forward, backward, sleep):
        self.parameters = list(layer.parameters(recurse=False))
        self.gradients = [GRADIENT_SCALE * torch.randn(p.shape) for p in self.parameters]
        self.forward, self.backward, self.sleep = forward, backward, sleep


class Sleep(torch.autograd.Function):
    """Takes the place of a layer, forward and backward."""

    @staticmethod
    def forward(ctx, scores, layer, *_parameters):
        ctx.layer = layer
        layer.sleep(layer.forward * len(scores))
        return scores.clone()

    @staticmethod
    def backward(ctx, scores):
        layer = ctx.layer
        layer.sleep(layer.backward * len(scores))
        return (scores, None, *layer.gradients)


class Emulated(nn.Module):
    """Has the parameters and buffers of `model`, and for each layer a sleep in proportion to its
    multiply-adds. `seconds`: of forward and of backward over `batch_size` samples."""

    def __init__(self, model, sample, seconds, batch_size):
        super().__init__()
        self.model = model
        costs, self._classes = multiply_adds(model, sample)
        whole, sleep = sum(cost for _, cost in costs), PacedSleep().sleep
        self._layers = [Layer(layer, *(cost / whole * of / batch_size for of in seconds), sleep)
                        for layer, cost in costs]

    def forward(self, images):
        scores = torch.zeros(len(images), self._classes)
        for layer in self._layers:
            scores = Sleep.apply(scores, layer, *layer.parameters)
        return scores


def seconds_of(text):
    """Parses "F,B"."""
    forward, backward = map(float, text.split(","))
    return forward, backward
