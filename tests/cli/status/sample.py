"""A coordinator's /status.json: two ranks in step 17 of 20, rank 1 the slower one."""
import copy
import json

from phases import PHASES

RUNNING = {
    "program": "gradwire-coordinator", "version": "0.1.0", "run": "0123456789abcdef",
    "state": "running", "reason": "", "epoch": 1, "generation": 1, "world_size": 2,
    "settings": {"sync": "ddp", "backend": "sharded", "model": "vgg11", "dataset": "cifar10"},
    "step": 17, "total_steps": 20, "now": 1795000000.5, "started": 1795000000.0,
    "slowest_rank": 1, "phases": PHASES,
    "ranks": [
        {"rank": 0, "address": "10.10.1.1:29401", "pid": 4711, "metrics": "",
         "state": "running", "steps_done": 18, "loss": 1.5, "iteration_seconds": 0.4,
         "phase_seconds": {"data": 0.005, "forward": 0.095, "backward": 0.1, "communication": 0.2,
                           "exposed_communication": 0.15, "optimizer": 0.05},
         "work_seconds": 0.25, "samples": 8, "peak_memory_bytes": 412345678,
         "heard_seconds": 0.1},
        {"rank": 1, "address": "10.10.1.2:29401", "pid": 4712, "metrics": "",
         "state": "running", "steps_done": 17, "loss": 2.5, "iteration_seconds": 0.4,
         "phase_seconds": {"data": 0.005, "forward": 0.095, "backward": 0.2, "communication": 0.1,
                           "exposed_communication": 0.05, "optimizer": 0.05},
         "work_seconds": 0.35, "samples": 8, "heard_seconds": 0.2}],
    "events": [{"time": 1795000000.1, "step": 12, "kind": "lost",
                "text": "rank 3 was lost in step 12: it was silent for 10 s"}]}


def running(**changes):
    return {**copy.deepcopy(RUNNING), **changes}


def body_of(status):
    return json.dumps(status, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
