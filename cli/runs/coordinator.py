"""What is known of a coordinator that one has started."""
import contextlib
import pathlib

SECONDS_TO_LISTEN = 30


def parse_addresses(text):
    """What a --port-file says: {"grpc": "HOST:PORT", "metrics": likewise, if it serves them}."""
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def bound_addresses(port_file):
    """The same of a file; empty before it is there."""
    with contextlib.suppress(OSError):
        return parse_addresses(pathlib.Path(port_file).read_text(errors="replace"))
    return {}
