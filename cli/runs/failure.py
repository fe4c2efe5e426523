"""How a measurement or experiment fails: with a sentence for the user and an exit code."""
import contextlib

EXIT_FAILED = 1
EXIT_USAGE = 2


class Failure(Exception):
    """An error, after which the program ends with `exit_code`."""

    def __init__(self, message, exit_code=EXIT_FAILED):
        super().__init__(message)
        self.exit_code = exit_code

    def within(self, context):
        """Returns the same failure with "context: " before its message."""
        return type(self)(f"{context}: {self}", self.exit_code)


class Stopped(Failure):
    """A signal asked the program to stop."""


@contextlib.contextmanager
def within(context, exit_code=None):
    """Puts "context: " before the message of a Failure in its block; may set its exit code."""
    try:
        yield
    except Failure as failure:
        failure = failure.within(context)
        failure.exit_code = exit_code or failure.exit_code
        raise failure from None


@contextlib.contextmanager
def failing(what, exit_code=EXIT_FAILED):
    """Turns an OSError in its block into a Failure that says what failed and why."""
    try:
        yield
    except OSError as error:
        raise Failure(f"{what}: {error.strerror.lower()}", exit_code) from None
