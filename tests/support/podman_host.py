"""A host made of namespaces on which podman runs. Its networks, mounts and processes are its own and
end with it, even after SIGKILL, so nothing of a test is left on this machine."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.hosts.namespaces import NamespaceHosts, why_not  # noqa: E402

NEEDED = ("aardvark-dns", "catatonit", "curl", "mmdebstrap", "podman", "podman-compose", "runc")
PLACES = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/podman:/usr/libexec/podman"
# Lower limits than podman's own, which a parent without all privileges may not set. The soft limits
# equal the hard ones, because podman 4.3 exchanges the two in `play kube`.
CONTAINERS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
# crun cannot do cgroup v1; there is no systemd, which the other cgroup manager needs.
PODMAN = """#!/bin/sh
export CONTAINERS_CONF={folder}/containers.conf
exec podman --root {folder}/storage --runroot {folder}/run --tmpdir {folder}/tmp \\
  --storage-driver overlay --cgroup-manager cgroupfs --runtime runc --events-backend none \\
  --network-config-dir {folder}/networks "$@"
"""
SECONDS = 300  # a bound for any command


def why_no_podman():
    """Returns why podman cannot run here, as far as that is known before; "" if it can."""
    missing = [program for program in NEEDED if not shutil.which(program, path=PLACES)]
    if missing:
        return f"no {', '.join(missing)}: apt-get install {' '.join(missing)}"
    return why_not()


class PodmanHost:
    """`folder`: for podman's files, whose file system must carry overlays."""

    def __init__(self, folder):
        self._hosts = NamespaceHosts(1)
        self._podman = folder / "podman"
        (folder / "containers.conf").write_text(CONTAINERS)
        self._podman.write_text(PODMAN.format(folder=folder))
        self._podman.chmod(0o700)

    def up(self):
        self._hosts.up()
        # Podman keeps its locks there; those of another podman of this machine are not for this one.
        self.run("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")

    def down(self):
        """Removes all containers, with their cgroups, and ends the host."""
        if self._hosts is not None:
            self.podman("pod", "rm", "--force", "--all", "--time", "0", check=False)
            self.podman("rm", "--force", "--all", "--time", "0", check=False)
            self._hosts.down()
            self._hosts = None

    def run(self, *words, check=True, seconds=SECONDS, **options):
        """Runs a command on the host. Returns what it printed."""
        done = subprocess.run(self._hosts.command(0, words), text=True, check=False, timeout=seconds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{words} exited {done.returncode}:\n{done.stdout[-4000:]}")
        return done.stdout

    def command(self, *words):
        return self._hosts.command(0, words)

    def podman(self, *words, **options):
        return self.run(self._podman, *words, **options)

    def compose(self, *words, **options):
        return self.run("podman-compose", "--podman-path", self._podman, *words, **options)

    def get(self, url):
        """Returns the body of a page, as the host sees it; "" if there is none."""
        return self.run("curl", "-sf", "--max-time", "5", url, check=False)
