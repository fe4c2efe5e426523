"""Strangers of many kinds, who do what they can to a run until they are told to rest. They are
bounded, in number and rate: what is tried is the run, not the machine."""
import contextlib
import random
import re
import socket
import struct
import threading

import strangers
from http2 import PREFACE, Connection

SESSION = "/gradwire.v1.Membership/Session"
STATUS = "/gradwire.v1.Status/Get"
STREAMS = ("/gradwire.v1.Aggregation/Gather", "/gradwire.v1.Aggregation/Scatter",
           "/gradwire.v1.Neighbor/Stream")
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
MOST_HELD = 60  # connections of one kind
MOST_RECORDED = 1 << 20  # bytes of a connection


class Recorder:
    """Stands between a worker and its coordinator, passes on all, and keeps what the worker said."""

    def __init__(self, target):
        self._target = split(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.said = []  # of each connection
        threading.Thread(target=self._accept, daemon=True).start()

    def incarnation(self):
        """Of the worker; None if it is encrypted, or has not been told yet."""
        for said in self.said:
            # Hello (field 1) begins with its incarnation, a fixed64 (field 1).
            found = re.search(rb"\x0a[\x10-\xff][\x01-\x7f]?\x09(.{8})", bytes(said), re.DOTALL)
            if found:
                return struct.unpack("<Q", found[1])[0]
        return None

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target, 10)
                for end in (client, server):
                    end.settimeout(None)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                said = bytearray()
                self.said.append(said)
                threading.Thread(target=self._pass_on, args=(client, server, said), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    @staticmethod
    def _pass_on(source, sink, said=None):
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                if said is not None and len(said) < MOST_RECORDED:
                    said += part
                sink.sendall(part)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


class Attackers:
    """`calls` and `pages`: where to attack, gRPC and HTTP; `recorder`: of what is replayed;
    `context`: of a certificate to which nothing is allowed, or None without TLS."""

    def __init__(self, calls, pages, recorder, context=None, seed=1):
        self._calls, self._pages = calls, pages
        self._recorder, self._context = recorder, context
        self._random = random.Random(seed)
        self._awake = threading.Event()
        self._over = threading.Event()
        self.done = {}  # attempts by kind
        # Those of a second.
        kinds = {self.be_silent: 5, self.send_slowly: 1, self.send_garbage: 5, self.replay: 1,
                 self.say_hello_again: 2, self.pose_as_a_member: 2, self.show_a_wrong_certificate: 2,
                 self.read_nothing: 1, self.open_many: 1, self.ask_for_many_pages: 5,
                 self.make_many_calls: 1}
        self._threads = [threading.Thread(target=self._run, args=kind, daemon=True)
                         for kind in kinds.items()]
        for thread in self._threads:
            thread.start()

    def wake(self):
        self._awake.set()

    def rest(self):
        """What they hold is let go of within a second or so."""
        self._awake.clear()

    def end(self):
        self._over.set()
        self._awake.set()
        for thread in self._threads:
            thread.join()

    def be_silent(self, held):
        self._hold(held, socket.create_connection(self._anywhere(), 5))

    def send_slowly(self, held):
        for _ in range(5):
            self._hold(held, socket.create_connection(self._anywhere(), 5))
        for place in range(4):
            for connection in list(held):
                with contextlib.suppress(OSError):
                    connection.sendall(PREFACE[place:place + 1])
            self._over.wait(0.1)

    def send_garbage(self, _):
        with socket.create_connection(self._anywhere(), 5) as connection:
            connection.sendall(self._random.choice((b"", PREFACE)) + self._random.randbytes(4096))

    def replay(self, held):
        said = [bytes(each) for each in self._recorder.said if each]
        connection = socket.create_connection(split(self._calls[0]), 5)
        self._hold(held, connection)
        connection.sendall(self._random.choice(said))

    def say_hello_again(self, _):
        with self._call(self._calls[0]) as connection:
            stream = connection.open(SESSION)
            connection.send(stream, strangers.hello(self._stolen()))
            connection.ended(stream, 1)

    def pose_as_a_member(self, _):
        with self._call(self._random.choice(self._calls)) as connection:
            who = [("gradwire-incarnation", str(self._stolen()))]
            for path in STREAMS:
                stream = connection.open(path, who)
                connection.send(stream, self._random.randbytes(100))
            connection.wait(0.3)

    def show_a_wrong_certificate(self, held):
        connection = socket.create_connection(self._anywhere(), 5)
        if self._context:
            with self._context.wrap_socket(connection, server_hostname="127.0.0.1") as encrypted:
                encrypted.sendall(PREFACE)
                encrypted.recv(100)
        else:
            self._hold(held, connection)
            connection.sendall(CLIENT_HELLO)

    def read_nothing(self, held):
        connection = Connection(self._calls[0], window=0, context=self._context)
        self._hold(held, connection)
        stream = connection.open(SESSION)
        connection.send(stream, strangers.hello(self._random.getrandbits(63)))
        for number in range(20):
            connection.send(stream, strangers.heartbeat(1 + number))
        for path in (STATUS, *STREAMS):
            connection.send(connection.open(path), b"", last=True)

    def open_many(self, _):
        target = self._anywhere()
        with contextlib.ExitStack() as opened:
            for _ in range(40):
                opened.enter_context(socket.create_connection(target, 5))

    def ask_for_many_pages(self, held):
        connection = socket.create_connection(split(self._random.choice(self._pages)), 5)
        self._hold(held, connection)
        path = self._random.choice(("/metrics", "/history.json", "/status.json", "/" + "x" * 20000))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    def make_many_calls(self, _):
        with self._call(self._random.choice(self._calls)) as connection:
            for _ in range(40):
                connection.send(connection.open(STATUS), b"", last=True)
            connection.wait(0.2)

    def _anywhere(self):
        return split(self._random.choice(self._calls + self._pages))

    def _call(self, address):
        return Connection(address, context=self._context)

    def _stolen(self):
        """A member's incarnation, or one that nobody has."""
        known = self._recorder.incarnation()
        return known if known and self._random.random() < 0.7 else self._random.getrandbits(63)

    @staticmethod
    def _hold(held, connection):
        held.append(connection)
        while len(held) > MOST_HELD:
            drop(held.pop(0))

    def _run(self, attack, per_second):
        held = []
        while not self._over.is_set():
            if self._awake.wait(0.2):
                self.done[attack.__name__] = self.done.get(attack.__name__, 0) + 1
                with contextlib.suppress(OSError):  # it is refused, or the run is over
                    attack(held)
                self._over.wait(1 / per_second)
            else:
                while held:
                    drop(held.pop())
        while held:
            drop(held.pop())


def drop(connection):
    with contextlib.suppress(OSError):
        if isinstance(connection, Connection):
            connection.__exit__()
        else:
            connection.close()
