"""One GET from a coordinator: no proxy, no redirect, and a bound on the time of the whole."""
import contextlib
import http.client
import os
import signal
import socket

MOST_BYTES = 64 << 20


class Unreachable(Exception):
    """Nothing answers there: why."""


class TooSlow(Exception):
    """The whole answer took longer."""


class Refused(Exception):
    """It asks for another token, or for one."""


class BadAnswer(Exception):
    """It is not HTTP, ends too early, is too long, or has another code than 200."""


@contextlib.contextmanager
def within(seconds):
    """TooSlow if what it holds takes longer, but for the look-up of a name. Main thread only."""
    def end(*_):
        raise TooSlow(f"no whole answer within {seconds:g}s")
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def connect(address):
    """To "HOST:PORT"; the host of IPv6 has brackets."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port))
    try:
        connection.connect()
    except (socket.gaierror, UnicodeError):
        raise Unreachable("couldn't resolve host name") from None
    except OSError as error:
        raise Unreachable(os.strerror(error.errno).lower()) from None
    return connection


def read_body(answer):
    body = answer.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise BadAnswer(f"the answer is longer than {MOST_BYTES >> 20} MiB")
    if answer.length:
        raise BadAnswer(f"the answer ended after {len(body)} of {len(body) + answer.length} bytes")
    return body


def ask(connection, path, token):
    headers = {"Accept": "*/*", "Connection": "close"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = read_body(answer)
    if answer.status == 401:
        raise Refused("its token is another one" if token else "it asks for a token")
    if answer.status != 200:
        raise BadAnswer(f"got {answer.status} for {path}, expected 200")
    return body


def get(address, path, seconds, token=""):
    """The body, as bytes; `token` goes with the request. Unreachable, TooSlow, Refused,
    BadAnswer."""
    try:
        with within(seconds), contextlib.closing(connect(address)) as connection:
            return ask(connection, path, token)
    except (http.client.HTTPException, OSError):
        raise BadAnswer("the answer is not HTTP") from None
