"""Runs with TLS, and who is not let in: no certificate, another CA's, one that has ended, one for
another name."""
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import unittest

import strangers
from http2 import PREFACE, SETTINGS, Connection, frame

SESSION = "/gradwire.v1.Membership/Session"
MAKE = strangers.SOURCE / "deploy" / "make-certificates"
HERE = "127.0.0.1,localhost"


def make(folder, *hosts, **options):
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    subprocess.run([MAKE, "--out", folder, *words, *hosts], check=True, capture_output=True)


def options_of(folder, host="127.0.0.1"):
    return ["--tls-cert", folder / f"{host}.pem", "--tls-key", folder / f"{host}.key",
            "--tls-ca", folder / "ca.pem"]


class Certificates(strangers.StrangersTest):
    """Makes `ours`, with certificates of this machine and "elsewhere", and one that has ended, and
    `others`, of another CA."""

    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.ours, cls.others = pathlib.Path(made.name, "ours"), pathlib.Path(made.name, "others")
        make(cls.ours, HERE, "elsewhere")
        make(cls.others, HERE)
        request = cls.ours / "ended.request"
        cls.openssl("req", "-new", "-key", cls.ours / "127.0.0.1.key", "-subj", "/CN=ended", "-out",
                    request)
        # `openssl x509` takes no days that have gone by, or not in each version.
        database = pathlib.Path(made.name, "database")
        database.touch()
        settings = pathlib.Path(made.name, "ca.cnf")
        settings.write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={database}\nrand_serial=yes\n"
                            "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        cls.openssl("ca", "-batch", "-config", settings, "-in", request, "-notext", "-cert",
                    cls.ours / "ca.pem", "-keyfile", cls.ours / "ca.key", "-outdir", made.name,
                    "-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-out",
                    cls.ours / "ended.pem")
        database.write_text("")  # it takes a name once
        cls.openssl("ca", "-batch", "-config", settings, "-in", request, "-notext", "-cert",
                    cls.ours / "ca.pem", "-keyfile", cls.ours / "ca.key", "-outdir", made.name,
                    "-startdate", "20980101000000Z", "-enddate", "20990101000000Z", "-out",
                    cls.ours / "future.pem")

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def guarded(self, world_size, *options, **more):
        return self.coordinator(world_size, *options_of(self.ours), *options,
                                **{"context": self.own_context(), **more})

    def member(self, coordinator, rank, *options):
        return self.worker(coordinator, rank, *options_of(self.ours), *options)

    def own_context(self):
        return self.context(self.ours / "127.0.0.1.pem", self.ours / "127.0.0.1.key")

    def context(self, certificate=None, key=None):
        """Of a client that believes the server."""
        context = ssl.create_default_context(cafile=self.ours / "ca.pem")
        context.set_alpn_protocols(["h2"])
        if certificate:
            context.load_cert_chain(certificate, key)
        return context

    def strange_contexts(self):
        """Of those who are not to be let in."""
        ours, others = self.ours, self.others
        return {"plain": None, "no certificate": self.context(),
                "another CA": self.context(others / "127.0.0.1.pem", others / "127.0.0.1.key"),
                "ended": self.context(ours / "ended.pem", ours / "127.0.0.1.key")}


