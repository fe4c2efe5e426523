"""Pods without a cluster: each is a process in namespaces of its own, with a root file system that
cannot be written to, the user, environment and mounts that its manifest says, and names of the
others in /etc/hosts. This is no kubelet: nothing is scheduled, probed, limited or started again."""
import dataclasses
import os
import pathlib
import shlex
import subprocess

SYSTEM = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "proc", "dev", "sys")
NETWORK = "10.244.0."
SETTING_UP = """\
set -euo pipefail
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
ip link add bridge type bridge
ip link set bridge up
"""
PLUGGING_IN = """\
ip netns add {pod}
ip link add port{number} type veth peer name eth0 netns {pod}
ip link set port{number} master bridge up
ip -n {pod} address add {address}/24 dev eth0
ip -n {pod} link set eth0 up
ip -n {pod} link set lo up
"""


@dataclasses.dataclass
class Pod:
    """One container. `files` are what a ConfigMap mounts: path: text. `writable` are folders."""
    name: str
    names: list        # by which others find it
    command: list
    environment: dict
    uid: int
    files: dict
    writable: list


def why_not():
    """Why no pods can be here; "" if they can."""
    if os.geteuid() != 0:
        return "pods need root"
    done = subprocess.run(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child",
                           "ip", "link", "add", "bridge", "type", "bridge"], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return f"no namespaces here: {done.stdout.strip()}" if done.returncode != 0 else ""


def _root(folder, pod, programs, hosts):
    """The pod's root: folders to mount the system at, and files of its own."""
    root = folder / pod.name
    for name in ("etc", "programs", "tmp", *SYSTEM):
        (root / name).mkdir(parents=True)
    for name in ("alternatives", "group", "ld.so.cache", "nsswitch.conf", "passwd"):
        subprocess.run(["cp", "-a", f"/etc/{name}", root / "etc"], check=True)
    (root / "etc" / "hosts").write_text(hosts)
    for path, text in pod.files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for path in pod.writable:
        (root / path.lstrip("/")).mkdir(exist_ok=True)
        outside = outside_of(folder, pod, path)
        outside.mkdir(parents=True, exist_ok=True)  # what earlier pods left
        os.chown(outside, pod.uid, pod.uid)
    binds = [(f"/{name}", root / name) for name in SYSTEM if pathlib.Path("/", name).is_dir()]
    binds.append((programs, root / "programs"))
    lines = [f"mount --bind {root} {root}"]
    lines += [f"mount --rbind {source} {target}" for source, target in binds]
    lines.append(f"mount -o remount,bind,ro {root}")
    lines += [f"mount --bind {outside_of(folder, pod, path)} {root}{path}" for path in pod.writable]
    return root, lines


def outside_of(folder, pod, path):
    """Where a writable folder of a pod is on this machine."""
    return folder / "volumes" / pod.name / path.strip("/")


def _start(folder, pod, programs, hosts):
    root, lines = _root(folder, pod, programs, hosts)
    environment = [f"{name}={value}" for name, value in
                   {"PATH": "/programs/bin:/usr/bin:/bin", **pod.environment}.items()]
    lines.append(shlex.join(
        ["exec", "chroot", str(root), "setpriv", f"--reuid={pod.uid}", f"--regid={pod.uid}",
         "--clear-groups", "--no-new-privs", "--bounding-set=-all", "env", "--ignore-environment",
         *environment, *pod.command]))
    script = f"set -euo pipefail; hostname {pod.name}\n" + "\n".join(lines)
    inside = shlex.join(["ip", "netns", "exec", pod.name, "unshare", "--mount", "--uts",
                         "bash", "-c", script])
    return f"{inside} >{folder / pod.name}.log 2>&1 &\npids[{pod.name}]=$!\n"


def run(pods, programs, folder, seconds=500):
    """Runs `pods` with the build in `programs` until they have ended. Their exit codes and
    logs, by name."""
    addresses = {pod.name: f"{NETWORK}{number + 2}" for number, pod in enumerate(pods)}
    hosts = "127.0.0.1 localhost\n" + "".join(
        f"{addresses[pod.name]} {' '.join([pod.name, *pod.names])}\n" for pod in pods)
    script = SETTING_UP + "declare -A pids\n"
    script += "".join(PLUGGING_IN.format(pod=pod.name, number=number, address=addresses[pod.name])
                      for number, pod in enumerate(pods))
    script += "".join(_start(folder, pod, programs, hosts) for pod in pods)
    for pod in pods:
        script += f"code=0; wait ${{pids[{pod.name}]}} || code=$?; echo {pod.name} $code\n"
    done = subprocess.run(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child",
                           "bash", "-c", script], text=True, check=False, timeout=seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    codes = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    logs = {pod.name: (folder / f"{pod.name}.log").read_text() for pod in pods
            if (folder / f"{pod.name}.log").exists()}
    if set(codes) != set(addresses):
        raise AssertionError(f"pods did not start: {done.stdout}")
    return {name: int(code) for name, code in codes.items()}, logs
