"""The HTTP port with TLS: who is let in, and who holds up nobody."""
import os
import socket
import ssl
import subprocess
import time
import unittest
import warnings

import strangers
from tls_test import Certificates, options_of

# ClientHello without its end: a record that says it has more bytes than come.
HALF_GREETING = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


class HttpsTest(Certificates):
    def connect(self, address):
        host, port = address.rsplit(":", 1)
        return self.keep(socket.create_connection((host, int(port)), 5))

    def healthz(self, coordinator):
        """Seconds that it takes."""
        begin = time.monotonic()
        self.assertEqual(coordinator.get("/healthz", 30), "alive\n")
        return time.monotonic() - begin

    def status(self, address, *options):
        return subprocess.run([strangers.BIN / "gradwire", "status", address, *options],
                              capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": os.environ["PATH"]})

    def answer(self, address, context):
        """What comes of a request; "" if there is no TLS, or none for who has this context."""
        connection = self.connect(address)
        request = f"GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
        try:
            if context:
                connection = self.keep(context.wrap_socket(connection, server_hostname="127.0.0.1"))
            connection.sendall(request)
            return connection.recv(4096).decode(errors="replace")
        except OSError:
            return ""

    def test_only_who_has_a_certificate_of_the_ca_is_answered(self):
        coordinator = self.guarded(1)
        self.member(coordinator, 0, "--iterations", "1000000", "--metrics", "127.0.0.1:0", "--sync",
                    "all-reduce")
        coordinator.wait_for_step(1)
        of_worker = coordinator.status()["ranks"][0]["metrics"]
        for address in (coordinator.metrics, of_worker):
            self.assertIn(" 200 ", self.answer(address, self.own_context()))
            for name, context in self.strange_contexts().items():
                self.assertNotIn(" 200 ", self.answer(address, context), name)
        self.assertEqual(coordinator.status()["state"], "running")

    def test_half_greetings_do_not_hold_up_others(self):
        coordinator = self.guarded(1)
        for number in range(200):
            self.connect(coordinator.metrics).sendall(HALF_GREETING if number % 2 else b"")
        times = sorted(self.healthz(coordinator) for _ in range(21))
        print(f"\n/healthz over HTTPS beside 200 half greetings: {times[10]:.3f} s in the median, "
              f"{times[-1]:.3f} s at most")
        self.assertLess(times[10], 0.1)
        self.assertLess(strangers.status_of(coordinator.pid, "Threads"), 40)

    def test_greeting_that_is_never_finished_is_ended(self):
        coordinator = self.guarded(1)
        connection = self.connect(coordinator.metrics)
        connection.sendall(HALF_GREETING)
        connection.settimeout(30)
        while connection.recv(4096):
            pass

    def test_long_answer_is_whole_and_a_reader_that_goes_ends_nobody(self):
        coordinator = self.guarded(1)
        for _ in range(5):
            context = self.own_context()
            connection = context.wrap_socket(self.connect(coordinator.metrics),
                                             server_hostname="127.0.0.1")
            connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: {coordinator.metrics}\r\n\r\n".encode())
            connection.close()
        self.assertIn("gradwire_", coordinator.get("/metrics"))
        script = strangers.SOURCE / "coordinator" / "web" / "charts.js"
        self.assertEqual(coordinator.get("/assets/charts.js"), script.read_text())

    def test_status_shows_its_certificate_and_says_what_is_wrong(self):
        coordinator = self.guarded(1)
        shown = self.status(coordinator.metrics, *options_of(self.ours))
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("0 of 1 ranks", shown.stdout)
        of_others = self.status(coordinator.metrics, *options_of(self.others))
        self.assertEqual(of_others.returncode, 2)
        self.assertIn("its certificate is not trusted", of_others.stderr)
        self.assertEqual(self.status(coordinator.metrics).returncode, 1)

    def test_status_does_not_believe_a_certificate_of_another_name(self):
        coordinator = self.coordinator(1, *options_of(self.ours, "elsewhere"))
        shown = self.status(coordinator.metrics, *options_of(self.ours))
        self.assertEqual(shown.returncode, 2)
        self.assertRegex(shown.stderr, "(?i)is not trusted: .*(mismatch|name|address)")

    def test_plain_http_is_there_where_it_is_asked_for(self):
        coordinator = self.guarded(1, "--plain-http", "true", context=None)
        self.assertEqual(coordinator.get("/healthz"), "alive\n")
        shown = self.status(coordinator.metrics, *options_of(self.ours), "--plain-http")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        shown = self.status(coordinator.metrics, *options_of(self.ours))
        self.assertEqual(shown.returncode, 2)
        self.assertRegex(shown.stderr, r"does not speak TLS \(--tls-cert, .*; --plain-http\)")

    def test_old_versions_of_tls_are_refused(self):
        coordinator = self.guarded(1)
        context = self.own_context()
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.assertIn(" 200 ", self.answer(coordinator.metrics, context))
        with warnings.catch_warnings(action="ignore"):  # Python finds them old as well
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        self.assertEqual(self.answer(coordinator.metrics, context), "")


if __name__ == "__main__":
    unittest.main()
