"""A server on a free port of 127.0.0.1 that answers as it is told."""
import contextlib
import socket
import threading


def http_answer(body, code=200):
    head = f"HTTP/1.1 {code} Told\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def unused_address():
    """HOST:PORT on which nothing listened a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


class ScriptedServer:
    """Gives its first connection the first of the answers, as bytes, the second the second, and so
    on, each after a request's empty line came; the port is closed before the last answer.
    `stays_open`: connections are left open behind the answer until the server ends."""

    def __init__(self, *answers, stays_open=False, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._listener.getsockname()[1]}"
        self.requests = []
        self._stays_open = stays_open
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(answers,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # it may still wait for somebody
        self._thread.join()
        self._listener.close()

    def _serve(self, answers):
        for left, answer in reversed(list(enumerate(reversed(answers)))):
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            if left == 0:
                self._listener.close()  # so that who has the answer finds nobody any more
            with peer:
                self._answer(peer, answer)

    def _answer(self, peer, answer):
        request = b""
        while b"\r\n\r\n" not in request:
            received = peer.recv(4096)
            if not received:
                return
            request += received
        self.requests.append(request.decode())
        try:
            peer.sendall(answer)
        except OSError:  # it has read enough
            return
        if self._stays_open:
            self._ended.wait()
