"""Where the processes of a measurement run."""
import ipaddress
import os
import shlex
import shutil
import socket
import sys

from cli.runs.failure import EXIT_USAGE, Failure, within
from cli.runs.hostfile import read_hostfile
from cli.runs.jobs import run_job
from cli.runs.process import Command

THIS_MACHINE = "127.0.0.1"
UNSHAPED = "none"  # rate of links without a limit
SECONDS_TO_ANSWER = 60
# ssh asks for nothing, and notices a host that dies before or while a program runs there.
OPTIONS = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
           "-o", "ServerAliveCountMax=3"]
# Becomes the program, and ends it when the connection ends: stdin stays open while we exist.
# One line without "!", because a user's shell may be csh.
REMOTE = ('exec 3<&0; (cat <&3; kill -TERM $$ && sleep 5 && kill -KILL $$) >/dev/null 2>&1 & '
          'exec "$@" </dev/null 3<&-')


def own_environment():
    """Returns this process's variables without GRADWIRE_*, which are for the user's own runs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GRADWIRE_")}


class Hosts:
    """This machine, or hosts that a program makes and drives:

        PROGRAM up N RATE     make hosts 0 ... N-1 with links of RATE (tc's notation)
        PROGRAM run I CMD...  run CMD on host I, in the foreground
        PROGRAM addr I        print host I's address
        PROGRAM down          end and remove all hosts

    If `program` is empty, all is this machine. The hosts exist within `with`, which raises Failure as
    Jobs does and names the program. `check`: see Jobs.
    """

    def __init__(self, program, count, rate, check):
        self.program = program
        self.count = count
        self._rate = rate
        self._check = check
        self._addresses = [THIS_MACHINE] * count

    def __enter__(self):
        if not self.local:
            try:
                self._up()
            except BaseException:
                self._down()
                raise
        return self

    def __exit__(self, *_):
        if not self.local:
            self._down()

    @property
    def local(self):
        return not self.program

    @property
    def machines(self):
        """Returns a host for each machine whose files are its own, by name."""
        return {THIS_MACHINE if self.local else str(host): host for host in range(self.count)}

    def shape(self, rate):
        """Makes the program's hosts again with links of `rate`, unless they have it."""
        if self.local or rate == self._rate:
            return
        self._down()
        self._rate = rate
        self._up()

    def address(self, host):
        return self._addresses[host]

    def command(self, host, argv, environment=None):
        """Returns a command that runs `argv` on a host, with variables beyond own_environment()."""
        prefix = [] if self.local else [self.program, "run", str(host)]
        return Command([*prefix, *argv], {**own_environment(), **(environment or {})})

    def _up(self):
        self._ask("up", str(self.count), self._rate)
        self._addresses = [self._ask("addr", str(host)).strip() for host in range(self.count)]

    def _ask(self, *args):
        # The hosts may be processes that it leaves running.
        command = Command([self.program, *args], own_environment(), leaves_others=True)
        return run_job(" ".join(command.argv), command, SECONDS_TO_ANSWER, self._check)

    def _down(self):
        command = Command([self.program, "down"], own_environment())
        try:
            run_job(f"{self.program} down", command, SECONDS_TO_ANSWER, lambda: None)
        except Failure as failure:
            print(f"warning: {failure}", file=sys.stderr, flush=True)


def find_ssh():
    path = shutil.which("ssh")
    if path is None:
        raise Failure("--hostfile needs ssh; run: apt-get install openssh-client", EXIT_USAGE)
    return path


def address_of(host):
    """Returns the address of the host's name here, which should be in the runs' network."""
    try:
        found = socket.getaddrinfo(host.network_name, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: no host can have such a name
        raise Failure(f"line {host.line}: no address for '{host.network_name}'",
                      EXIT_USAGE) from None
    return found[0][4][0]


def addresses_of(hosts):
    """Returns all addresses. Failure if other hosts could not reach one of them."""
    addresses = [address_of(host) for host in hosts]
    own = [ipaddress.ip_address(address).is_loopback for address in addresses]
    if any(own) and not all(own):
        host = hosts[own.index(True)]
        raise Failure(f"line {host.line}: '{host.network_name}' is {addresses[own.index(True)]} "
                      "here, and other hosts cannot reach that; write its address in their network",
                      EXIT_USAGE)
    return addresses


class SshHosts(Hosts):
    """The first hosts of a --hostfile, which exist already and are reached by ssh, one for each
    rank. The coordinator counts as the last host. It runs on the next one of the file, or on the
    first if there is no other.

    Failure from the constructor names the wrong line.
    """
    local = False

    def __init__(self, path, ranks):
        self._ssh = find_ssh()
        lines = read_hostfile(path)
        if len(lines) < ranks:
            raise Failure(f"--hostfile: {path}: got {len(lines)} hosts, expected {ranks}, one for "
                          "each rank", EXIT_USAGE)
        self.count = ranks + 1
        lines = [lines[place % len(lines)] for place in range(self.count)]
        self._names = [line.name for line in lines]
        with within(f"--hostfile: {path}"):
            self._addresses = addresses_of(lines)

    @property
    def machines(self):
        return {name: host for host, name in enumerate(self._names)}

    def _up(self):
        """Does nothing: these hosts are up."""

    _down = _up

    def command(self, host, argv, environment=None):
        """As Hosts.command, but a host gets none of this process's variables."""
        settings = [f"{name}={value}" for name, value in (environment or {}).items()]
        remote = ["sh", "-c", REMOTE, "sh", *(["env", *settings] if settings else []), *argv]
        return Command([self._ssh, *OPTIONS, self._names[host], shlex.join(remote)],
                       own_environment(), ends_with_stdin=True)
