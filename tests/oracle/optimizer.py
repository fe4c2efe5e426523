"""Does a step in PyTorch with an exported optimizer: optimizer.py FILE NAME SHAPES.

NAME is a class of torch.optim; SHAPES is a list, in JSON, of groups with the shape of each parameter.
The parameters are 1 before the step and the gradients 0.5. The answer has the sum of each parameter
after it.
"""
import json
import sys

import torch

path, name, shapes = sys.argv[1:]
groups = [{"params": [torch.ones(shape, requires_grad=True) for shape in group]}
          for group in json.loads(shapes)]
# The state dict replaces this learning rate.
optimizer = getattr(torch.optim, name)(groups, lr=1e6)
optimizer.load_state_dict(torch.load(path))
parameters = [parameter for group in groups for parameter in group["params"]]
for parameter in parameters:
    parameter.grad = torch.full_like(parameter, 0.5)
optimizer.step()
json.dump([parameter.detach().double().sum().item() for parameter in parameters], sys.stdout)
