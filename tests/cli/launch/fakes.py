"""What stands in for the running programs of a launch."""
from typing import NamedTuple

REQUEST = {"token_file": "", "programs": {"coordinator": "/bin/gradwire-coordinator",
                        "worker": "/bin/gradwire-worker", "gradwire": "/bin/gradwire"},
           "program": "", "workers": 2, "world_size": 2, "mpirun": False, "hostfile": "", "per_host": 0,
           "network": "", "coordinator": {"listen": "127.0.0.1:0"}, "linger_seconds": 0,
           "lease_seconds": 10, "rank_options": [], "log_jsonl": "", "metrics": "off",
           "listen": "0.0.0.0:0", "summary": "", "trace": "", "phases": [], "config": "",
           "dataset": "synthetic", "data_dir": "", "weights": "", "seconds_per_byte": None,
           "through_coordinator": [], "overlapping": [], "halving": [], "periodic": [],
           "served": []}


class Lost(NamedTuple):
    who: str
    end: str
    loss: object = None
    was_told_to_end: bool = False
    ranks: frozenset = frozenset()


class FakeSupervisor:
    """Starts nothing; the run ends as it is told."""

    def __init__(self, cause="", exit_code=0):
        self.cause, self.exit_code = cause, exit_code
        self.started, self.lost, self.late = [], [], []
        self.signalled = 0
        self.start_failure = None
        self.on_start = lambda: None

    def start(self, member):
        if self.start_failure:
            raise self.start_failure
        self.started.append(member)
        self.on_start()

    def run_until(self, ready, _seconds):
        return ready()

    def wait_for(self, ready, _seconds):
        return not self.signalled and ready()

    def fail(self, exit_code, cause):
        self.cause, self.exit_code = cause, exit_code

    def run(self):
        return self.exit_code