class TlsTest(Certificates):
    def answers(self, address, context):
        """Whether somebody who begins as gRPC does gets a word of HTTP/2."""
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10) as connection:
            try:
                if context:
                    connection = context.wrap_socket(connection, server_hostname=host)
                connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
                head = connection.recv(9)
            except OSError:
                return False
            finally:
                connection.close()
        return len(head) > 3 and head[3] == SETTINGS

    def assert_only_ours(self, address):
        self.assertTrue(self.answers(address, self.own_context()))
        for name, context in self.strange_contexts().items():
            self.assertFalse(self.answers(address, context), name)

    def test_run_with_each_back_end_and_strangers_beside_it(self):
        for backend in ("coordinator", "sharded", "ring"):
            with self.subTest(backend):
                coordinator = self.guarded(2)
                workers = [self.member(coordinator, rank, "--sync", "all-reduce", "--backend", backend,
                                       "--iterations", "300") for rank in range(2)]
                coordinator.wait_for_step(1)
                self.assert_only_ours(coordinator.address)
                self.assert_only_ours(coordinator.status()["ranks"][0]["address"])
                self.assert_done([*workers, coordinator])

    def assert_no_connection(self, worker, why):
        self.assertEqual(worker.wait(60), 75, worker.text())
        self.assertIn("no TLS connection", worker.text())
        self.assertRegex(worker.text(), why)

    def test_worker_of_another_ca_gets_no_connection_and_says_why(self):
        coordinator = self.guarded(1)
        stranger = self.worker(coordinator, 0, *options_of(self.others), "--connect-timeout-seconds",
                               "1", "--iterations", "3")
        self.assert_no_connection(stranger, "(?i)certificate|handshake")
        self.assert_done([self.member(coordinator, 0, "--iterations", "3"), coordinator])

    def test_worker_does_not_believe_a_coordinator_with_another_name(self):
        coordinator = self.coordinator(1, *options_of(self.ours, "elsewhere"), "--plain-http", "true")
        worker = self.member(coordinator, 0, "--connect-timeout-seconds", "1", "--iterations", "3")
        self.assert_no_connection(worker, "(?i)hostname|verif|name")
        self.assertEqual(coordinator.status()["ranks"], [])

    def test_nobody_joins_at_the_address_of_another_host(self):
        coordinator = self.guarded(1)
        stranger = self.worker(coordinator, 0, *options_of(self.ours, "elsewhere"), "--iterations", "3")
        self.assertEqual(stranger.wait(60), 2, stranger.text())
        self.assertIn("but the caller's certificate is for elsewhere; expected an address in that "
                      "certificate (--advertise)", stranger.text())
        self.assert_done([self.member(coordinator, 0, "--iterations", "3"), coordinator])

    def test_host_may_be_named_in_capitals(self):
        coordinator = self.guarded(1)
        worker = self.worker(coordinator, 0, *options_of(self.ours, "elsewhere"), "--advertise", "ELSEWHERE",
                             "--iterations", "3")
        self.assert_done([worker, coordinator])

    def test_member_with_a_second_hello_from_another_host_is_lost_and_the_coordinator_lives(self):
        coordinator = self.guarded(1, "--lease-seconds", "30")
        member = self.keep(Connection(coordinator.address, context=self.own_context()))
        stream = member.open(SESSION)
        member.send(stream, strangers.hello(77))
        self.assertTrue(member.wait(20, lambda: member.received > 0), "no View came")
        member.send(stream, strangers.hello(77, "elsewhere:1", message=1))
        self.assertEqual(coordinator.wait(20), 1, coordinator.text())
        self.assertIn("it broke the protocol: a second Hello", coordinator.text())

    def test_new_certificates_are_taken_without_a_restart(self):
        folder = self.folder / "short"
        make(folder, HERE)
        coordinator = self.coordinator(1, *options_of(folder))
        for address in (coordinator.address, coordinator.metrics):
            before = self.serial(address, folder)
            make(folder, HERE)
            strangers.wait_for("the new certificate",
                               lambda: self.serial(address, folder) != before, 15)
        worker = self.worker(coordinator, 0, *options_of(folder), "--iterations", "3")
        self.assert_done([worker, coordinator])

    def test_new_ca_alone_is_taken_by_the_pages(self):
        folder = self.folder / "two-cas"
        make(folder, HERE)
        coordinator = self.coordinator(1, *options_of(folder))
        self.assertFalse(self.accepts(coordinator.metrics, folder, self.others))
        ours = (folder / "ca.pem").read_text()
        (folder / "ca.pem").write_text(ours + (self.others / "ca.pem").read_text())
        strangers.wait_for("the new CA", lambda: self.accepts(coordinator.metrics, folder, self.others),
                           15)
        self.assert_done([self.worker(coordinator, 0, *options_of(folder), "--iterations", "3"),
                          coordinator])

    @staticmethod
    def accepts(address, folder, others):
        """Whether a client with a certificate of `others` gets an answer."""
        host, port = address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(others / "127.0.0.1.pem", others / "127.0.0.1.key")
        with socket.create_connection((host, int(port)), 10) as connection:
            try:
                with context.wrap_socket(connection, server_hostname=host) as encrypted:
                    encrypted.sendall(b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
                    return encrypted.recv(8).startswith(b"HTTP/1.1")
            except OSError:  # ssl.SSLError, too
                return False

    @staticmethod
    def serial(address, folder):
        host, port = address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / "127.0.0.1.pem", folder / "127.0.0.1.key")
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((host, int(port)), 10) as connection:
            with context.wrap_socket(connection, server_hostname=host) as encrypted:
                return encrypted.getpeercert()["serialNumber"]

    def test_launch_hands_them_to_all(self):
        launch = self.keep_process(
            [strangers.BIN / "gradwire", "launch", "--workers", "2", *options_of(self.ours), "--",
             *strangers.TINY, "--iterations", "3"], "launch")
        self.assert_done([launch])

    def refused(self, *options):
        done = subprocess.run([strangers.BIN / "gradwire-worker", *options], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_what_cannot_be_is_bad_usage(self):
        all_three = options_of(self.ours)
        ended = ["--tls-cert", self.ours / "ended.pem", *all_three[2:]]
        future = ["--tls-cert", self.ours / "future.pem", *all_three[2:]]
        of_another = [*all_three[:2], "--tls-key", self.others / "127.0.0.1.key", *all_three[4:]]
        for options, why in (
                ([*all_three, "--backend", "gloo"], "got back end gloo, whose connections cannot"),
                (all_three[:2], "--tls-key: got none, expected --tls-cert, --tls-key and --tls-ca"),
                ([*all_three[:5], os.devnull], "--tls-ca: cannot use"),
                ([*all_three[:5], self.folder / "no"], "--tls-ca: cannot read"),
                (of_another, "--tls-key: cannot use"), (ended, "has expired, by this host's clock"),
                (future, "is not valid yet, by this host's clock"),
                (["--metrics", "8.8.8.8:9400"], "--metrics: got 8.8.8.8:9400: any host could reach")):
            self.assertIn(why, self.refused(*options))


if __name__ == "__main__":
    unittest.main()
