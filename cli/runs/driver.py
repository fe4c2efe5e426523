"""How a command in Python that starts other programs begins and ends."""
import signal
import sys

from cli.runs.failure import Failure, Stopped
from cli.terminal.command import given_data, tell

EXIT_DONE = 0


class StopSignals:
    """SIGINT and SIGTERM, which are noted only; whoever waits calls check()."""

    def __init__(self):
        self.received = 0  # the first signal that came
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def check(self):
        if self.received:
            raise Stopped("stopped")

    def _note(self, number, _frame):
        self.received = self.received or number


def drive(program, main):
    """Runs a script that BecomeScript has started and that starts others: `main` gets its data,
    and what raises Stopped after a signal. Gives the exit code."""
    stop = StopSignals()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    exit_code = EXIT_DONE
    try:
        main(given_data(), stop.check)
    except Failure as failure:
        exit_code = failure.exit_code if stop.received else tell(program, failure)
    return 128 + stop.received if stop.received else exit_code
