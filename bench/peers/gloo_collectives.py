#!/usr/bin/python3
"""The peer of `gradwire bench collectives`: one rank of PyTorch's all_reduce over Gloo.

Sums one float32 bucket over and over, checks what comes back against a sum
computed apart, and prints one line of JSON with the fields that gradwire-collectives
prints. Needs Debian's python3-torch.
"""
import argparse
import json
import resource
import time

import numpy
import torch
import torch.distributed

import rendezvous

PERIOD = 4099  # prime, so that what lands in the wrong place shows
SAMPLES = 1024


class Pattern:
    """Known terms for every rank and step, and their sum."""

    def __init__(self, rank, world_size):
        terms = [numpy.random.RandomState(r).uniform(-1, 1, PERIOD).astype(numpy.float32)
                 for r in range(world_size)]
        self.terms = terms[rank]
        self.sum = numpy.sum(terms, axis=0, dtype=numpy.float64)
        self.tolerance = numpy.sum(numpy.abs(terms), axis=0) * (world_size + 1) * 2.0**-23

    def fill(self, step, positions, bucket):
        bucket[positions] = self.terms[(positions + 7 * step) % PERIOD]

    def wrong(self, step, positions, bucket):
        at = (positions + 7 * step) % PERIOD
        return int(numpy.sum(~(numpy.abs(bucket[positions] - self.sum[at]) <= self.tolerance[at])))


class Loop:
    """All-reduces one bucket in place, step after step."""

    def __init__(self, a):
        self.pattern = Pattern(a.rank, a.world_size)
        self.bucket = torch.zeros(a.bytes // 4)
        self.view = self.bucket.numpy()
        count = len(self.view)
        self.all = numpy.arange(count)
        self.samples = numpy.unique(numpy.linspace(0, count - 1, min(count, SAMPLES)).astype(int))
        self.step = self.wrong = self.checked = 0

    def run(self, positions):
        """One step of which `positions` are filled anew and checked. Gives its seconds."""
        self.pattern.fill(self.step, positions, self.view)
        start = time.perf_counter()
        torch.distributed.all_reduce(self.bucket)
        seconds = time.perf_counter() - start
        self.wrong += self.pattern.wrong(self.step, positions, self.view)
        self.checked += len(positions)
        self.step += 1
        return seconds

    def agree(self, asked, seconds, limit):
        """How many of `asked` steps of `seconds` each rank does within `limit`."""
        part = torch.tensor([min(1.0, limit / (seconds * asked))])
        torch.distributed.all_reduce(part, op=torch.distributed.ReduceOp.MIN)
        return max(1, int(asked * part.item()))


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    rendezvous.add_options(p)
    p.add_argument("--bytes", type=int, required=True)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--iterations", type=int, default=50)
    p.add_argument("--seconds", type=float, default=0, help="0: no limit")
    return p.parse_args()


def main():
    a = parse()
    torch.set_num_threads(1)
    rendezvous.join(a)
    loop = Loop(a)
    limit = a.seconds or float("inf")
    seconds = [loop.run(loop.all) for _ in range(2)]
    warmup = loop.agree(a.warmup, seconds[-1], limit / 4)
    seconds = [loop.run(loop.all) for _ in range(warmup)]
    iterations = loop.agree(a.iterations, seconds[-1], limit)
    loop.bucket.zero_()  # what is not filled anew must not grow from sum to sum
    cpu = cpu_seconds()
    seconds = [loop.run(loop.samples) for _ in range(iterations)]
    cpu = cpu_seconds() - cpu
    loop.run(loop.all)
    # Not counted by Gloo; what a ring of this size has to move.
    moved = iterations * 2 * (a.world_size - 1) * a.bytes // a.world_size
    print(json.dumps({"rank": a.rank, "bytes": a.bytes, "seconds": seconds, "cpu_seconds": cpu,
                      "bytes_sent": moved, "bytes_received": moved,
                      "iterations_in_all": loop.step, "checked": loop.checked,
                      "wrong": loop.wrong}), flush=True)
    torch.distributed.barrier()


main()
