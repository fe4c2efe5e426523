"""Indices that torch's DistributedSampler gives: sampler.py CASES.json

Each case is an object with samples, world_size, rank, shuffle, seed, drop_last,
epoch; the answer is a list of index lists, in the order of the cases.
"""
import json
import sys

from torch.utils.data import DistributedSampler


def indices(case):
    sampler = DistributedSampler(
        range(case["samples"]), num_replicas=case["world_size"], rank=case["rank"],
        shuffle=case["shuffle"], seed=case["seed"], drop_last=case["drop_last"])
    sampler.set_epoch(case["epoch"])
    return list(sampler)


with open(sys.argv[1]) as cases:
    json.dump([indices(case) for case in json.load(cases)], sys.stdout)
