"""A watch over what the programs that we start have started themselves."""
import contextlib
import ctypes
import os
import signal
import struct

PR_SET_NAME = 15
MESSAGE = struct.Struct("i")  # a process group to watch, or minus one to forget


def stand_guard(reader):
    """In the guard: until the driver's end of the pipe is closed. Nothing but SIGKILL ends it
    before, and it holds nothing else open that anyone might wait for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"gradwire-guard")
    os.dup2(reader, 0)
    os.closerange(1, os.sysconf("SC_OPEN_MAX"))
    groups = set()
    while message := os.read(0, MESSAGE.size):
        (group,) = MESSAGE.unpack(message)
        groups = groups | {group} if group > 0 else groups - {-group}
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


class Guard:
    """A process beside this one that kills process groups when this one dies, even by SIGKILL.

    The kernel tells only the children that their parent has died; this reaches what they have
    started.
    """

    def __init__(self):
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                stand_guard(reader)
            finally:
                os._exit(0)
        os.close(reader)

    def add(self, group):
        self._tell(group)

    def remove(self, group):
        """To be called while the id cannot be another group's yet."""
        self._tell(-group)

    def close(self):
        """Leaves the groups alone."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._writer)

    def _tell(self, message):
        with contextlib.suppress(BrokenPipeError):  # a guard that was killed gets none
            os.write(self._writer, MESSAGE.pack(message))
