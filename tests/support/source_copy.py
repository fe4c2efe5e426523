"""A copy of the sources, with a build of its own, in which a test may change what it likes."""
import os
import re
import shutil
import signal
import subprocess

PYTHON = "/usr/bin/python3"
SECONDS_TO_BUILD = 7200
NO_TESTS = 5  # exit code of newer versions of unittest
RAN = re.compile(r"^\[  PASSED  \] [1-9]|^Ran [1-9]", re.MULTILINE)


RUNS = "tests/recovery/"  # Python tests that run the programs
PROGRAMS = ("gradwire", "gradwire-coordinator", "gradwire-worker", "gradwire-trainer")


class Problem(Exception):
    """Nothing that a test could notice; says what is wrong."""


def needs_build(test):
    return not test.split()[0].endswith(".py") or test.startswith(RUNS)


def environment(folder):
    """Without settings of a run; a compiler cache takes the copy's files for those of others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GRADWIRE_")}
    return {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1", **kept,
            "PYTHONDONTWRITEBYTECODE": "1"}


class Copy:
    """Of the sources, with a build of its own."""

    def __init__(self, source, folder, seconds):
        self._source = source
        self._root = folder / "tree"
        self._build = self._root / "build"
        self._seconds = seconds  # that tests may take
        self._environment = environment(folder) | {"GRADWIRE_BIN_DIR": str(self.programs)}

    def refresh(self):
        """As the sources are now. What is the same keeps its time, so that nothing is built anew
        without need."""
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], cwd=self._source, capture_output=True,
                                check=False)
        if listed.returncode != 0:
            raise Problem(f"git ls-files: {listed.stderr.decode().strip()}; expected a checkout")
        wanted = {name for name in listed.stdout.decode().split("\0")
                  if (self._source / name).is_file()}
        for name in wanted:
            source, copy = self._source / name, self._root / name
            if not copy.is_file() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        for file in self._root.rglob("*"):
            if file.is_file() and self._build not in file.parents and \
                    str(file.relative_to(self._root)) not in wanted:
                file.unlink()

    def read(self, name):
        return (self._root / name).read_text()

    def has(self, name):
        return (self._root / name).exists()

    def write(self, name, text):
        (self._root / name).write_text(text)

    @property
    def programs(self):
        return self._build / "bin"

    def passes(self, test):
        """Whether it was built and passes. Problem if it cannot be built, or runs no test."""
        command, folder = self._command(test)
        ended, output = self._run(command, folder, self._seconds)
        if ended in (0, NO_TESTS) and not RAN.search(output):
            raise Problem(f"{test}: ran no test")
        return ended == 0

    def _command(self, test):
        program, *tests = test.split()
        if program.endswith(".py"):
            if needs_build(test):
                self.make(*PROGRAMS)
            path = self._root / program
            names = [f"{path.stem}.{name}" for name in tests] or [path.stem]
            return [PYTHON, "-B", "-m", "unittest", *names], path.parent
        self.make(program)
        return [self._build / "bin" / program, f"--gtest_filter={tests[0]}"], self._build

    def make(self, *targets):
        """Problem with the compiler's words if they cannot be built."""
        if not (self._build / "build.ninja").exists():
            launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            self._must_do(["cmake", "--preset", "release", "-DGRADWIRE_BUILD_TESTS=ON", *launcher])
        self._must_do(["ninja", "-C", self._build, *targets])

    def _must_do(self, command):
        ended, output = self._run(command, self._root, SECONDS_TO_BUILD)
        if ended != 0:
            raise Problem("cannot be built:\n" + "\n".join(output.splitlines()[-20:]))

    def _run(self, command, folder, seconds):
        """Exit code and output; None if it took too long, and then nothing of it is left."""
        process = subprocess.Popen([str(word) for word in command], cwd=folder, text=True,
                                   env=self._environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
