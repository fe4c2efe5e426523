"""Programs that run beside each other, and whose output is wanted."""
import selectors
import signal
import time

from cli.runs.failure import Failure
from cli.runs.guard import Guard
from cli.runs.process import Process, describe_end, text_of

SECONDS_TO_LOOK = 0.05
SECONDS_TO_SAY_WHY = 1
SECONDS_TO_END = 3
SHOWN_LINES = 8


def tail(text):
    """The last lines, in one."""
    lines = [line for line in text.split("\n") if line.strip()]
    return "\n  ".join(lines[-SHOWN_LINES:])


class Job:
    def __init__(self, name, process, serves):
        self.name = name  # "rank 0", for messages
        self.process = process
        self.serves = serves  # it runs until the others have ended, and prints nothing of use

    def failure(self):
        why = tail(text_of(self.process.err))
        return f"{self.name} {describe_end(self.process.status)}" + (f":\n  {why}" if why else "")


class Jobs:
    """Runs programs together, in the calling thread. Nothing is left of them behind `with`, nor
    if this process is killed, but for what Command.leaves_others allows.

    `check` is called about 20 times a second and raises Stopped if all is to end.
    """

    def __init__(self, check):
        self._check = check
        self._jobs = []
        self._selector = selectors.DefaultSelector()
        self._guard = Guard()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self._running():
            job.process.signal(signal.SIGKILL)
        while self._running():
            self._wait(None)
        for job in self._jobs:
            job.process.close()
        self._selector.close()
        self._guard.close()

    def start(self, name, command, serves=False):
        """Starts one and gives its Process. Failure if it cannot be started."""
        process = Process(command)
        self._guard.add(process.pid)
        self._jobs.append(Job(name, process, serves))
        self._selector.register(process.end_fd, selectors.EVENT_READ, lambda: self._end(process))
        for pipe in process.outputs:
            self._selector.register(pipe, selectors.EVENT_READ,
                                    lambda pipe=pipe: self._read(process, pipe))
        return process

    def run_until(self, ready, deadline):
        """Waits until ready() is true, asked about 20 times a second. Failure if a job failed:
        how, and the end of what it wrote to stderr, as of all that failed with it within a
        second; or at the deadline (of time.monotonic), with what still runs."""
        while not ready():
            self._check()
            self._raise_failures(SECONDS_TO_SAY_WHY)
            if time.monotonic() >= deadline:
                raise Failure(f"not done in time: {self._still_running()}")
            self._wait(SECONDS_TO_LOOK)
        self._raise_failures(0)

    def finish(self, deadline, tick=lambda: None):
        """Waits until all that do not serve have ended well, then ends those that do. Gives
        what the former printed to stdout, in the order of their start. Failure as run_until.
        `tick` is called about 20 times a second, and once when the former have ended."""
        def ready():
            tick()
            return self._workers_ended()
        self.run_until(ready, deadline)
        self._end_servers()
        return [text_of(job.process.out) for job in self._jobs if not job.serves]

    def _running(self):
        return [job for job in self._jobs if not job.process.ended]

    def _workers_ended(self):
        return all(job.serves for job in self._running())

    def _raise_failures(self, seconds_for_others):
        if not any(job.process.failed for job in self._jobs):
            return
        until = time.monotonic() + seconds_for_others
        while time.monotonic() < until and not self._workers_ended():
            self._wait(SECONDS_TO_LOOK)
        raise Failure("\n".join(job.failure() for job in self._jobs if job.process.failed))

    def _still_running(self):
        names = ", ".join(job.name for job in self._running())
        return f"{names} still running" if names else "nothing runs any more"

    def _end_servers(self):
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for job in self._running():
                job.process.signal(signal_number)
            until = time.monotonic() + SECONDS_TO_END
            while self._running() and time.monotonic() < until:
                self._wait(SECONDS_TO_LOOK)

    def _wait(self, seconds):
        for key, _ in self._selector.select(seconds):
            if key.fd in self._selector.get_map():  # the end of a process closes its outputs
                key.data()

    def _read(self, process, pipe):
        if process.read(pipe) is None:
            self._selector.unregister(pipe)

    def _end(self, process):
        self._guard.remove(process.pid)  # first: its id may be another's once it is reaped
        process.reap()
        self._selector.unregister(process.end_fd)
        for pipe in process.outputs:
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)


def run_job(name, command, seconds, check):
    """Runs one program to its end and gives its stdout. Failure as of Jobs."""
    with Jobs(check) as jobs:
        jobs.start(name, command)
        return jobs.finish(time.monotonic() + seconds)[0]
