"""A process that kills what our programs have started when this process dies."""
import contextlib
import ctypes
import os
import signal
import struct

PR_SET_NAME = 15
MESSAGE = struct.Struct("i")  # a process group to watch, or minus one to forget


def stand_guard(reader):
    """Runs in the guard until the driver's end of the pipe is closed. Only SIGKILL ends the guard
    earlier. It keeps nothing else open, because another process might wait for that."""
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
    """Kills process groups when this process dies, even by SIGKILL.

    The kernel tells only the children that their parent has died. The guard reaches what those have
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
        """Must be called before the id can become another group's."""
        self._tell(-group)

    def close(self):
        """Ends the guard and leaves the groups alone."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._writer)

    def _tell(self, message):
        with contextlib.suppress(BrokenPipeError):  # the guard was killed
            os.write(self._writer, MESSAGE.pack(message))
