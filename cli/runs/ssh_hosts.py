"""Hosts that are there already, and are reached by ssh."""
import ipaddress
import shlex
import shutil
import socket

from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hostfile import read_hostfile
from cli.runs.hosts import own_environment
from cli.runs.process import Command

# It asks for nothing, and notices a host that is dead before and while a program runs there.
OPTIONS = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
           "-o", "ServerAliveCountMax=3"]
# Becomes the program, and ends it when the connection does: stdin is open as long as we are.
# One line without "!", for the shell of a user may be csh.
REMOTE = ('exec 3<&0; (cat <&3; kill -TERM $$ && sleep 5 && kill -KILL $$) >/dev/null 2>&1 & '
          'exec "$@" </dev/null 3<&-')


def find_ssh():
    path = shutil.which("ssh")
    if path is None:
        raise Failure("--hostfile needs ssh; run: apt-get install openssh-client", EXIT_USAGE)
    return path


def address_of(host):
    """That its name has here, which should be the one in the experiment's network."""
    try:
        found = socket.getaddrinfo(host.network_name, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # the latter from a name that no host can have
        raise Failure(f"line {host.line}: no address for '{host.network_name}'",
                      EXIT_USAGE) from None
    return found[0][4][0]


def addresses_of(hosts):
    """Failure if others could not reach one under its address."""
    addresses = [address_of(host) for host in hosts]
    own = [ipaddress.ip_address(address).is_loopback for address in addresses]
    if any(own) and not all(own):
        host = hosts[own.index(True)]
        raise Failure(f"line {host.line}: '{host.network_name}' is {addresses[own.index(True)]} "
                      "here, where other hosts cannot reach it; write its address in their network",
                      EXIT_USAGE)
    return addresses


class SshHosts:
    """The first hosts of a --hostfile, one for each rank; the coordinator, which counts as the
    last, is on the next one, or on the first if there is no other. Has what Hosts has.

    Failure from the constructor names the line that is wrong.
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
        self.names = [line.name for line in lines]
        try:
            self._addresses = addresses_of(lines)
        except Failure as failure:
            raise failure.within(f"--hostfile: {path}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def address(self, host):
        return self._addresses[host]

    def command(self, host, argv, environment=None):
        """As that of Hosts; of this process's variables a host gets none."""
        settings = [f"{name}={value}" for name, value in (environment or {}).items()]
        remote = ["sh", "-c", REMOTE, "sh", *(["env", *settings] if settings else []), *argv]
        return Command([self._ssh, *OPTIONS, self.names[host], shlex.join(remote)],
                       own_environment(), ends_with_stdin=True)
