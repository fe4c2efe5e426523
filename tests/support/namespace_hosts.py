"""Several hosts on one machine, for tests: those of cli/hosts/namespaces.py.

    with Hosts(3) as hosts:
        hosts.run(1, ["ping", "-c1", "host1"])         # host2 reaches host1 by name
        server = hosts.start(0, ["/usr/sbin/sshd", "-D"], log)
        server.end()
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.hosts.namespaces import NamespaceHosts, child_of, is_running, why_not


def wait_until(what, condition, seconds):
    """What `condition` returns once it is true; asks again and again."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)
    return result


class Program:
    """A program that runs on a host; what it prints goes to the file `output`."""

    def __init__(self, command, output, **options):
        self.output = pathlib.Path(output)
        with open(self.output, "ab") as file:
            self._entered = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file,
                                             stderr=subprocess.STDOUT, **options)
        self.pid = wait_until(
            f"{command}", lambda: child_of(self._entered.pid) or self._entered.poll() is not None,
            10)  # on this machine, not its number on the host

    def text(self):
        return self.output.read_text(errors="replace")

    def running(self):
        return self._entered.poll() is None

    def send(self, number):
        if self.running():
            os.kill(self.pid, number)

    def wait(self, seconds=20):
        """Its exit code, or minus the signal that ended it."""
        return self._entered.wait(seconds)

    def end(self, number=signal.SIGTERM):
        """Its exit code; ends it the hard way after 10 s."""
        self.send(number)
        try:
            return self.wait(10)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            return self.wait()


class Hosts(NamespaceHosts):
    """They are there within `with`; SkipTest where why_not()."""

    def __init__(self, count, prefix="host"):
        super().__init__(count, prefix)
        self._programs = []

    def __enter__(self):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        self.up()
        return self

    def __exit__(self, *_):
        self.down()
        for program in self._programs:
            program.wait()

    def run(self, host, argv, timeout=60, check=True, **options):
        """As subprocess.run; its output is text in `stdout`. AssertionError with it if the program
        fails, unless `check` is false."""
        done = subprocess.run(self.command(host, argv), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                              check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.names[host]}: {argv} ended with {done.returncode}:\n"
                                 f"{done.stdout}")
        return done

    def start(self, host, argv, output, **options):
        """A Program that runs beside the test; `options` as subprocess.Popen's."""
        self._programs.append(Program(self.command(host, argv), output, **options))
        return self._programs[-1]

    def processes(self, host):
        """Command lines of all that runs there, by id on this machine."""
        found = {}
        own = os.stat(f"/proc/{self._inits[host]}/ns/pid").st_ino
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns/pid").stat().st_ino == own and is_running(folder.name):
                    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                    found[int(folder.name)] = b" ".join(words).decode(errors="replace")
        found.pop(self._inits[host], None)
        return found
