"""As much of HTTP/2 and gRPC as somebody needs who does not keep to them: frames by hand."""
import contextlib
import socket
import ssl
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
MAX_FRAME = 16384


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header that refers to no table, without Huffman's code (RFC 7541, 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def varint(number):
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def field(number, value):
    """Of a protobuf message: bytes and text, or a whole number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


class Encrypted:
    """A socket with TLS that one thread may read while another writes. `ssl.SSLSocket` must not be
    used so: the server's session tickets, which come in the first moments, break what is written."""

    def __init__(self, connection, context, host):
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()
        self._until_read(self._tls.do_handshake)

    def sendall(self, data):
        with self._lock:
            self._tls.write(data)
            self._flush()

    def recv(self, count):
        try:
            return self._until_read(lambda: self._tls.read(count))
        except ssl.SSLZeroReturnError:  # the end, and the server said so
            return b""

    def shutdown(self, how):
        self._connection.shutdown(how)

    def close(self):
        self._connection.close()

    def _until_read(self, step):
        """What `step` gives once enough has come for it. It waits without the lock."""
        while True:
            with self._lock:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    pass
                finally:
                    self._flush()
            came = self._connection.recv(MAX_FRAME)
            with self._lock:
                if came:
                    self._incoming.write(came)
                else:
                    self._incoming.write_eof()

    def _flush(self):
        self._connection.sendall(self._outgoing.read())


class Connection:
    """A client that calls what it likes; a thread answers the server's pings, so that it stays.
    With `window`, the server may send so many bytes in a stream before it waits for a word that
    never comes. With `context` it is encrypted."""

    def __init__(self, address, window=None, context=None):
        host, port = address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), 10)
        try:
            self._socket = Encrypted(connection, context, host) if context else connection
        except OSError:
            connection.close()
            raise
        connection.settimeout(None)
        self._changed = threading.Condition()
        self._authority = address
        self._last = -1
        self.over = set()  # streams that the server has ended
        self.trailers = {}  # by stream: the last headers as they came, with names and values plain
        self.closed = False  # so is the connection
        self.received = 0  # bytes of messages
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._thread = threading.Thread(target=self._read_all, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def open(self, path, more=()):
        """Begins a call, with `more` headers; gives its stream."""
        headers = b"".join(literal(name, value) for name, value in (
            (":method", "POST"), (":scheme", "http"), (":path", path),
            (":authority", self._authority), ("te", "trailers"),
            ("content-type", "application/grpc"), *more))
        self._last += 2
        self._send(frame(HEADERS, END_HEADERS, self._last, headers))
        return self._last

    def send(self, stream, message, last=False):
        data = b"\0" + struct.pack(">I", len(message)) + message
        while len(data) > MAX_FRAME:
            self._send(frame(DATA, 0, stream, data[:MAX_FRAME]))
            data = data[MAX_FRAME:]
        self._send(frame(DATA, END_STREAM if last else 0, stream, data))

    def wait(self, seconds, until=lambda: False):
        """For so long, or until `until`. Whether that came."""
        with self._changed:
            return self._changed.wait_for(until, max(0, seconds))

    def ended(self, stream, seconds):
        """Whether the server ends the call within so many seconds."""
        return self.wait(seconds, lambda: stream in self.over or self.closed)

    def status(self, stream):
        """The code that a call ended with, the first of its connection; "" if there was none."""
        _, _, value = self.trailers.get(stream, b"").partition(b"grpc-status")
        return value[1:1 + value[0]].decode() if value else ""

    def _send(self, data):
        with self._changed:
            self._socket.sendall(data)

    def _read_all(self):
        with contextlib.suppress(OSError):
            while len(head := self._receive(9)) == 9:
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = self._receive(int.from_bytes(head[:3], "big"))
                with self._changed:
                    self._on_frame(kind, flags, stream, payload)
                    self._changed.notify_all()
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _receive(self, count):
        """So many bytes, or fewer at the end."""
        data = b""
        while len(data) < count and (came := self._socket.recv(count - len(data))):
            data += came
        return data

    def _on_frame(self, kind, flags, stream, payload):
        self.received += len(payload) if kind == DATA else 0
        if kind == HEADERS:
            self.trailers[stream] = payload
        if kind == RST_STREAM or kind in (HEADERS, DATA) and flags & END_STREAM:
            self.over.add(stream)
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self._socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
