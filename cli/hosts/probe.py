"""Finds facts about a host before a run. Runs there from its own text (python3 -c), so the host
needs no Gradwire. Takes questions as JSON and prints the answers as JSON:

    program   path of gradwire                    version, version_problem
    sharing   of memory, by program               sharing: what `gradwire env` says of it, or why it
              (whether to ask)                             says nothing
    programs  paths of programs                   missing: those that cannot be run
    names     of hosts                            means: {name: [address]}
    holds     addresses that it should have       held: those that it has
    towards   addresses of hosts                  from: {address: its own address that is used}
    folder    with data                           data: {files: {name: [bytes, sha256 or ""]}, count,
              (sums: with checksums)                     bytes, problem}
    files     that must exist                     sizes: {name: bytes or null}
    port      of the coordinator                  port_problem: why a program cannot listen there

and always host (its name), own (addresses of that name), interfaces [[name, address, bits, MTU]],
model, flags, cores (that a program may use), cpus (of the machine), load (programs that run or want
to, a mean over the last minute), memory (available bytes), free (bytes for temporary files).
"""
import fcntl
import hashlib
import ipaddress
import json
import os
import socket
import struct
import subprocess
import sys

GET_ADDRESS, GET_MASK, GET_MTU = 0x8915, 0x891B, 0x8921  # SIOCGIF...
MOST_NAMES = 1000
SECONDS_TO_SAY_VERSION = 10


def interfaces():
    """Returns the interfaces with an IPv4 address, and the first address of each."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                address, mask = (socket.inet_ntoa(fcntl.ioctl(asked, what, request)[20:24])
                                 for what in (GET_ADDRESS, GET_MASK))
                mtu = struct.unpack_from("i", fcntl.ioctl(asked, GET_MTU, request), 16)[0]
            except OSError:
                continue
            bits = ipaddress.ip_network("0.0.0.0/" + mask).prefixlen
            found.append([name, address, bits, mtu])
    return found


def addresses_of(name):
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({entry[4][0] for entry in found})


def holds(address):
    with socket.socket() as tried:
        try:
            tried.bind((address, 0))
        except OSError:
            return False
    return True


def used_towards(address):
    """Returns the own address that leads to `address`; "" without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, 9))
        except OSError:
            return ""
        return asked.getsockname()[0]


def version_of(program):
    """Returns what `program --version` says, and why it says nothing."""
    try:
        said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_TO_SAY_VERSION)
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    lines = said.stdout.decode("utf-8", "replace").splitlines()
    return (lines[0].strip() if lines else ""), ""


def sharing_of(program):
    """Returns what a worker may get of shared memory; "off: " and a reason if it can get none."""
    try:
        said = subprocess.run([program, "env", "--json"], stdin=subprocess.DEVNULL, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=SECONDS_TO_SAY_VERSION)
        return str(json.loads(said.stdout)["shared-memory"]["value"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        return "not known: gradwire env: %s" % error


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def files_below(folder):
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(here, name)
            if os.path.exists(path):  # else a link whose target is missing: no program can read it
                yield path


def data_in(folder, sums):
    found = {"files": {}, "count": 0, "bytes": 0, "problem": ""}
    all_sums = hashlib.sha256()
    try:
        os.listdir(folder)
        for path in files_below(folder):
            size, name = os.stat(path).st_size, os.path.relpath(path, folder)
            digest = sha256_of(path) if sums else ""
            found["count"] += 1
            found["bytes"] += size
            all_sums.update(("%s %d %s\n" % (name, size, digest)).encode("utf-8", "replace"))
            if found["count"] <= MOST_NAMES:
                found["files"][name] = [size, digest]
    except OSError as error:
        found["problem"] = os.strerror(error.errno).lower()
    found["sum"] = all_sums.hexdigest()
    return found


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def port_problem(port):
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("0.0.0.0", port))
            tried.listen()
        except OSError as error:
            return os.strerror(error.errno).lower()
    return ""


def lines_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def value_in(lines, name):
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def machine():
    cpu, memory = lines_of("/proc/cpuinfo"), lines_of("/proc/meminfo")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    disk = os.statvfs(temporary)
    available = value_in(memory, "MemAvailable") or "0"
    return {"model": value_in(cpu, "model name") or value_in(cpu, "CPU part"),
            "flags": (value_in(cpu, "flags") or value_in(cpu, "Features")).split(),
            "cores": len(os.sched_getaffinity(0)), "cpus": os.cpu_count() or 1,
            "load": float(lines_of("/proc/loadavg")[0].split()[0]),
            "memory": int(available.split()[0]) * 1024,
            "free": disk.f_bavail * disk.f_frsize, "temporary": temporary}


def answer(questions):
    name = socket.gethostname()
    answers = {"host": name, "own": addresses_of(name), "interfaces": interfaces(), **machine()}
    if "program" in questions:
        answers["version"], answers["version_problem"] = version_of(questions["program"])
    if questions.get("sharing"):
        answers["sharing"] = sharing_of(questions["program"])
    answers["missing"] = [path for path in questions.get("programs", ())
                          if not os.access(path, os.X_OK) or os.path.isdir(path)]
    answers["means"] = {name: addresses_of(name) for name in questions.get("names", ())}
    answers["held"] = [address for address in questions.get("holds", ()) if holds(address)]
    answers["from"] = {address: used_towards(address) for address in questions.get("towards", ())}
    answers["sizes"] = {path: size_of(path) for path in questions.get("files", ())}
    if questions.get("folder"):
        answers["data"] = data_in(questions["folder"], questions.get("sums", False))
    if questions.get("port"):
        answers["port_problem"] = port_problem(questions["port"])
    return answers


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
