"""Programs that run side by side."""
import selectors
import signal
import time

from cli.runs.guard import Guard
from cli.runs.process import Process

SECONDS_BETWEEN_TICKS = 0.5
SECONDS_TO_CLOSE = 3


class ProcessSet:
    """Handles output and ends of programs within wait(), in the calling thread and in the order in
    which they came. No program survives the `with` block or this process, except as
    Command.leaves_others allows. Its user decides what happens to the others when one ends."""

    def __init__(self):
        self._processes = []
        self._links = []  # to other hosts, with the process of each
        self._selector = selectors.DefaultSelector()
        self._guard = Guard()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running():
            process.signal(signal.SIGKILL)
        while self.running():
            self.wait(None)
        self._close_links()
        for process in self._processes:
            process.close()
        self._selector.close()
        self._guard.close()

    def add(self, command, on_out=None, on_err=None, on_end=lambda: None):
        """Starts a program and returns its Process, which says where its output goes. Calls
        `on_end` after all output. Failure if it cannot be started."""
        if command.link:
            process = command.link.start(command, on_out, on_err, on_end)
        else:
            process = self._watched(command, on_out, on_err, on_end)
        self._processes.append(process)
        return process

    def connect(self, link, command):
        """Starts a program that connects with another host, and returns its process. Until `with`
        ends the connection, wait() calls the link's tick() at least twice a second."""
        process = self._watched(command, link.feed, link.take_error, link.on_end)
        self._links.append((link, process))
        return process

    def _watched(self, command, on_out, on_err, on_end):
        process = Process(command, on_out, on_err)
        self._guard.add(process.pid)
        self._selector.register(process.end_fd, selectors.EVENT_READ,
                                lambda: self._end(process, on_end))
        for pipe in process.outputs:
            self._selector.register(pipe, selectors.EVENT_READ,
                                    lambda pipe=pipe: self._read(process, pipe))
        return process

    def wake_on(self, fd):
        """Makes wait() return when `fd` is readable. The caller reads it."""
        self._selector.register(fd, selectors.EVENT_READ, lambda: None)

    def running(self):
        return [process for process in self._processes if not process.ended]

    def wait(self, seconds):
        """Waits for an event, at most that long (None: without limit), and handles it."""
        if self._links:
            seconds = SECONDS_BETWEEN_TICKS if seconds is None else min(
                seconds, SECONDS_BETWEEN_TICKS)
        for key, _ in self._selector.select(seconds):
            if key.fd in self._selector.get_map():  # the end of a process closes its outputs
                key.data()
        for link, _ in self._links:
            link.tick()

    def _close_links(self):
        """Lets each link end what it has started on its host."""
        until = time.monotonic() + SECONDS_TO_CLOSE
        for link, _ in self._links:
            link.close()
        while any(not process.ended for _, process in self._links):
            if time.monotonic() >= until:
                for _, process in self._links:
                    process.signal(signal.SIGKILL)
            self.wait(SECONDS_BETWEEN_TICKS)
        for _, process in self._links:
            process.close()

    def _read(self, process, pipe):
        if process.read(pipe) is None:
            self._selector.unregister(pipe)

    def _end(self, process, on_end):
        self._guard.remove(process.pid)  # first: once reaped, its id may be another's
        process.reap()
        self._selector.unregister(process.end_fd)
        for pipe in process.outputs:
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)
        on_end()
