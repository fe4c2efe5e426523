"""Bits of (byte / 255 - mean) / std in torch's float32: normalise.py MEAN STD.

The answer is a list of 256 unsigned 32-bit numbers, by byte.
"""
import json
import sys

import numpy
import torch

mean, std = (torch.tensor(float(argument)) for argument in sys.argv[1:])
values = (torch.arange(256).float() / 255 - mean) / std
json.dump(values.numpy().view(numpy.uint32).tolist(), sys.stdout)
