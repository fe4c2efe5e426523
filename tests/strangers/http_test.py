"""Requests to the HTTP port as no browser sends them."""
import socket
import time
import unittest
import urllib.error
import urllib.request

import strangers


class HttpTest(strangers.StrangersTest):
    def connect(self):
        host, port = self.coordinator_.metrics.rsplit(":", 1)
        return self.keep(socket.create_connection((host, int(port)), 5))

    def setUp(self):
        super().setUp()
        self.coordinator_ = self.coordinator(1)

    def healthz(self):
        """Seconds that it takes."""
        begin = time.monotonic()
        self.assertEqual(self.coordinator_.get("/healthz", 30), "alive\n")
        return time.monotonic() - begin

    def answer(self, request):
        connection = self.connect()
        connection.sendall(request)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received.decode()

    def test_half_sent_requests_do_not_hold_up_others(self):
        for _ in range(100):
            self.connect().sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        seconds = self.healthz()
        print(f"\n/healthz beside 100 half requests: {seconds:.3f} s")
        self.assertLess(seconds, 0.5)

    def test_slow_requests_do_not_hold_up_others(self):
        slow = [self.connect() for _ in range(300)]
        times = []
        for byte in b"GET / HTTP/1.1\r\n":
            for connection in slow:
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    pass  # it was closed
            times.append(self.healthz())
        print(f"\n/healthz beside 300 slow requests: {max(times):.3f} s at most")
        self.assertLess(sorted(times)[len(times) // 2], 0.1)

    def test_request_that_is_never_finished_is_ended(self):
        connection = self.connect()
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connection.settimeout(10)
        while connection.recv(4096):
            pass

    def test_request_that_comes_byte_by_byte_is_ended_too(self):
        connection = self.connect()
        connection.settimeout(0.5)
        begin = time.monotonic()
        ended = False
        while not ended and time.monotonic() - begin < 10:
            try:
                connection.sendall(b"G")
                ended = not connection.recv(4096)
            except TimeoutError:
                pass  # it waits for more
            except OSError:
                ended = True
        self.assertTrue(ended)

    def test_names_that_are_not_its_own_are_refused(self):
        for name in ("rebound.example.com", "rebound.example.com:9400"):
            answer = self.answer(f"GET /status.json HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            self.assertIn(" 421 ", answer.split("\r\n")[0])
        for name in ("localhost", "127.0.0.1:9400", "[::1]:9400", "10.10.1.1", "node0:9400"):
            answer = self.answer(f"GET /status.json HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            self.assertIn(" 200 ", answer.split("\r\n")[0])
            self.assertIn("X-Content-Type-Options: nosniff", answer)

    def test_nonsense_is_answered_and_closed(self):
        self.assertIn(" 400 ", self.answer(b"\x16\x03\x01\x02\x00 nonsense\r\n\r\n"))
        self.assertIn(" 431 ", self.answer(b"GET / HTTP/1.1\r\nX: " + b"x" * 40000))
        self.assertIn(" 405 ", self.answer(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"))


if __name__ == "__main__":
    unittest.main()
