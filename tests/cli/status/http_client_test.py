"""cli/status/http_client.py: what it takes for an answer, and how it names what is none."""
import errno
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.status import http_client
from scripted_server import ScriptedServer, http_answer, unused_address

LONG, SHORT = 60, 0.2  # seconds
PATH = "/status.json"


class Get(unittest.TestCase):
    def get(self, answer, seconds=LONG, **more):
        with ScriptedServer(answer, **more) as server:
            return http_client.get(server.address, PATH, seconds)

    def error_of(self, kind, answer, **more):
        with self.assertRaises(kind) as raised:
            self.get(answer, **more)
        return str(raised.exception)

    def test_answer_gives_its_body(self):
        self.assertEqual(self.get(http_answer(b"{}\n")), b"{}\n")

    def test_request_names_path_and_host(self):
        with ScriptedServer(http_answer(b"")) as server:
            http_client.get(server.address, PATH, LONG)
        self.assertRegex(server.requests[0], f"^GET {PATH} HTTP/1.1\r\n")
        self.assertIn(f"Host: {server.address}\r\n", server.requests[0])

    def test_token_is_named_and_none_is_sent_without(self):
        with ScriptedServer(http_answer(b""), http_answer(b"")) as server:
            http_client.get(server.address, PATH, LONG, "secret")
            http_client.get(server.address, PATH, LONG)
        self.assertIn("Authorization: Bearer secret\r\n", server.requests[0])
        self.assertNotIn("Authorization", server.requests[1])

    def test_who_asks_for_another_token_refuses(self):
        with ScriptedServer(http_answer(b"", 401), http_answer(b"", 401)) as server:
            with self.assertRaisesRegex(http_client.Refused, "^it has another token$"):
                http_client.get(server.address, PATH, LONG, "secret")
            with self.assertRaisesRegex(http_client.Refused, "^it asks for a token$"):
                http_client.get(server.address, PATH, LONG)

    @unittest.skipUnless(socket.has_ipv6, "this Python knows no IPv6")
    def test_ipv6_address_in_brackets_is_asked(self):
        try:
            self.assertEqual(self.get(http_answer(b"{}"), host="::1"), b"{}")
        except OSError as error:
            self.skipTest(f"this host has no IPv6: {error}")

    def test_long_body_is_whole(self):
        self.assertEqual(self.get(http_answer(b"x" * 3_000_000)), b"x" * 3_000_000)

    def test_body_in_chunks_is_put_together(self):
        self.assertEqual(self.get(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), b"abc")

    def test_body_above_the_bound_is_refused(self):
        with mock.patch.object(http_client, "MOST_BYTES", 1 << 20):
            self.assertEqual(
                self.error_of(http_client.BadAnswer, http_answer(b"x" * ((1 << 20) + 1))),
                "the answer is longer than 1 MiB")
            self.assertEqual(len(self.get(http_answer(b"x" * (1 << 20)))), 1 << 20)

    def test_proxy_in_the_environment_is_not_asked(self):
        with mock.patch.dict(os.environ, {"http_proxy": f"http://{unused_address()}"}):
            self.assertEqual(self.get(http_answer(b"{}")), b"{}")

    def test_redirect_is_not_followed(self):
        self.assertEqual(
            self.error_of(http_client.BadAnswer,
                          b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"),
            "got 302 for /status.json, expected 200")

    def test_nobody_listens_is_unreachable(self):
        with self.assertRaisesRegex(http_client.Unreachable, "^connection refused$"):
            http_client.get(unused_address(), PATH, LONG)

    def test_unknown_host_is_unreachable(self):
        for host in ("nobody.invalid", "x" * 70 + ".invalid"):
            with self.assertRaisesRegex(http_client.Unreachable, "^couldn't resolve host name$"):
                http_client.get(f"{host}:80", PATH, LONG)

    def test_closed_without_answer_by_a_server_that_ends_is_unreachable(self):
        """Its port is closed, too."""
        self.assertEqual(self.error_of(http_client.Unreachable, b""), "connection refused")

    def test_closed_without_answer_twice_is_no_http(self):
        with ScriptedServer(b"", b"", b"") as server:
            with self.assertRaisesRegex(http_client.BadAnswer, "^the answer is not HTTP$"):
                http_client.get(server.address, PATH, LONG)
        self.assertEqual(len(server.requests), 2)

    def test_other_protocol_is_no_http(self):
        self.assertEqual(self.error_of(http_client.BadAnswer, b"220 mail.example ESMTP\r\n\r\n"),
                         "the answer is not HTTP")

    def test_no_answer_is_too_slow(self):
        self.assertEqual(
            self.error_of(http_client.TooSlow, b"", seconds=SHORT, stays_open=True),
            "no whole answer within 0.2s")

    def test_connection_that_is_not_made_is_too_slow(self):
        def connect(*_):
            time.sleep(10 * SHORT)  # as to a host that swallows packets, or that answers no TLS
            raise OSError(errno.ETIMEDOUT, "timed out")
        with mock.patch.object(http_client, "connect", connect):
            with self.assertRaisesRegex(http_client.TooSlow, "^no whole answer within 0.2s$"):
                http_client.get(unused_address(), PATH, SHORT)

    def test_body_that_stops_is_too_slow(self):
        self.error_of(http_client.TooSlow, http_answer(b"0123456789")[:-4], seconds=SHORT,
                      stays_open=True)

    def test_body_that_ends_early_says_how_far_it_came(self):
        self.assertEqual(
            self.error_of(http_client.BadAnswer, http_answer(b"0123456789")[:-4]),
            "the answer ended after 6 of 10 bytes")

    def test_other_code_is_named(self):
        self.assertEqual(self.error_of(http_client.BadAnswer, http_answer(b"no", 404)),
                         "got 404 for /status.json, expected 200")


class Tls(unittest.TestCase):
    """Servers on 127.0.0.1 with certificates of two CAs."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name in ("ours", "others"):
            subprocess.run([SOURCES / "deploy/make-certificates", "--out", cls.folder / name, "127.0.0.1"],
                           check=True, stdout=subprocess.DEVNULL)

    def files(self, name):
        return {"cert": str(self.folder / name / "127.0.0.1.pem"),
                "key": str(self.folder / name / "127.0.0.1.key"), "ca": str(self.folder / name / "ca.pem")}

    def get_from(self, serve):
        """Asks a server, whose connections `serve` gets, with our certificate."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def accept():
                connection, _ = listener.accept()
                with connection:
                    serve(connection)
            thread = threading.Thread(target=accept)
            thread.start()
            try:
                return http_client.get("127.0.0.1:%d" % listener.getsockname()[1], PATH, LONG,
                                       context=http_client.tls_context(**self.files("ours")))
            finally:
                thread.join()

    def serve_as(self, name):
        """Answers with that certificate to a client whose certificate our CA has signed."""
        def serve(connection):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.files(name)["cert"], self.files(name)["key"])
            context.load_verify_locations(self.files("ours")["ca"])
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(65536)
                    secure.sendall(http_answer(b"{}"))
            except OSError:
                pass  # the client does not trust it
        return serve

    def test_both_ends_show_their_certificates(self):
        self.assertEqual(self.get_from(self.serve_as("ours")), b"{}")

    def test_why_there_is_no_tls_is_named(self):
        def answer_plainly(connection):
            connection.recv(65536)
            connection.sendall(http_answer(b"{}"))
        for serve, expected in (
                (self.serve_as("others"), "its certificate is not trusted: .*certificate"),
                (answer_plainly, "it does not speak TLS$"),
                (lambda connection: connection.recv(65536), "it closed the connection, so perhaps it ")):
            with self.assertRaisesRegex(http_client.NoTls, f"^{expected}"):
                self.get_from(serve)

    def test_other_errors_have_the_words_of_the_library(self):
        error = ssl.SSLError(1, "x")
        error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        self.assertEqual(http_client.words_of(error),
                         "no TLS connection: tlsv13 alert certificate required")


if __name__ == "__main__":
    unittest.main()
