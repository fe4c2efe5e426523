#!/usr/bin/python3
"""The peer of `gradwire bench training`: one rank of the same training in PyTorch + Gloo.

Has the model, batch size, optimizer and order of samples of gradwire-worker, without augmentation.
Prints a line of JSON for each iteration, as gradwire-worker --log-jsonl does, and a summary with the
epochs. Bytes are calculated for a ring, because Gloo counts none. Needs Debian's python3-torch.
"""
import argparse
import json
import math
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

import compute
import emulation
import rendezvous
from images import DATASETS, Images
from models import MODELS


def batches(a, images):
    """Yields batches of this rank's share without end, each with its epoch."""
    sampler = DistributedSampler(images, a.world_size, a.rank, seed=a.sampler_seed)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        order = numpy.array(list(sampler))
        for first in range(0, len(order), a.batch_size):
            yield epoch, images.batch(order[first:first + a.batch_size])
        epoch += 1


def gather_scatter(parameters, a):
    """Gathers each gradient at rank 0 and scatters the mean, one parameter after the other."""
    for p in parameters:
        if a.rank == 0:
            gradients = [torch.empty_like(p.grad) for _ in range(a.world_size)]
            torch.distributed.gather(p.grad, gradients, dst=0)
            mean = sum(gradients) / a.world_size
            torch.distributed.scatter(p.grad, [mean] * a.world_size, src=0)
        else:
            torch.distributed.gather(p.grad, dst=0)
            torch.distributed.scatter(p.grad, src=0)


def all_reduce(parameters, a):
    for p in parameters:
        torch.distributed.all_reduce(p.grad)
        p.grad /= a.world_size


SYNCS = {"gather-scatter": gather_scatter, "all-reduce": all_reduce}


def is_powersgd(a):
    return a.hook is not None and a.hook != "fp16"


class Sent:
    """The bytes that a rank sends for an iteration's gradients, if they go around a ring."""

    def __init__(self, model, a):
        self._whole = sum(parameter.numel() for parameter in model.parameters())
        self._element_bytes = 2 if a.hook == "fp16" else 4
        self._ring = 2 * (a.world_size - 1) / a.world_size
        self.low_rank = None  # the state of the PowerSGD hook, which counts from its start
        self._before = (0, 0)

    def of_iteration(self):
        elements = self._whole
        if self.low_rank:
            now = self.low_rank.compression_stats()[1:]
            raw, sent = (after - before for after, before in zip(now, self._before))
            self._before = now
            elements += sent - raw
        return round(self._ring * self._element_bytes * elements)


def wrap(model, a, sent):
    if a.mode != "ddp":
        return model
    if is_powersgd(a):  # it cannot have two buckets under way at once; see bench/setups.inc
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = int(a.bucket_mb * 2**20)
    model = DistributedDataParallel(model, bucket_cap_mb=a.bucket_mb,
                                    gradient_as_bucket_view=a.bucket_view,
                                    broadcast_buffers=a.broadcast_buffers)
    if a.hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif is_powersgd(a):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=a.hook,
                                            start_powerSGD_iter=2)  # the least that is allowed
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        sent.low_rank = state
    return model


class Tests:
    """Tests a model: each rank some batches. All ranks get the result."""

    def __init__(self, a):
        self._images, self._a = Images(a, train=False), a

    def run(self, model):
        a, sums = self._a, torch.zeros(2, dtype=torch.float64)
        for buffer in model.buffers():  # as DistributedDataParallel does before the next pass
            torch.distributed.broadcast(buffer, 0)
        model.eval()
        with torch.no_grad():
            order = numpy.arange(len(self._images))
            for first in range(a.rank * a.batch_size, len(order), a.world_size * a.batch_size):
                pixels, labels = self._images.batch(order[first:first + a.batch_size])
                scores = model(pixels)
                sums[0] += nn.functional.cross_entropy(scores, labels, reduction="sum")
                sums[1] += (scores.argmax(1) == labels).sum()
        model.train()
        torch.distributed.all_reduce(sums)
        loss, accuracy = (sums / len(self._images)).tolist()
        return {"loss": loss, "accuracy": accuracy}


