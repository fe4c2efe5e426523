"""Gradwire's agent on another host: it starts programs there and passes on what they print.

Its text comes over the connection (link.py), so the host needs no Gradwire, and the agent imports
only the standard library. Frames go both ways, on stdin and stdout:

    kind (1 byte)  id of a program (4)  length (4)  that many bytes

    to the agent: BEAT               from it: BEAT   its clock, seconds since 1970
                  START  JSON                 OUT    of a program's stdout
                  SIGNAL its number           ERR    of its stderr
                                              END    exit code, or minus a signal; after a
                                                     space, why (MemoryKills)
                                              PID    of a program that was started
                                              HELLO  JSON: "folder" for temporary files, "problem"

A SIGNAL for program 0 says that the logs in that folder have been fetched. When stdin ends, or
nothing arrives for a while, the other side or the network is gone: the agent then ends itself and
all that it has started.
"""
import base64
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MAGIC = b"\ngradwire-agent\n"  # follows all that a shell may print when it starts
HEADER = struct.Struct(">BII")
BEAT, START, SIGNAL, OUT, ERR, END, HELLO, PID = range(8)
CHUNK_BYTES = 65536
MOST_UNSENT = 1 << 20  # bytes; with more, programs wait until some are sent
SECONDS_TO_END = 1  # between SIGTERM and SIGKILL
CGROUPS = "/sys/fs/cgroup"
COUNTS = ("memory.events", "memory.oom_control")  # of cgroup v2 and v1
LIMITS = ("memory.max", "memory.limit_in_bytes")
NO_LIMIT = 1 << 60  # bytes; v1 has a number in this range in place of "max"


def die_with_agent(agent):
    """Runs in the child: makes the kernel kill it when the agent dies."""
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != agent:
        os._exit(127)


def frames(received):
    """Takes whole frames from what has arrived: kind, id, bytes."""
    while len(received) >= HEADER.size:
        kind, number, length = HEADER.unpack_from(received)
        if len(received) < HEADER.size + length:
            break
        payload = bytes(received[HEADER.size:HEADER.size + length])
        del received[:HEADER.size + length]
        yield kind, number, payload


def lines_of(group, names):
    """Returns the lines of the first of these files that the folder has; none without one."""
    for name in names:
        try:
            with open(os.path.join(group, name)) as file:
                return file.read().splitlines()
        except OSError:
            pass
    return []


def memory_group(pid="self"):
    """Returns the folder of the cgroup that limits the memory of a process; "" if there is none. In
    a container, the folder that /proc names may be missing; the container's own is then on top."""
    for line in lines_of("/proc/%s" % pid, ["cgroup"]):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = CGROUPS + "/memory" if controllers else CGROUPS
        for folder in (top + path, top):
            if lines_of(folder, COUNTS):
                return folder
    return ""


class MemoryKills:
    """The processes of a cgroup (see memory_group) that the kernel has killed because memory ran
    out, from now on."""

    def __init__(self, group):
        self.group = group
        self.explained = self.count()

    def count(self):
        for line in lines_of(self.group, COUNTS):
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
        return 0

    def explain(self, status):
        """Returns what to say after how a process of the cgroup ended: "" unless memory ran out. Each
        kill explains one end."""
        if status != -signal.SIGKILL or self.count() <= self.explained:
            return ""
        self.explained += 1
        limit = (lines_of(self.group, LIMITS) or ["max"])[0]
        if limit == "max" or int(limit) >= NO_LIMIT:
            return "because memory ran out"
        return "because memory ran out: the limit is %d MiB" % (int(limit) >> 20)


class Program:
    def __init__(self, number, order):
        agent = os.getpid()
        self.number = number
        with tempfile.TemporaryFile() as given:
            given.write(order.get("stdin", "").encode("utf-8", "surrogateescape"))
            given.seek(0)
            self.popen = subprocess.Popen(
                order["argv"], env=dict(os.environ, **order["environment"]), stdin=given,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
                preexec_fn=lambda: die_with_agent(agent))
        self.pipes = {self.popen.stdout.fileno(): OUT, self.popen.stderr.fileno(): ERR}
        for pipe in self.pipes:
            os.set_blocking(pipe, False)

    def signal(self, number):
        try:
            os.killpg(self.popen.pid, number)
        except OSError:
            pass

    def ended(self):
        """Whether it has ended. Kills what it has left before its id can become another's."""
        if self.popen.returncode is not None:
            return True
        if os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self.signal(signal.SIGKILL)
        self.popen.wait()
        return True


