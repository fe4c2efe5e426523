"""A model's tensors and scores, by torchvision: models.py NAME SEED SIDE.

The answer holds `tensors`, in order, of name, kind (parameter or buffer), shape and SHA-256 of the
values' bytes, for the weights that SEED gives, and `scores` of two random images of SIDE pixels,
in evaluation mode after one pass in training mode.
"""
import hashlib
import json
import sys

import torch
import torchvision
from torch import nn


class Embeddings(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.words = nn.Embedding(30522, width)
        self.positions = nn.Embedding(512, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids):
        places = self.positions.weight[:ids.shape[1]]
        return self.dropout(self.norm(self.words(ids) + places + self.types.weight[0]))


class Bert(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.embeddings = Embeddings(width)
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList([nn.TransformerEncoderLayer(
            width, heads, 4 * width, activation="gelu", batch_first=True) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 10)
        for name, values in self.named_parameters():
            if values.dim() > 1:
                nn.init.normal_(values, 0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(values)

    def forward(self, ids):
        vectors = self.embeddings(ids.flatten(1).long())
        for layer in self.encoder.layers:
            vectors = layer(vectors)
        return self.classifier(torch.tanh(self.pooler(vectors[:, 0])))


def describe(kind, name, tensor):
    sha256 = hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()
    return {"kind": kind, "name": name, "shape": list(tensor.shape), "sha256": sha256}


name, seed, side = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(seed)
if name == "bert_tiny":
    model = Bert(2, 128, 2)
    inputs = torch.randint(0, 30522, (2, 1, 1, 128)).float()
else:
    model = getattr(torchvision.models, name)(num_classes=10)
    inputs = torch.randn(2, 3, side, side)
tensors = [describe("parameter", *entry) for entry in model.named_parameters()]
tensors += [describe("buffer", *entry) for entry in model.named_buffers()]
with torch.no_grad():
    model.train()(inputs)
    scores = model.eval()(inputs)
json.dump({"tensors": tensors, "scores": scores.flatten().tolist()}, sys.stdout)
