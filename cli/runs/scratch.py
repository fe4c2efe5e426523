"""A folder for temporary files."""
import tempfile

from cli.runs.failure import Failure


def scratch_folder():
    """Gone behind `with`. Failure if there can be none."""
    try:
        return tempfile.TemporaryDirectory(prefix="gradwire-")
    except OSError as error:
        raise Failure("cannot make a folder for temporary files (TMPDIR): "
                      f"{error.strerror.lower()}") from None
