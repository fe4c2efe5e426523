"""A folder for temporary files."""
import tempfile

from cli.runs.failure import failing


def scratch_folder():
    """Gone behind `with`. Failure if there can be none."""
    with failing("cannot make a folder for temporary files (TMPDIR)"):
        return tempfile.TemporaryDirectory(prefix="gradwire-")
