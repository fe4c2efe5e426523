"""The secret that all programs of a run share; common/base/token.h defines its form."""
import os
import re
import secrets

from cli.runs.failure import EXIT_USAGE, Failure, failing

VARIABLE = "GRADWIRE_TOKEN_FILE"
FORM = re.compile(rb"[!-~]{16,1024}")
ENOUGH_BYTES = 2048


def read_token(path):
    """Returns the token in a --token-file. Failure if the file cannot be read or holds none."""
    with failing(f"--token-file: cannot read '{path}'", EXIT_USAGE), open(path, "rb") as file:
        token = file.read(ENOUGH_BYTES).rstrip()
    if not FORM.fullmatch(token):
        raise Failure(f"--token-file: got no token in '{path}', expected 16 to 1024 characters of "
                      "ASCII without white space", EXIT_USAGE)
    return token.decode()


def token_of(path):
    """Returns the token in a file; a random one without a file."""
    return read_token(path) if path else secrets.token_hex(32)


def write_token(path, token):
    """Writes a file that only this user can read. Failure if that is not possible."""
    with failing(f"cannot write '{path}'"):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(token.encode())
