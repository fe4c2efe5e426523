"""The signals that `gradwire launch` takes: those that end it, and SIGUSR1 for a checkpoint."""
import os
import signal

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def handled():
    """Returns the signals to take: without SIGHUP if this process ignores it, as nohup makes it do, so
    that the run outlives its terminal."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in HANDLED if number != signal.SIGHUP or not ignored]


class Signals:
    """Notes signals within `with`, and interrupts nothing. A process may have one at a time."""

    def __enter__(self):
        self.fd, self._writer = os.pipe()  # fd: readable after a signal
        for end in (self.fd, self._writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, lambda *_: None) for number in handled()}
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._writer)

    def take(self):
        """Returns their numbers, in the order in which they came."""
        try:
            return os.read(self.fd, 256)
        except BlockingIOError:
            return b""
