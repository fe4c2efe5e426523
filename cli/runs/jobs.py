"""Programs that run side by side, and whose output is wanted."""
import dataclasses
import signal
import time

from cli.runs.failure import Failure
from cli.runs.process import last_lines, text_of
from cli.runs.process_set import ProcessSet

SECONDS_TO_LOOK = 0.05
SECONDS_TO_SAY_WHY = 1
SECONDS_TO_END = 3
SHOWN_LINES = 8


@dataclasses.dataclass
class Job:
    name: str  # "rank 0", for messages
    process: object
    serves: bool  # runs until the others have ended; its stdout does not matter

    def failure(self):
        why = "\n  ".join(last_lines(text_of(self.process.err), SHOWN_LINES))
        return f"{self.name} {self.process.end}" + (f":\n  {why}" if why else "")


class Jobs(ProcessSet):
    """Programs that are waited for together. One that fails ends the wait.

    `check` is called about 20 times a second, and raises Stopped if all programs must end.
    """

    def __init__(self, check):
        super().__init__()
        self._check = check
        self._jobs = []

    def start(self, name, command, serves=False):
        """Starts a program and returns its Process. Failure if it cannot be started."""
        process = self.add(command)
        self._jobs.append(Job(name, process, serves))
        return process

    def run_until(self, ready, deadline):
        """Waits until ready() is true, which is asked about 20 times a second. Failure if a job
        failed: how it ended and the end of its stderr, for each job that failed within a second.
        Failure at the deadline (of time.monotonic) names the jobs that still run."""
        while not ready():
            self._check()
            self._raise_failures(SECONDS_TO_SAY_WHY)
            if time.monotonic() >= deadline:
                names = ", ".join(job.name for job in self._running_jobs())
                raise Failure("not done in time: " + (
                    f"{names} still running" if names else "no program runs any more"))
            self.wait(SECONDS_TO_LOOK)
        self._raise_failures(0)

    def finish(self, deadline, tick=lambda: None):
        """Waits until all jobs that do not serve have ended well, then ends those that do. Returns
        what the former printed to stdout, in the order of their start. `tick` is called about 20
        times a second, and once after they have ended. Failure as run_until."""
        def ready():
            tick()
            return self._workers_ended()
        self.run_until(ready, deadline)
        self._end_servers()
        return [text_of(job.process.out) for job in self._jobs if not job.serves]

    def _running_jobs(self):
        return [job for job in self._jobs if not job.process.ended]

    def _workers_ended(self):
        return all(job.serves for job in self._running_jobs())

    def _raise_failures(self, seconds_for_others):
        if not any(job.process.failed for job in self._jobs):
            return
        until = time.monotonic() + seconds_for_others
        while time.monotonic() < until and not self._workers_ended():
            self.wait(SECONDS_TO_LOOK)
        raise Failure("\n".join(job.failure() for job in self._jobs if job.process.failed))

    def _end_servers(self):
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.running():
                process.signal(signal_number)
            until = time.monotonic() + SECONDS_TO_END
            while self.running() and time.monotonic() < until:
                self.wait(SECONDS_TO_LOOK)


def run_job(name, command, seconds, check):
    """Runs one program to its end and returns its stdout. Failure as of Jobs."""
    with Jobs(check) as jobs:
        jobs.start(name, command)
        return jobs.finish(time.monotonic() + seconds)[0]
