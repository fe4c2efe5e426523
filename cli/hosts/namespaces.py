"""Hosts made of namespaces on one machine: 10.10.1.1 and up, joined by a switch.

Each host has its own network, name, mounts (/etc/hosts names all hosts) and processes; files are
the machine's. The namespaces have no names and leave nothing outside, so several runs may have hosts
at the same time. The hosts end with the process that made them, even after SIGKILL: the first process
of a host dies with its maker, and the kernel then kills all others of the host.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from cli.runs.failure import Failure

NEEDED = ("ip", "nsenter", "setpriv", "unshare")
NAMESPACES = ("--net", "--uts", "--mount", "--pid")
MOST_HOSTS = 250  # with an address in 10.10.1.0/24
UNSHAPED = "none"
SHAPE = ("burst", "512kb", "latency", "100ms")  # of tc's token bucket
# SIGCHLD is ignored so that orphans of the host, which become children of this one, leave nothing.
INIT = """set -e
hostname "$1"
mount --bind "$2" /etc/hosts
ip link set lo up
echo up
exec env --ignore-signal=CHLD sleep infinity"""


def why_not():
    """Returns why no hosts can be made here; "" if they can."""
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        return f"no {', '.join(missing)}: apt-get install iproute2 util-linux"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    tried = subprocess.run(["unshare", *NAMESPACES, "--fork", "--mount-proc", "ip", "link", "add",
                            "type", "bridge"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True, check=False)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def child_of(pid):
    """Returns the first child; None without one, or if the process has ended."""
    with contextlib.suppress(OSError):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def is_running(pid):
    """Whether the process runs. False for a zombie."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def run_tool(*argv):
    """Returns what it printed. Failure has its message."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip() or f"ended with exit code {done.returncode}"
        raise Failure(f"{' '.join(argv)}: {why}")
    return done.stdout


def entering(init, folder="--wd=."):
    """Returns the words that run a command in the namespaces of a host's first process. `folder`:
    nsenter's option for the working folder. SIGTERM ends the command; then nsenter ends with its
    exit code."""
    return [shutil.which("env"), "--ignore-signal=TERM", "nsenter", "--target", str(init),
            *NAMESPACES, folder, "--", "env", "--default-signal=TERM"]


class NamespaceHosts:
    """`count` hosts, named host1 and so on (`prefix`), with addresses 10.10.1.1 and so on. They
    exist from up() to down(). Methods take a host's place, counted from 0."""

    def __init__(self, count, prefix="host"):
        self.names = [f"{prefix}{place + 1}" for place in range(count)]
        self.addresses = [f"10.10.1.{place + 1}" for place in range(count)]
        self._inits = []
        self._switch = None
        self._ends = contextlib.ExitStack()

    def up(self):
        """Makes all hosts. Failure, and no hosts, if one cannot be made."""
        if len(self.names) > MOST_HOSTS:
            raise Failure(f"got {len(self.names)} hosts, expected at most {MOST_HOSTS}")
        with contextlib.ExitStack() as ends:
            self._up(ends)
            self._ends = ends.pop_all()

    def down(self):
        """Ends all processes on the hosts."""
        self._ends.close()
        self._inits = []

    def command(self, host, argv):
        """Returns the command that runs `argv` on the host."""
        return [*entering(self._inits[host]), *map(str, argv)]

    def memory_group(self, host):
        """Returns the folder of the cgroup that limits the memory of its commands; "": the same as
        that of this process."""
        return ""

    def shape(self, rate):
        """Limits each host's link in both directions to `rate`: tc's notation, or "none"."""
        for host, init in enumerate(self._inits):
            for inside, device in ((self._switch, f"port{host}"), (init, "eth0")):
                if rate != UNSHAPED:
                    self._inside(inside, "tc", "qdisc", "replace", "dev", device, "root", "tbf",
                                 "rate", rate, *SHAPE)
                elif "tbf" in self._inside(inside, "tc", "qdisc", "show", "dev", device, "root"):
                    self._inside(inside, "tc", "qdisc", "delete", "dev", device, "root")

    def cut(self, host):
        """Pulls its cable."""
        self._inside(self._switch, "ip", "link", "set", f"port{host}", "down")

    def mend(self, host):
        self._inside(self._switch, "ip", "link", "set", f"port{host}", "up")

    def _up(self, ends):
        folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory(
            prefix="gradwire-hosts-", ignore_cleanup_errors=True)))
        file = folder / "hosts"
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(self.addresses, self.names))]
        file.write_text("\n".join(lines) + "\n")
        self._switch = self._boot("switch", file, ends)
        self._inside(self._switch, "ip", "link", "add", "switch", "type", "bridge")
        self._inside(self._switch, "ip", "link", "set", "switch", "up")
        self._inits = [self._boot(name, file, ends) for name in self.names]
        for host, (init, address) in enumerate(zip(self._inits, self.addresses)):
            self._inside(self._switch, "ip", "link", "add", f"port{host}", "type", "veth",
                         "peer", "name", "eth0", "netns", str(init))
            self._inside(self._switch, "ip", "link", "set", f"port{host}", "master", "switch", "up")
            self._inside(init, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            self._inside(init, "ip", "link", "set", "eth0", "up")
        return folder

    @staticmethod
    def _boot(name, file, ends):
        """Returns the process id of the first process of a new host. It has its own process group,
        so that a terminal's Ctrl-C does not reach it."""
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES, "--fork", "--kill-child",
             "--mount-proc", "sh", "-c", INIT, "sh", name, str(file)], process_group=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ends.callback(holder.wait)
        with holder.stdout:
            said = holder.stdout.readline()
            if said != "up\n":
                raise Failure(f"host {name}: {said}{holder.stdout.read()}".strip())
        init = child_of(holder.pid)
        ends.callback(os.kill, init, signal.SIGKILL)
        return init

    @staticmethod
    def _inside(init, *words):
        return run_tool("nsenter", "--target", str(init), "--net", *words)
