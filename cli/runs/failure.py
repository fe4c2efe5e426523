"""How a measurement or experiment fails: with a sentence for the user and an exit code."""
import contextlib

EXIT_FAILED = 1
EXIT_USAGE = 2


class Failure(Exception):
    """What went wrong; `exit_code` is what the program ends with."""

    def __init__(self, message, exit_code=EXIT_FAILED):
        super().__init__(message)
        self.exit_code = exit_code

    def within(self, context):
        """The same, with "context: " in front."""
        return type(self)(f"{context}: {self}", self.exit_code)


class Stopped(Failure):
    """A signal asked for the end."""


@contextlib.contextmanager
def within(context, exit_code=None):
    """A Failure of what it holds has "context: " in front, and that exit code if it is given."""
    try:
        yield
    except Failure as failure:
        failure = failure.within(context)
        failure.exit_code = exit_code or failure.exit_code
        raise failure from None


@contextlib.contextmanager
def failing(what, exit_code=EXIT_FAILED):
    """An OSError of what it holds becomes a Failure: `what`, and why."""
    try:
        yield
    except OSError as error:
        raise Failure(f"{what}: {error.strerror.lower()}", exit_code) from None
