"""An ssh connection to a host and the programs that run there. cli/hosts/agent.py is its other
end."""
import base64
import json
import os
import pathlib
import signal
import time
import zlib

from cli.hosts.agent import BEAT, END, ERR, HEADER, HELLO, MAGIC, OUT, PID, SIGNAL, START, frames
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hosts import OPTIONS, own_environment
from cli.runs.process import Command, Program, describe_end, last_lines
from cli.terminal.command import EXIT_TRY_AGAIN

SECONDS_TO_CONNECT = 30
SECONDS_BETWEEN_BEATS = 1
SECONDS_TO_KILL = 1
EARLIER = 2  # by how much the other side notices a broken connection before this one, and ends
LEAST_SILENCE = 3
SHOWN_LINES = 4


def agent_words(settings):
    """Returns the agent as the words of a command that means the same in every shell."""
    source = pathlib.Path(__file__).with_name("agent.py").read_bytes()
    packed = base64.b64encode(zlib.compress(source, 9)).decode()
    return ["exec", "python3", "-I", "-S", "-c",
            f"'import base64,zlib;exec(zlib.decompress(base64.b64decode(\"{packed}\")))'",
            base64.b64encode(json.dumps(settings).encode()).decode()]


class RemoteProcess(Program):
    """A program on another host, with the interface of cli/runs/process.py's Process."""

    def __init__(self, link, number, on_out, on_err, on_end):
        self._link, self._number, self._on_end = link, number, on_end
        self.out, self.err = bytearray(), bytearray()
        self.takes = {OUT: on_out or self.out.extend, ERR: on_err or self.err.extend}
        self.pid = None  # on the host, which reports it
        self.status = None
        self.kill_by = None  # when it must have ended
        self._lost = ""  # why its end is not known
        self._why = ""  # it ended

    @property
    def place(self):
        """Says which process it is, for people."""
        host = f"host {self._link.name}"
        return host if self.pid is None else f"process {self.pid} on {host}"

    @property
    def end(self):
        return f"was lost: {self._lost}" if self._lost else describe_end(self.status, self._why)

    def signal(self, number):
        if self.ended:
            return
        if number == signal.SIGKILL and self.kill_by is None:
            self.kill_by = time.monotonic() + SECONDS_TO_KILL
        self._link.send(SIGNAL, self._number, str(int(number)).encode())

    def finish(self, status, lost="", why=""):
        self.status, self._lost, self._why = status, lost, why
        self._on_end()

    def close(self):
        pass


