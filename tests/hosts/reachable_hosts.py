"""Hosts of namespaces (tests/support/namespace_hosts.py) with an sshd each, and Gradwire beside."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from namespace_hosts import Hosts, wait_until

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
SSHD = "/usr/sbin/sshd"
SSHD_CONFIG = """HostKey {folder}/key{place}
AuthorizedKeysFile {folder}/user.pub
ListenAddress 0.0.0.0
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
UseDNS no
SetEnv TMPDIR={temporary} {more}
"""
SSH_CONFIG = """IdentityFile {folder}/user
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
LogLevel ERROR
"""
RUN = ["--model", "lenet", "--dataset", "synthetic", "--seed", "744", "--batch-size", "8",
       "--iterations", "20", "--sync", "ddp", "--threads", "1"]
SECONDS_TO_LISTEN = 20


def make_key(file):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)


class ReachableHosts(Hosts):
    """Each host can be reached from the first by ssh, without a password. `folder`: for tests'
    files; `variables`: more of what programs of a host have in their environment, by its place."""

    def __init__(self, count, variables=None):
        super().__init__(count)
        self._variables = variables or {}
        self.folder = None

    def __enter__(self):
        if not os.path.exists(SSHD):
            raise unittest.SkipTest(f"no {SSHD} (apt-get install openssh-server)")
        super().__enter__()
        try:
            self._serve()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
        if self.folder:
            shutil.rmtree(self.folder)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def hostfile(self, *lines):
        return self.file("hosts", "".join(f"{line}\n" for line in lines or self.addresses))

    def gradwire(self, *words, timeout=200):
        """Runs it on the first host; gives exit code, and all that it printed."""
        done = self.run(0, self.gradwire_command(*words), timeout=timeout, check=False)
        return done.returncode, done.stdout

    def gradwire_command(self, *words):
        return [*self.environment(), BIN / "gradwire", *words]

    def environment(self):
        """Words in front of a command of the first host, so that its ssh knows the others."""
        return ["env", "-i", f"HOME={self.folder}/home", f"PATH={self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LC_ALL=C.UTF-8"]

    def temporary(self, host):
        """Its folder for temporary files."""
        return self.folder / f"tmp{host}"

    def mount_file(self, host, target, text):
        """On that host alone."""
        file = self.file(f"{pathlib.Path(target).name}.{host}", text)
        self.run(host, ["mount", "--bind", file, target])

    def limit_rate(self, host, rate):
        """Of what it sends; tc's words, such as "200mbit"."""
        self.run(host, ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate,
                        "burst", "64kb", "latency", "100ms"])

    def others(self, host):
        """What runs there beside sshd."""
        return {pid: words for pid, words in self.processes(host).items()
                if not words.startswith("sshd: " + SSHD) and SSHD not in words.split()[:1]}

    def _serve(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-ssh-"))
        self.folder.chmod(0o755)
        make_key(self.folder / "user")
        (self.folder / "home").mkdir()
        wrapper = self.folder / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.folder}/ssh_config "$@"\n')
        wrapper.chmod(0o755)
        self.file("ssh_config", SSH_CONFIG.format(folder=self.folder))
        known = []
        for place, address in enumerate(self.addresses):
            self._start_sshd(place)
            key = (self.folder / f"key{place}.pub").read_text()
            known.append(f"{address},{self.names[place]} {key}")
        self.file("known_hosts", "".join(known))
        for place, address in enumerate(self.addresses):
            wait_until(f"sshd of {self.names[place]}",
                       lambda address=address: self._listens(address), SECONDS_TO_LISTEN)

    def _start_sshd(self, place):
        make_key(self.folder / f"key{place}")
        self.temporary(place).mkdir()
        config = self.file(f"sshd{place}", SSHD_CONFIG.format(
            folder=self.folder, place=place, temporary=self.temporary(place),
            more=self._variables.get(place, "")))
        # What this machine's user has in his shell's start-up files is not for these hosts.
        self.mount_file(place, "/etc/passwd", re.sub(
            "^root:(.*):[^:]*:[^:]*$", rf"root:\1:{self.folder}/home:/bin/sh",
            pathlib.Path("/etc/passwd").read_text(), flags=re.M))
        self.run(place, ["mount", "-t", "tmpfs", "tmpfs", "/run"])
        self.run(place, ["mkdir", "/run/sshd"])
        self.start(place, [SSHD, "-D", "-e", "-f", config], self.folder / f"sshd{place}.log")

    def _listens(self, address):
        return self.run(0, ["/usr/bin/ssh-keyscan", "-T", "1", address], check=False).stdout


def summaries(file):
    return json.loads(pathlib.Path(file).read_text())["ranks"]
