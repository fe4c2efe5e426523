"""PyTorch's PowerSGD hook: powersgd.py SEED RANKS STEPS RANK FOLDER.

Each of RANKS processes draws gradients of a bucket in each of STEPS steps; the hook, of matrices of
rank RANK, with error feedback and warm start, begins with drawn Q and makes means of them. They
meet in a file of FOLDER, which is empty. Prints the tensors' shapes, each matrix' first Q by
columns, the gradients by step and rank, and what the hook made of each step.
"""
import json
import multiprocessing
import os
import sys

import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

# Matrices of different shapes, which the hook does not reorder, and others.
SHAPES = [[24, 40], [7], [16, 3, 5, 5], [3, 4], [60, 31], [1, 50], []]
PLAIN = [[7], [3, 4], [1, 50], []]


class Bucket:
    """What the hook asks of a torch.distributed.GradBucket."""

    def __init__(self, gradient):
        self.gradient = gradient

    def index(self):
        return 0

    def buffer(self):
        return self.gradient

    def is_last(self):
        return True

    def gradients(self):
        sizes = [max(1, torch.Size(shape).numel()) for shape in SHAPES]
        # The hook asks every tensor for its first dimension.
        return [part.view(shape or [1]) for part, shape in zip(self.gradient.split(sizes), SHAPES)]


def draw(seed, ranks, steps, rank):
    """The first Q of each matrix, and the gradients."""
    random = torch.Generator().manual_seed(seed)
    matrices = [torch.zeros(shape).flatten(1) for shape in SHAPES if shape not in PLAIN]
    basis = [torch.randn(m.shape[1], min(rank, *m.shape), generator=random) for m in matrices]
    size = sum(torch.Size(shape).numel() for shape in SHAPES)
    return basis, torch.randn(steps, ranks, size, generator=random)


def run(process, folder, ranks, rank, basis, gradients, answer):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store",
                                         world_size=ranks, rank=process)
    state = powerSGD_hook.PowerSGDState(None, rank, start_powerSGD_iter=2)
    state.iter = state.start_powerSGD_iter
    state.p_memory_dict[0] = torch.zeros(
        sum(torch.zeros(shape).flatten(1).shape[0] * q.shape[1]
            for shape, q in zip([s for s in SHAPES if s not in PLAIN], basis)))
    state.q_memory_dict[0] = torch.cat([q.flatten() for q in basis])
    means = []
    for of_step in gradients:
        mean = powerSGD_hook.powerSGD_hook(state, Bucket(of_step[process].clone())).wait()
        means.append((mean[0] if isinstance(mean, list) else mean).tolist())
    if process == 0:
        answer.put(means)
    torch.distributed.barrier()


def main():
    seed, ranks, steps, rank = (int(argument) for argument in sys.argv[1:5])
    basis, gradients = draw(seed, ranks, steps, rank)
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    processes = [context.Process(target=run, args=(process, sys.argv[5], ranks, rank, basis,
                                                   gradients, answer)) for process in range(ranks)]
    for process in processes:
        process.start()
    means = answer.get(timeout=120)
    for process in processes:
        process.join()
    json.dump({"shapes": SHAPES, "basis": [q.T.flatten().tolist() for q in basis],
               "gradients": gradients.tolist(), "means": means}, sys.stdout)


main()
