"""Hosts on one machine that are containers of podman, with their own CPUs and memory.

No image is needed: a container has this machine's files, read-only below an overlay. Its network
and processes are those of a host of namespaces.py, so it ends with that host. Podman's own files are
in a folder of this run: other containers and networks of the machine are not touched.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time
import uuid

from cli.hosts.agent import memory_group
from cli.hosts.namespaces import NamespaceHosts, entering, is_running, run_tool, why_not
from cli.runs.failure import Failure

RUNTIME = "runc"  # crun cannot do cgroup v1
SECONDS_TO_END = 10
LEAST_MEMORY = 256 << 20  # bytes
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# Low enough for an unprivileged parent; commands on the host keep the limits of this process.
LIMITS = ("--ulimit", "nofile=1024:4096", "--ulimit", "nproc=1000:1000")
# Enters each cgroup of a list that ends with --, then executes the rest.
JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"'


def why_no_containers():
    """Returns why no containers can be made here, as far as known before one is; "" if they can."""
    missing = [program for program in ("podman", RUNTIME) if not shutil.which(program)]
    if missing:
        return f"no {', '.join(missing)}: apt-get install podman {RUNTIME}"
    return why_not()


def cgroup_files(pid):
    """Returns the files that take the id of a process to limit it as `pid` is."""
    files = []
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        file = CGROUPS / controllers.removeprefix("name=") / path.lstrip("/") / "cgroup.procs"
        if file.exists():
            files.append(str(file))
    return files


def volumes(folders, root=os.stat("/").st_dev):
    """Returns options for folders that are mounts, because the overlay of / lacks them."""
    return [word for folder in folders if os.stat(folder).st_dev != root
            for word in ("--volume", f"{folder}:{folder}:ro")]


class ContainerHosts(NamespaceHosts):
    """`cpus` and `memory` (bytes) of each; `folders`: those whose files it must find."""

    def __init__(self, count, cpus, memory, folders):
        super().__init__(count)
        self._limits = ["--cpus", str(cpus), "--memory", str(max(memory, LEAST_MEMORY))]
        self._folders = folders
        self._group = f"gradwire-hosts-{uuid.uuid4().hex}"  # the cgroup that has those of all
        self._podman = []
        self._containers = []  # the first process of each, and its cgroup files
        self._monitors = []  # processes of podman, one for each

    def command(self, host, argv):
        init, files = self._containers[host]
        return ["/bin/sh", "-c", JOIN, "sh", *files, "--", *entering(init, f"--wdns={os.getcwd()}"),
                *map(str, argv)]

    def memory_group(self, host):
        return memory_group(self._containers[host][0])

    def _up(self, ends):
        ends.callback(self._remove_groups)  # at the end, when the hosts' processes have ended
        folder = super()._up(ends)
        self._podman = ["podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/run",
                        "--tmpdir", f"{folder}/tmp", "--storage-driver", "vfs",
                        "--cgroup-manager", "cgroupfs", "--runtime", RUNTIME, "--events-backend",
                        "none"]
        ends.callback(self._remove)
        self._containers = [self._start(name, init, folder)
                            for name, init in zip(self.names, self._inits)]

    def _start(self, name, init, folder):
        run_tool(*self._podman, "run", "--detach", "--name", name, "--hostname", name,
                 "--network", f"ns:/proc/{init}/ns/net", "--pid", f"ns:/proc/{init}/ns/pid",
                 "--cgroup-parent", f"/{self._group}", *self._limits, *LIMITS,
                 "--volume", f"{folder}/hosts:/etc/hosts:ro", *volumes(self._folders),
                 "--rootfs", "/:O", "sleep", "infinity")
        pid, monitor = map(int, run_tool(*self._podman, "inspect", "--format",
                                         "{{.State.Pid}} {{.State.ConmonPid}}", name).split())
        self._monitors.append(monitor)
        if not pid:
            raise Failure(f"podman: container {name} ended at once")
        return pid, cgroup_files(pid)

    def _remove(self):
        """Removes the containers, and waits for podman's monitors, which write into its folder."""
        subprocess.run([*self._podman, "rm", "--force", "--time", "0", "--all"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        until = time.monotonic() + SECONDS_TO_END
        while any(map(is_running, self._monitors)) and time.monotonic() < until:
            time.sleep(0.02)
        self._containers, self._monitors = [], []

    def _groups(self):
        """Returns the folders of its cgroups, inner ones first: one tree, or one for each
        controller."""
        return [folder for pattern in (self._group, f"*/{self._group}")
                for tree in CGROUPS.glob(pattern)
                for folder, _, _ in os.walk(tree, topdown=False)]

    def _remove_groups(self):
        """Removes the cgroups. Podman leaves those whose processes are still ending, and all if it
        is killed while it starts a container."""
        until = time.monotonic() + SECONDS_TO_END
        while (left := self._groups()) and time.monotonic() < until:
            for group in left:
                with contextlib.suppress(OSError):
                    os.rmdir(group)
            time.sleep(0.02)