class Link:
    """Programs on one host. `name` as ssh takes it; `processes`: the ProcessSet that carries the
    connection; `lease`: seconds of silence after which the host is lost.

    connecting ──HELLO──► ready ──close()──► closed
        └──────ssh ends, silence: `lost` says why, and all programs end──►┘
    """

    def __init__(self, name, ssh, processes, lease):
        self.name = name
        self.folder = ""  # for temporary files, on the host
        self.problem = ""  # why the folder is not writable
        self.lost = ""  # why the link is lost
        self.ready = False
        self._greeted = False
        self.round_trip = None  # seconds, the least so far
        self.clock_ahead = None  # seconds by which its clock was ahead then
        self._lease = max(lease, LEAST_SILENCE + EARLIER)
        self._programs = {}
        self._numbers = 0
        self._received, self._unsent, self._errors = bytearray(), bytearray(), bytearray()
        self._closing = False
        self._heard = self._started = time.monotonic()
        self._beat_at = 0
        self._beats = {}  # by number: when it was sent, on two clocks
        settings = {"silence": max(LEAST_SILENCE, lease - EARLIER), "start_in": os.getcwd(),
                    "name": f"gradwire-{os.urandom(8).hex()}"}
        command = Command([ssh, *OPTIONS, name, " ".join(agent_words(settings))],
                          own_environment(), ends_with_stdin=True)
        self._ssh = processes.connect(self, command)

    def start(self, command, on_out, on_err, on_end):
        """Starts a program on the host as ProcessSet.add does, with the host's variables, too."""
        self._numbers += 1
        program = RemoteProcess(self, self._numbers, on_out, on_err, on_end)
        self._programs[self._numbers] = program
        order = {"argv": command.argv, "environment": command.environment, "stdin": command.stdin}
        self.send(START, self._numbers, json.dumps(order).encode())
        return program

    def send(self, kind, number, payload=b""):
        if self.lost or self._closing:
            return
        self._unsent += HEADER.pack(kind, number, len(payload)) + payload
        self._flush()

    def forget_logs(self):
        """Says that the logs are here, so the folder on the host may be removed."""
        self.send(SIGNAL, 0)

    def close(self):
        """Ends the programs on the host, and the connection."""
        self._flush()
        self._closing = True
        self._ssh.signal(signal.SIGTERM)

    @property
    def awaits_time(self):
        return bool(self._beats) and not self.lost

    # A ProcessSet calls these.

    def feed(self, chunk):
        if self.lost:
            return  # all programs have ended; this is what ssh still had
        self._heard = time.monotonic()
        self._received += chunk
        if not self._greeted and MAGIC in self._received:  # after what a shell prints at its start
            del self._received[:self._received.index(MAGIC) + len(MAGIC)]
            self._greeted = True
        for frame in frames(self._received) if self._greeted else ():
            self._take(*frame)

    def take_error(self, chunk):
        self._errors += chunk
        del self._errors[:-4096]

    def on_end(self):
        if self.lost:
            return
        said = last_lines(self._errors.decode("utf-8", "replace"), SHOWN_LINES)
        why = f"ssh {self._ssh.end}" + (": " + "; ".join(map(str.strip, said)) if said else "")
        self._lose("the connection was closed" if self._closing else why)

    def tick(self):
        now = time.monotonic()
        if self.lost:
            self._end_programs()  # started since
        if self.lost or self._closing:
            return
        self._flush()
        silence = now - self._heard
        if not self._greeted and now - self._started > SECONDS_TO_CONNECT:
            self._lose(f"did not answer within {SECONDS_TO_CONNECT} s")
        elif self._greeted and silence > self._lease:
            self._lose(f"was silent for {self._lease:g} s")
        elif any(program.kill_by and now > program.kill_by for program in self._programs.values()):
            self._lose(f"was silent for {silence:.0f} s when its programs were to end")
        elif self._greeted and now >= self._beat_at:
            self.beat()

    def beat(self):
        """Shows that this side is alive, and asks for the time."""
        self._beat_at = time.monotonic() + SECONDS_BETWEEN_BEATS
        self._numbers += 1
        self._beats[self._numbers] = time.monotonic(), time.time()
        self.send(BEAT, self._numbers)

    def _take(self, kind, number, payload):
        if kind == HELLO:
            hello = json.loads(payload)
            self.folder, self.problem, self.ready = hello["folder"], hello["problem"], True
        elif kind == BEAT:
            self._take_time(number, float(payload))
        elif kind == END:
            status, _, why = payload.decode().partition(" ")
            self._programs.pop(number).finish(int(status), why=why)
        elif kind == PID:
            self._programs[number].pid = int(payload)
        elif number in self._programs:
            self._programs[number].takes[kind](payload)

    def _take_time(self, number, there):
        sent, here = self._beats.pop(number)
        round_trip = time.monotonic() - sent
        if self.round_trip is None or round_trip < self.round_trip:
            self.round_trip, self.clock_ahead = round_trip, there - (here + round_trip / 2)

    def _flush(self):
        del self._unsent[:self._ssh.write(self._unsent)]

    def _lose(self, why):
        self.lost = f"host {self.name}: {why}"
        self._ssh.signal(signal.SIGKILL)
        self._end_programs()

    def _end_programs(self):
        programs, self._programs = self._programs, {}
        for program in programs.values():
            program.finish(EXIT_TRY_AGAIN, self.lost)


def raise_unready(links):
    """Raises Failure if hosts do not answer or have no room for temporary files."""
    problems = [link.lost or (link.problem and f"host {link.name}: {link.problem}") or
                ("" if link.ready else f"host {link.name}: did not answer")
                for link in links]
    if any(problems):
        raise Failure("\n".join(filter(None, problems)), EXIT_USAGE)
