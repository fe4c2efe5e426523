"""What is known of a coordinator that one has started."""
import contextlib
import pathlib

SECONDS_TO_LISTEN = 30


def bound_addresses(port_file):
    """What its --port-file says: {"grpc": "HOST:PORT", "metrics": likewise, if it serves them};
    empty before it is there."""
    with contextlib.suppress(OSError):
        lines = pathlib.Path(port_file).read_text(errors="replace").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}
    return {}