def train(a, images, model):
    """Yields the line of each iteration, whose time excludes what the caller does."""
    sent = Sent(model, a)
    wrapped = wrap(model, a, sent)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=a.lr, momentum=a.momentum,
                                weight_decay=a.weight_decay)
    source = batches(a, images)
    for step in range(a.iterations):
        start = time.perf_counter()
        epoch, (pixels, labels) = next(source)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(wrapped(pixels), labels)
        loss.backward()
        line = {"step": step, "epoch": epoch, "rank": a.rank, "loss": loss.item(),
                "bytes_sent": sent.of_iteration()}
        if a.mode in SYNCS:
            sync_start = time.perf_counter()
            SYNCS[a.mode](parameters, a)
            line["phase_seconds"] = {"exposed_communication": time.perf_counter() - sync_start}
        optimizer.step()
        line["iteration_seconds"] = time.perf_counter() - start
        yield line


def train_epochs(a, images):
    """Returns lines of all iterations, and rows of the epochs, with tests if those are wanted."""
    torch.manual_seed(a.seed)
    model, lines, rows = MODELS[a.model](), [], []
    if a.compute_seconds:
        sample = images.batch(numpy.array([0]))[0]
        model = emulation.Emulated(model, sample, a.compute_seconds, a.batch_size)
    tests = Tests(a) if a.evaluate_every else None
    of_epoch = math.ceil(math.ceil(len(images) / a.world_size) / a.batch_size)
    a.iterations = a.epochs * of_epoch or a.iterations
    for line in train(a, images, model):
        lines.append(line)
        if line["step"] % of_epoch == 0:
            rows.append({"epoch": line["epoch"], "seconds": 0.0})
        rows[-1]["seconds"] += line["iteration_seconds"]
        if tests and (len(lines) % of_epoch == 0 or len(lines) == a.iterations):
            rows[-1]["test"] = tests.run(model)
    return lines, rows


def hook(text):
    """Returns "fp16", or the rank of "powersgd:RANK"."""
    name, _, rank = text.partition(":")
    if text == "fp16":
        return text
    if name == "powersgd" and rank.isdigit() and int(rank) > 0:
        return int(rank)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected fp16 or powersgd:RANK")


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    rendezvous.add_options(p)
    p.add_argument("--mode", choices=[*SYNCS, "ddp"], default="ddp")
    p.add_argument("--model", choices=MODELS, default="vgg11")
    p.add_argument("--image-size", type=int, choices=[32], help="of the images, which stay as they are")
    p.add_argument("--dataset", choices=DATASETS, default="synthetic")
    p.add_argument("--data-dir", default="")
    for name, default in (("--batch-size", 64), ("--iterations", 15), ("--lr", 0.1),
                          ("--momentum", 0.9), ("--weight-decay", 1e-4),
                          ("--sampler-seed", 0), ("--threads", 1), ("--bucket-mb", 25.0)):
        p.add_argument(name, type=type(default), default=default)
    p.add_argument("--epochs", type=int, default=0, help="in place of iterations")
    p.add_argument("--evaluate-every", type=int, choices=[1], help="test after each epoch")
    p.add_argument("--seed", type=int, default=744, help="of the weights")
    p.add_argument("--blas", default="", metavar="FILE", help="the BLAS that must compute")
    p.add_argument("--compute-seconds", type=emulation.seconds_of, metavar="F,B",
                   help="sleep in place of computing, in forward and backward")
    p.add_argument("--bucket-view", action="store_true")
    p.add_argument("--no-broadcast-buffers", dest="broadcast_buffers", action="store_false")
    p.add_argument("--hook", type=hook, metavar="fp16|powersgd:RANK")
    return p.parse_args()


def main():
    a = parse()
    if a.blas:
        compute.check_blas(a.blas)
    compute.use_threads(a.threads)
    images = Images(a)
    rendezvous.join(a)
    lines, epochs = train_epochs(a, images)
    torch.distributed.barrier()
    for line in lines:
        print(json.dumps(line))
    print(json.dumps({"epochs": epochs}, indent=1))


main()
