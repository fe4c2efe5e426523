"""How a command in Python begins and ends."""
import difflib
import json
import os
import signal
import sys

from cli.runs.failure import EXIT_USAGE, Failure

EXIT_TRY_AGAIN = 75


class WrongUsage(Failure):
    """As of a wrong option: a hint at --help follows."""

    def __init__(self, message):
        super().__init__(message, EXIT_USAGE)


def did_you_mean(word, names):
    """The end of a message about a word that is none of `names`: "; did you mean course?", or "" if
    none is near."""
    near = difflib.get_close_matches(word, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def say(program, sentence):
    print(f"{program}: {sentence}", file=sys.stderr)


def given_data():
    """What BecomeScript was given."""
    return json.loads(os.fsencode(sys.argv[1]))


def tell(program, failure):
    """Says it, and gives its exit code."""
    say(program, failure)
    if isinstance(failure, WrongUsage):
        print(f"Try '{program} --help' for the options.", file=sys.stderr)
    return failure.exit_code


def run(program, main):
    """Runs a script that BecomeScript has started: `main` gets its data and operands. Gives the
    exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return main(given_data(), sys.argv[2:])
    except Failure as failure:
        return tell(program, failure)
