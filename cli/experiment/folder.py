"""The folder of --out: the runs of an experiment so far, and its report.

    experiment.json     which experiment, and at which scale
    runs/NAME.json      each run that has ended: see Folder.keep
    commands.txt        the commands of each run
    report.html ...     see cli/experiment/writing.py; it is of all runs that have ended
"""
import contextlib
import fcntl
import fnmatch
import hashlib
import json
import os
import pathlib

from cli.runs.failure import EXIT_USAGE, Failure, failing, within
from cli.runs.hostfile import read_hostfile
from cli.runs.json_fields import field_at, object_in
from cli.runs.output_file import check_writable, replace_file

STATE = "experiment.json"
RUNS = "runs"
REPORT = "report.html"
RESULTS = "results.json"
# What shows all runs, and would be wrong beside a run that was repeated.
OF_ALL_RUNS = (REPORT, "report.pdf", "report.md", RESULTS)
FIGURE = (".png", ".svg", ".pdf")  # its files


def write_json(path, value):
    replace_file(str(path), json.dumps(value, indent=1) + "\n")


def fingerprint(run, request):
    """Hashes all that decides what a run measures. Failure as of read_hostfile."""
    file = request["hostfile"]
    hosts = [host.name for host in read_hostfile(file)] if file else request["hosts"]
    # An equal version in another folder measures the same.
    ranks = [[pathlib.PurePath(program).name, *arguments] for program, *arguments in run.ranks]
    what = [ranks, run.coordinator, run.environment, hosts,
            run.rate or request["rate"], request["versions"]]
    what += [run.inputs] if run.inputs else []
    what += [run.coordinator_options] if run.coordinator_options else []
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


class Folder:
    """Keeps runs. Failure from the constructor if it holds something else or is read-only."""

    def __init__(self, path, experiment, scale):
        self.path = pathlib.Path(path)
        state = {"experiment": experiment, "scale": scale}
        with failing(f"--out: cannot make '{path}'", EXIT_USAGE):
            self._check(state)
            self.path.mkdir(parents=True, exist_ok=True)
        with within("--out", EXIT_USAGE):
            check_writable(str(self.path / STATE))
        write_json(self.path / STATE, state)
        (self.path / RUNS).mkdir(exist_ok=True)

    @contextlib.contextmanager
    def used_alone(self):
        """Failure if another command is in such a block with this folder."""
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(fd)
            yield
        finally:
            os.close(fd)

    def _lock(self, fd):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"--out: another gradwire experiment is using '{self.path}'; wait for its "
                          "end, or name another folder", EXIT_USAGE) from None
        except OSError:
            pass  # a file system without locks

    def kept(self, name, of_fingerprint):
        """Returns the record of a run; None without one, or if it is of another command."""
        record = object_in(self._file(name))
        if record is None or record.get("fingerprint") != of_fingerprint:
            return None
        return record

    def keep(self, name, record):
        """`record`: {"fingerprint", "commands", "seconds": its duration, "environment", "ranks",
        "coordinator": its mean iteration, or null; see docs/output.md}."""
        write_json(self._file(name), record)

    def forget(self, name):
        """Removes the record of a run."""
        self._file(name).unlink(missing_ok=True)

    def forget_report(self):
        """Removes the report, with its tables and figures."""
        there = {path.name for path in self.path.iterdir()}
        tables = field_at(object_in(self.path / RESULTS), "tables") or ()
        names = {*OF_ALL_RUNS, *(f"{key}.csv" for key in ("claims", *tables))}
        for stem in {pathlib.PurePath(name).stem for name in there}:
            files = {f"{stem}{ending}" for ending in FIGURE}
            names |= files if files <= there else set()
        for name in names & there:
            (self.path / name).unlink(missing_ok=True)

    def _file(self, name):
        return self.path / RUNS / f"{name}.json"

    def _check(self, state):
        """Failure if the folder holds something else. A kill within the first write leaves a part of
        STATE."""
        if not self.path.exists() or all(fnmatch.fnmatch(path.name, f"{STATE}.*.tmp")
                                         for path in self.path.iterdir()):
            return
        there = object_in(self.path / STATE)
        if there is None:
            raise Failure(f"--out: '{self.path}' exists and holds no experiment; name a folder "
                          "that is new or empty", EXIT_USAGE)
        if there != state:
            raise Failure(f"--out: '{self.path}' holds experiment {there.get('experiment')} at "
                          f"scale {there.get('scale')}, got {state['experiment']} at scale "
                          f"{state['scale']}; name another folder", EXIT_USAGE)