class Agent:
    def __init__(self, settings):
        self.silence = settings["silence"]
        self.folder = None  # for temporary files
        self.fetched = False  # whether the logs there have been
        self.programs = {}
        self.received, self.unsent = bytearray(), bytearray(MAGIC)
        self.heard = time.monotonic()
        self.gone = False  # whether the other side is
        self.kills = MemoryKills(memory_group())

    def send(self, kind, number, payload):
        self.unsent += HEADER.pack(kind, number, len(payload)) + payload

    def greet(self, name):
        """Makes the folder, and tries to write to it."""
        path = os.path.join(os.environ.get("TMPDIR") or "/tmp", name)
        hello = {"folder": path, "problem": ""}
        try:
            os.mkdir(path, 0o700)
            self.folder = path
            with open(os.path.join(path, "try"), "wb") as file:
                file.write(bytes(CHUNK_BYTES))
            os.unlink(os.path.join(path, "try"))
        except OSError as error:
            hello["problem"] = "cannot write to '%s': %s" % (path, os.strerror(error.errno).lower())
        self.send(HELLO, 0, json.dumps(hello).encode())

    def run(self):
        wake, woken = os.pipe()
        for fd in (wake, woken, 0, 1):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.note)
        while not self.gone:
            self.turn(wake)
        self.end_all()

    def note(self, number, _frame):
        self.gone = self.gone or number != signal.SIGCHLD

    def turn(self, wake):
        full = len(self.unsent) > MOST_UNSENT
        pipes = {} if full else {fd: program for program in self.programs.values()
                                 for fd in program.pipes}
        readable, writable, _ = select.select([0, wake, *pipes], [1] if self.unsent else [], [],
                                              0.5)
        if wake in readable:
            os.read(wake, 256)
        if writable:
            self.write()
        for fd in readable:
            if fd in pipes:
                self.read(pipes[fd], fd)
        if 0 in readable:
            self.take()
        if not full:
            self.look_for_ends()
        self.gone = self.gone or time.monotonic() - self.heard > self.silence

    def write(self):
        try:
            del self.unsent[:os.write(1, self.unsent[:CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            self.gone = True

    def read(self, program, fd):
        """Returns whether something was read."""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if chunk:
            self.send(program.pipes[fd], program.number, chunk)
        else:
            del program.pipes[fd]
        return bool(chunk)

    def take(self):
        chunk = os.read(0, CHUNK_BYTES)
        self.gone = self.gone or not chunk
        self.heard = time.monotonic()
        self.received += chunk
        for frame in frames(self.received):
            self.obey(*frame)

    def obey(self, kind, number, payload):
        if kind == BEAT:
            self.send(BEAT, number, repr(time.time()).encode())
        elif kind == START:
            self.start(number, json.loads(payload))
        elif number == 0:
            self.fetched = True
        elif number in self.programs:
            self.programs[number].signal(int(payload))

    def start(self, number, order):
        try:
            self.programs[number] = Program(number, order)
            self.send(PID, number, b"%d" % self.programs[number].popen.pid)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            self.send(ERR, number, ("cannot start '%s': %s\n" % (order["argv"][0], why)).encode())
            self.send(END, number, b"127")

    def look_for_ends(self):
        for number, program in list(self.programs.items()):
            if program.ended():
                for fd in list(program.pipes):
                    while self.read(program, fd):
                        pass
                for pipe in (program.popen.stdout, program.popen.stderr):
                    pipe.close()
                del self.programs[number]
                status = program.popen.returncode
                end = "%d %s" % (status, self.kills.explain(status))
                self.send(END, number, end.rstrip().encode())

    def end_all(self):
        """Ends all programs. Their logs stay unless they have been fetched."""
        until = time.monotonic() + SECONDS_TO_END
        for program in self.programs.values():
            program.signal(signal.SIGTERM)
        while time.monotonic() < until and not all(p.ended() for p in self.programs.values()):
            for program in self.programs.values():
                for fd in program.pipes:  # a program with a full pipe could not end
                    self.drop(fd)
            time.sleep(0.02)
        for program in self.programs.values():
            program.signal(signal.SIGKILL)
            program.popen.wait()
        if self.folder and (self.fetched or not any(
                name.startswith("log-") for name in os.listdir(self.folder))):
            shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def drop(fd):
        try:
            while os.read(fd, CHUNK_BYTES):
                pass
        except OSError:
            pass


def main():
    settings = json.loads(base64.b64decode(sys.argv[1]))
    try:
        os.chdir(settings["start_in"])  # so that file names mean the same on both sides
    except OSError:
        pass
    agent = Agent(settings)
    agent.greet(settings["name"])
    agent.run()


if __name__ == "__main__":
    main()
