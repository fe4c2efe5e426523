#!/usr/bin/python3
"""The peer of `gradwire bench collectives`: one rank of PyTorch's collectives over Gloo.

Repeats one collective of one float32 bucket, checks the results against values that it computes
itself, and prints one line of JSON with the fields of gradwire-collectives. Rank 0 is the root, and
sends to the last rank. Needs Debian's python3-torch.
"""
import argparse
import json
import time

import numpy
import torch
import torch.distributed

import rendezvous

PERIOD = 4099  # prime, so that values in the wrong place are noticed
SAMPLES = 1024
SUM = -1  # in place of a rank


class Pattern:
    """The terms of every rank and step, and their sum."""

    def __init__(self, rank, world_size):
        self.terms = [numpy.random.RandomState(r).uniform(-1, 1, PERIOD).astype(numpy.float32)
                      for r in range(world_size)]
        self.rank = rank
        self.sum = numpy.sum(self.terms, axis=0, dtype=numpy.float64)
        self.tolerance = numpy.sum(numpy.abs(self.terms), axis=0) * (world_size + 1) * 2.0**-23

    def fill(self, step, positions, bucket):
        bucket[positions] = self.terms[self.rank][(positions + 7 * step) % PERIOD]

    def wrong(self, step, positions, bucket, source):
        at = (positions + 7 * step) % PERIOD
        if source != SUM:
            return int(numpy.sum(bucket[positions] != self.terms[source][at]))
        return int(numpy.sum(~(numpy.abs(bucket[positions] - self.sum[at]) <= self.tolerance[at])))


class Collective:
    """One operation of `bucket`, in place; part r of W is rank r's."""

    def __init__(self, a, bucket):
        self.name, self.rank, self.world_size = a.op, a.rank, a.world_size
        self.bucket = bucket
        self.parts = list(bucket.chunk(a.world_size))
        self.run = self._runs()[a.op]

    def _runs(self):
        dist, bucket, parts, own = torch.distributed, self.bucket, self.parts, self.parts[self.rank]
        all_parts = parts if self.rank == 0 else None
        return {"all-reduce": lambda: dist.all_reduce(bucket),
                "broadcast": lambda: dist.broadcast(bucket, 0),
                "reduce": lambda: dist.reduce(bucket, 0),
                "all-gather": lambda: dist.all_gather(parts, own.clone()),
                "gather": lambda: dist.gather(own.clone(), all_parts, 0),
                "scatter": lambda: dist.scatter(own.clone() if all_parts else own, all_parts, 0),
                "send-recv": self._send_or_receive}

    def _send_or_receive(self):
        last = self.world_size - 1
        if last > 0 and self.rank == 0:
            torch.distributed.send(self.bucket, last)
        elif last > 0 and self.rank == last:
            torch.distributed.recv(self.bucket, 0)

    def expected(self):
        """Returns (first, end, whose) of the values that come out here."""
        count, part, rank = len(self.bucket), len(self.parts[0]), self.rank
        if self.name == "all-reduce" or self.name == "reduce" and rank == 0:
            return [(0, count, SUM)]
        if self.name == "broadcast" or self.name == "send-recv" and rank == self.world_size - 1:
            return [(0, count, 0)]
        if self.name == "scatter":
            return [(rank * part, (rank + 1) * part, 0)]
        if self.name == "all-gather" or self.name == "gather" and rank == 0:
            return [(r * part, (r + 1) * part, r) for r in range(self.world_size)]
        return []

    def bytes_moved(self):
        """Returns the bytes that this rank sends and receives if each byte went straight to its
        destination, and around a ring for the all-reduce. Gloo does not count them."""
        others, size, part = self.world_size - 1, 4 * len(self.bucket), 4 * len(self.parts[0])
        at_root, at_last = self.rank == 0, self.rank == others
        return {"all-reduce": (2 * others * part, 2 * others * part),
                "all-gather": (others * part, others * part),
                "broadcast": (others * size, 0) if at_root else (0, size),
                "reduce": (0, others * size) if at_root else (size, 0),
                "gather": (0, others * part) if at_root else (part, 0),
                "scatter": (others * part, 0) if at_root else (0, part),
                "send-recv": (size * at_root, size * at_last) if others else (0, 0)}[self.name]


class Loop:
    """Repeats a collective with one bucket, step after step."""

    def __init__(self, a):
        self.pattern = Pattern(a.rank, a.world_size)
        self.bucket = torch.zeros(a.bytes // 4)
        self.view = self.bucket.numpy()
        self.collective = Collective(a, self.bucket)
        self.gated = a.op != "all-reduce"
        count = len(self.view)
        self.all = numpy.arange(count)
        self.samples = numpy.unique(numpy.linspace(0, count - 1, min(count, SAMPLES)).astype(int))
        self.step = self.wrong = self.checked = 0

    def run(self, positions):
        """Fills and checks `positions` in one step. Returns its seconds."""
        self.pattern.fill(self.step, positions, self.view)
        if self.gated:
            torch.distributed.barrier()
        start = time.perf_counter()
        self.collective.run()
        seconds = time.perf_counter() - start
        for first, end, source in self.collective.expected():
            inside = positions[(positions >= first) & (positions < end)]
            self.wrong += self.pattern.wrong(self.step, inside, self.view, source)
            self.checked += len(inside)
        self.step += 1
        return seconds

    def agree(self, asked, seconds, limit):
        """Returns how many of `asked` steps of `seconds` all ranks do within `limit`."""
        part = torch.tensor([min(1.0, limit / max(seconds * asked, 1e-9))])
        torch.distributed.all_reduce(part, op=torch.distributed.ReduceOp.MIN)
        return max(1, int(asked * part.item()))


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    rendezvous.add_options(p)
    p.add_argument("--op", default="all-reduce")
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
    loop.bucket.zero_()  # the other values must not grow from sum to sum
    cpu = time.process_time()
    seconds = [loop.run(loop.samples) for _ in range(iterations)]
    cpu = time.process_time() - cpu
    loop.run(loop.all)
    sent, received = (iterations * moved for moved in loop.collective.bytes_moved())
    print(json.dumps({"rank": a.rank, "bytes": a.bytes, "seconds": seconds, "cpu_seconds": cpu,
                      "bytes_sent": sent, "bytes_received": received,
                      "iterations_in_all": loop.step, "checked": loop.checked,
                      "wrong": loop.wrong}), flush=True)
    torch.distributed.barrier()


main()
