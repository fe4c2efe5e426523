"""deploy/observe: what it says when it cannot start, and how it ends."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest

from support import DEPLOY, Process, free_port, get, wait_for


def observe(*arguments, environment=None):
    return subprocess.run([DEPLOY / "observe", *arguments], text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, env=environment, timeout=30, check=False)


class Refuses(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_fails(self, result, code, message):
        sentence, _, usage = result.stderr.strip().partition("\n")
        self.assertEqual((result.returncode, sentence, result.stdout), (code, message, ""))
        # Of all options, where the arguments were wrong.
        self.assertEqual("Usage:\n  deploy/observe [--coordinator" in usage, code == 2, usage)

    def test_an_unknown_option(self):
        self.assert_fails(observe("--prot", "9490"), 2,
                          "observe: unknown option --prot")

    def test_an_option_without_its_value(self):
        self.assert_fails(observe("--port"), 2, "observe: --port wants a value")

    def test_values_of_another_form(self):
        for option, value, expected in (("--coordinator", "localhost", "HOST:PORT"),
                                        ("--port", "0", "a port"),
                                        ("--data-dir", "", "a folder"),
                                        ("--scrape-interval", "5", "a duration such as 5s"),
                                        ("--alertmanager", "h:p", "HOST:PORT")):
            with self.subTest(option):
                self.assert_fails(observe(f"{option}={value}"), 2,
                                  f"observe: {option}: got '{value}', expected {expected}")

    def test_values_that_are_not_given_are_those_of_the_help(self):
        script = (DEPLOY / "observe").read_text()
        for option, name in (("coordinator HOST:PORT", "coordinator"), ("port P", "port"),
                             ("scrape-interval DURATION", "interval")):
            told = re.search(rf"--{option}\] .*\[(.*)\]\n", script)[1]
            self.assertRegex(script, rf"\n(coordinator=.* )?{name}={told} ")

    def test_a_host_without_prometheus(self):
        for tool in ("bash", "dirname", "env"):
            path = next(pathlib.Path(folder, tool) for folder in os.environ["PATH"].split(":")
                        if pathlib.Path(folder, tool).exists())
            (self.folder / tool).symlink_to(path)
        self.assert_fails(observe(environment={"PATH": str(self.folder)}), 1,
                          "observe: prometheus is missing; install Debian's package prometheus "
                          "(deploy/install-packages observe)")

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assert_fails(observe("--port", str(port), "--data-dir", str(self.folder)), 1,
                              f"observe: port {port} is in use; give another --port")

    def test_a_data_dir_that_cannot_be_written(self):
        (self.folder / "file").touch()
        data = self.folder / "file" / "data"
        self.assert_fails(observe("--port", str(free_port()), "--data-dir", str(data)), 1,
                          f"observe: cannot write to {data}; give another --data-dir")

    def test_data_that_prometheus_cannot_read(self):
        (self.folder / "data").mkdir()
        (self.folder / "data" / "wal").write_text("no folder")
        result = observe("--port", str(free_port()), "--data-dir", str(self.folder))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^observe: prometheus ended: .*wal")
        self.assertIn(f"(log: {self.folder}/prometheus.log)", result.stderr)


class Runs(unittest.TestCase):

    def test_until_ctrl_c_with_what_it_was_told(self):
        with tempfile.TemporaryDirectory() as folder:
            port, coordinator = free_port(), f"127.0.0.1:{free_port()}"
            process = Process([DEPLOY / "observe", "--port", port, "--coordinator", coordinator,
                               "--data-dir", folder, "--scrape-interval", "2s",
                               "--alertmanager", "127.0.0.1:9"], pathlib.Path(folder, "output"))
            self.addCleanup(process.end)
            wait_for("observe to start", lambda: "when it starts.\n" in process.text(), 30)
            for page in ("graph", "alerts", "targets"):
                self.assertRegex(process.text(), rf": +http://127.0.0.1:{port}/{page}\n")
            self.assertIn(f"observes the coordinator at {coordinator}, every 2s.\n", process.text())
            self.assertIn(f"Live page:  http://{coordinator}/\n", process.text())
            self.assertIn(f"Data and log are in {folder}. ", process.text())
            self.assertIn(f"No coordinator answers at http://{coordinator}/sd yet", process.text())
            configuration = get(f"http://127.0.0.1:{port}/api/v1/status/config")
            for expected in ("scrape_interval: 2s", "evaluation_interval: 2s",
                             "refresh_interval: 2s", f"url: http://{coordinator}/sd"):
                self.assertIn(expected, configuration)
            targets = pathlib.Path(folder, "configuration", "alertmanagers.json").read_text()
            self.assertEqual(targets, '[{"targets": ["127.0.0.1:9"]}]\n')
            self.assertEqual(process.end(signal.SIGINT), 0, process.text())
            self.assertIn("Prometheus has ended; its data are in", process.text())
            with self.assertRaises(OSError):
                get(f"http://127.0.0.1:{port}/-/ready")


if __name__ == "__main__":
    unittest.main()
