"""Several hosts on one machine, of namespaces: 10.10.1.1 and up, joined by a switch.

    with Hosts(3) as hosts:
        hosts.run(1, ["ping", "-c1", "host1"])         # host2 reaches host1 by name
        server = hosts.start(0, ["/usr/sbin/sshd", "-D"], log)
        server.end()

Each has its own network, name, mounts (/etc/hosts names them all) and processes; files are the
machine's. Nothing of them is outside their namespaces, so that any number of tests may have some
at once, and all ends with the test, even by SIGKILL: the first process of a host dies with the
test, and the kernel kills all others of it.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

NEEDED = ["ip", "nsenter", "setpriv", "unshare"]
NAMESPACES = ["--net", "--uts", "--mount", "--pid"]
# SIGCHLD is ignored so that orphans of the host, which become children of this one, leave nothing.
INIT = """set -e
hostname "$1"
mount --bind "$2" /etc/hosts
ip link set lo up
echo up
exec env --ignore-signal=CHLD sleep infinity"""


def why_not():
    """Why there can be no hosts here; empty if there can."""
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        return f"{', '.join(missing)} not there (apt-get install iproute2 util-linux)"
    if os.geteuid() != 0:
        return "only root may make hosts of namespaces"
    tried = subprocess.run(["unshare", *NAMESPACES, "--fork", "--mount-proc", "ip", "link", "add",
                            "type", "bridge"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


def wait_until(what, condition, seconds):
    """What `condition` returns once it is true; asks again and again."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)
    return result


def child_of(pid):
    """The first; None without one, or if it has ended."""
    with contextlib.suppress(OSError):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def is_running(pid):
    """False for a zombie."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


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


class Hosts:
    """`count` hosts, named host1 and so on (`prefix`) with addresses 10.10.1.1 and so on; they are
    there within `with`. Methods take a host's place, counted from 0. SkipTest where why_not()."""

    def __init__(self, count, prefix="host"):
        self.names = [f"{prefix}{place + 1}" for place in range(count)]
        self.addresses = [f"10.10.1.{place + 1}" for place in range(count)]
        self._inits = []
        self._programs = []
        self._ends = contextlib.ExitStack()

    def __enter__(self):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        with contextlib.ExitStack() as ends:
            self._up(ends)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self._ends.close()
        for program in self._programs:
            program.wait()

    def command(self, host, argv):
        """`argv` as a command that runs on the host."""
        return ["nsenter", "--target", str(self._inits[host]), *NAMESPACES, "--wd=.", "--",
                *(str(word) for word in argv)]

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

    def cut(self, host):
        """Pulls its cable."""
        self._ip(self._switch, "link", "set", f"port{host}", "down")

    def mend(self, host):
        self._ip(self._switch, "link", "set", f"port{host}", "up")

    def _up(self, ends):
        folder = tempfile.TemporaryDirectory(prefix="gradwire-hosts-")
        ends.enter_context(folder)
        file = pathlib.Path(folder.name) / "hosts"
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(self.addresses, self.names))]
        file.write_text("\n".join(lines) + "\n")
        self._switch = self._boot("switch", file, ends)
        self._ip(self._switch, "link", "add", "switch", "type", "bridge")
        self._ip(self._switch, "link", "set", "switch", "up")
        self._inits = [self._boot(name, file, ends) for name in self.names]
        for host, (init, address) in enumerate(zip(self._inits, self.addresses)):
            self._ip(self._switch, "link", "add", f"port{host}", "type", "veth",
                     "peer", "name", "eth0", "netns", str(init))
            self._ip(self._switch, "link", "set", f"port{host}", "master", "switch", "up")
            self._ip(init, "address", "add", f"{address}/24", "dev", "eth0")
            self._ip(init, "link", "set", "eth0", "up")

    @staticmethod
    def _boot(name, file, ends):
        """The first process of a new host, by its number on this machine."""
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES, "--fork", "--kill-child",
             "--mount-proc", "sh", "-c", INIT, "sh", name, str(file)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ends.callback(holder.wait)
        with holder.stdout:
            said = holder.stdout.readline()
            if said != "up\n":
                raise AssertionError(f"host {name}: {said}{holder.stdout.read()}")
        init = child_of(holder.pid)
        ends.callback(os.kill, init, signal.SIGKILL)
        return init

    @staticmethod
    def _ip(init, *words):
        subprocess.run(["nsenter", "--target", str(init), "--net", "ip", *words], check=True)
