"""One GET from a coordinator: without proxy or redirect, and with a limit on the total time."""
import contextlib
import http.client
import os
import signal
import socket
import ssl

MOST_BYTES = 64 << 20


class Unreachable(Exception):
    """No program answers there: why."""


class TooSlow(Exception):
    """The whole answer took longer."""


class Refused(Exception):
    """The server wants a token, or another one."""


class NoTls(Exception):
    """The server and this client do not agree on TLS: why."""


class BadAnswer(Exception):
    """The answer is not HTTP, ends too early, is too long, or has another code than 200."""


@contextlib.contextmanager
def within(seconds):
    """Raises TooSlow if its block, except a name's look-up, takes longer. Main thread only."""
    def end(*_):
        raise TooSlow(f"no whole answer within {seconds:g}s")
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def tls_context(cert, key, ca):
    """Returns the context of a client that shows a certificate and trusts a CA's, all PEM files.
    OSError, such as ssl.SSLError, if a file is of no use."""
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    return context


def connect(address, context=None):
    """Connects to "HOST:PORT", where an IPv6 host has brackets; by HTTPS with a context."""
    host, _, port = address.rpartition(":")
    host, port = host.strip("[]"), int(port)
    connection = (http.client.HTTPSConnection(host, port, context=context) if context else
                  http.client.HTTPConnection(host, port))
    try:
        connection.connect()
    except ssl.SSLError as error:
        raise NoTls(words_of(error)) from None
    except (socket.gaierror, UnicodeError):
        raise Unreachable("couldn't resolve host name") from None
    except OSError as error:
        raise Unreachable(os.strerror(error.errno).lower()) from None
    return connection


def words_of(error):
    """Returns TLS's error as a part of a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return "it closed the connection, so perhaps it does not speak TLS"
    if error.reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS"
    return f"no TLS connection: {(error.reason or str(error)).replace('_', ' ').lower()}"


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
        raise Refused("it has another token" if token else "it asks for a token")
    if answer.status != 200:
        raise BadAnswer(f"got {answer.status} for {path}, expected 200")
    return body


def exchange(address, path, token, context):
    with contextlib.closing(connect(address, context)) as connection:
        return ask(connection, path, token)


def get(address, path, seconds, token="", context=None):
    """Returns the body, as bytes. Sends `token`; uses HTTPS with a context (tls_context). Raises
    Unreachable, TooSlow, Refused, NoTls or BadAnswer."""
    try:
        with within(seconds):
            try:
                return exchange(address, path, token, context)
            except ConnectionError:  # a server that ends closes its last connections without an answer
                return exchange(address, path, token, context)
    except ssl.SSLError as error:  # a server that wants a certificate may say so late
        raise NoTls(words_of(error)) from None
    except (http.client.HTTPException, OSError):
        raise BadAnswer("the answer is not HTTP") from None
