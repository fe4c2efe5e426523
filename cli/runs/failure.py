"""How a measurement or experiment fails: with a sentence for the user and an exit code."""

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
