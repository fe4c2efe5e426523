"""The addresses of a coordinator that this process has started."""
import contextlib
import pathlib

SECONDS_TO_LISTEN = 30


def parse_addresses(text):
    """Returns what a --port-file says: {"grpc": "HOST:PORT"}, and "metrics" if it serves them."""
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def bound_addresses(port_file):
    """Returns the same of a file; empty until the file exists."""
    with contextlib.suppress(OSError):
        return parse_addresses(pathlib.Path(port_file).read_text(errors="replace"))
    return {}
