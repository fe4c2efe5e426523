"""CPU time of another process, from /proc."""
import os
import pathlib

NAME_LENGTH = 15  # of a process in /proc
USER_FIELD, SYSTEM_FIELD = 11, 12  # proc(5): fields 14 and 15, counted after the name


def cpu_ticks(stat, program):
    """Returns user and system time, in clock ticks, from a line of /proc/PID/stat; None if the
    process is not `program` (compared by its first 15 letters) or the line has another form."""
    start, end = stat.find("("), stat.rfind(")")
    if start < 0 or stat[start + 1:end] != program[:NAME_LENGTH]:
        return None
    fields = stat[end + 1:].split()
    if len(fields) <= SYSTEM_FIELD:
        return None
    return int(fields[USER_FIELD]) + int(fields[SYSTEM_FIELD])


class CpuSampler:
    """Measures CPU time between the first sample and the last, to about 10 ms.

    A sample counts only while the process is `program`, so a child that has yet to become it, or that
    drives it on another machine, is not mistaken for it.
    """

    def __init__(self, program):
        self._program = program
        self._first = self._last = None

    def sample(self, pid):
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return  # it has been reaped
        ticks = cpu_ticks(stat, self._program)
        if ticks is None:
            return
        self._last = ticks / os.sysconf("SC_CLK_TCK")
        if self._first is None:
            self._first = self._last

    @property
    def seconds(self):
        """Returns user and system time; None without a sample."""
        return None if self._first is None else self._last - self._first
