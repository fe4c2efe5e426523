"""A child process, and what it prints."""
import contextlib
import ctypes
import dataclasses
import errno
import functools
import os
import signal
import subprocess

from cli.hosts.agent import MemoryKills, memory_group
from cli.runs.failure import EXIT_FAILED, EXIT_USAGE, Failure

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
PIECE = 65536  # bytes read at once


@dataclasses.dataclass(frozen=True)
class Command:
    """What to start."""
    argv: list  # argv[0] is the path of the program
    environment: dict  # all of it
    leaves_others: bool = False  # processes that it started and left are not killed after it
    ends_with_stdin: bool = False  # as ssh does; stdin closes in place of SIGTERM and before others
    link: object = None  # to its host (cli/hosts/link.py); None: this machine
    stdin: str = ""  # its text
    memory_group: str = ""  # folder of the cgroup that limits its memory; "": that of this process


def text_of(output):
    """Decodes what a program printed. Bytes that are no UTF-8 are written again as they were."""
    return output.decode("utf-8", "surrogateescape")


def last_lines(text, most):
    """Returns the last lines of a text that are not blank."""
    return [line for line in text.split("\n") if line.strip()][-most:]


def describe_end(status, why=""):
    """Describes a return code: "ended with exit code 3", "was killed by signal 9 (Killed)"; `why`
    comes after it."""
    how = (f"ended with exit code {status}" if status >= 0 else
           f"was killed by signal {-status} ({signal.strsignal(-status)})")
    return f"{how} {why}".rstrip()


def exit_code_of(status):
    """Returns the program's own exit code, or 128 + n for signal n, of the same."""
    return status if status >= 0 else 128 - status


@functools.cache
def memory_kills(group):
    return MemoryKills(group or memory_group())


def die_with(parent):
    """Runs in the child: makes the kernel kill it when its parent dies in any way."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def spawn(command):
    parent = os.getpid()
    try:
        return subprocess.Popen(
            command.argv, executable=os.path.abspath(command.argv[0]), env=command.environment,
            stdin=subprocess.PIPE if command.ends_with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, process_group=0,
            preexec_fn=lambda: die_with(parent))
    except OSError as error:
        raise Failure(f"cannot start '{command.argv[0]}': {os.strerror(error.errno)}",
                      EXIT_USAGE if error.errno == errno.ENOENT else EXIT_FAILED) from None


class Program:
    """A program here or on another host. `status`: its return code; None while it runs."""
    @property
    def ended(self):
        return self.status is not None

    @property
    def failed(self):
        """Whether it ended, and not well; also if it was told to end."""
        return self.ended and self.status != 0


class Process(Program):
    """A child that leads a process group of its own, so a terminal's Ctrl-C reaches only the
    driver. No part of it outlives the driver.

    Its output goes in pieces of any size to `on_out` and `on_err`, or is kept in out and err. Failure
    from the constructor if it cannot be started.
    """

    def __init__(self, command, on_out=None, on_err=None):
        self._kills = memory_kills(command.memory_group)
        self._why = ""  # it ended
        self._popen = spawn(command)
        self._leaves_others = command.leaves_others
        self.pid = self._popen.pid
        self.end_fd = os.pidfd_open(self.pid)  # readable once it has ended
        self.out, self.err = bytearray(), bytearray()
        self.outputs = {self._popen.stdout: on_out or self.out.extend,
                        self._popen.stderr: on_err or self.err.extend}
        for pipe in (*self.outputs, *filter(None, [self._popen.stdin])):
            os.set_blocking(pipe.fileno(), False)

    @property
    def status(self):
        return self._popen.returncode

    @property
    def place(self):
        """Says which process it is, for people."""
        return f"process {self.pid}"

    @property
    def end(self):
        """Says how it ended, for people."""
        return describe_end(self.status, self._why)

    def write(self, text):
        """Writes to the stdin of a program that ends with it. Returns how many bytes it took."""
        try:
            return os.write(self._popen.stdin.fileno(), text)
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ValueError):  # it is ending
            return len(text)

    def signal(self, number):
        """Signals the whole group, unless the process has ended."""
        if self.ended:
            return
        if self._popen.stdin:
            self._popen.stdin.close()
        if not self._popen.stdin or number != signal.SIGTERM:
            self._signal_group(number)

    def read(self, pipe):
        """Takes some of what has arrived. Returns False if nothing has, None at the end."""
        piece = pipe.read(PIECE)
        if piece is None:
            return False
        if not piece:
            return None
        self.outputs[pipe](piece)
        return True

    def reap(self):
        """Takes what has arrived, kills what the ended process left, and frees its id."""
        if not self._leaves_others:  # before the id can become another group's
            self._signal_group(signal.SIGKILL)
        self._why = self._kills.explain(self._popen.wait())
        for pipe in self.outputs:
            while self.read(pipe):
                pass

    def close(self):
        for pipe in (*self.outputs, self._popen.stdin):
            if pipe:
                pipe.close()
        os.close(self.end_fd)

    def _signal_group(self, number):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
