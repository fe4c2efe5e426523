"""A folder for temporary files."""
import tempfile

from cli.runs.failure import failing


def scratch_folder():
    """Returns a folder that `with` removes at its end. Failure if it cannot be made."""
    with failing("cannot make a folder for temporary files (TMPDIR)"):
        return tempfile.TemporaryDirectory(prefix="gradwire-")
