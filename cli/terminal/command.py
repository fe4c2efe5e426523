"""Starts and ends a command in Python."""
import difflib
import json
import os
import signal
import sys

from cli.runs.failure import EXIT_USAGE, Failure, Stopped

EXIT_DONE = 0
EXIT_TRY_AGAIN = 75


class WrongUsage(Failure):
    """A wrong option or operand. A hint at --help follows the message."""

    def __init__(self, message):
        super().__init__(message, EXIT_USAGE)


def did_you_mean(word, names):
    """Returns "; did you mean course?" for a word like one of `names`, else ""."""
    near = difflib.get_close_matches(word, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def say(program, sentence):
    print(f"{program}: {sentence}", file=sys.stderr)


def given_data():
    """Returns the data of BecomeScript."""
    return json.loads(os.fsencode(sys.argv[1]))


def tell(program, failure):
    """Prints a failure, and returns its exit code."""
    say(program, failure)
    if isinstance(failure, WrongUsage):
        print(f"Try '{program} --help' for the options.", file=sys.stderr)
    return failure.exit_code


def run(program, main):
    """Runs `main` with the data and operands of BecomeScript. Returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return main(given_data(), sys.argv[2:])
    except Failure as failure:
        return tell(program, failure)


class StopSignals:
    """Notes SIGINT and SIGTERM. A function that waits calls check()."""

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
    """As run(), for a script that starts programs: `main` gets a check for signals, too."""
    stop = StopSignals()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    exit_code = EXIT_DONE
    try:
        main(given_data(), stop.check)
    except Failure as failure:
        exit_code = failure.exit_code if stop.received else tell(program, failure)
    return 128 + stop.received if stop.received else exit_code
