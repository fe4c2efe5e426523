"""Calls without the run's token, or with another one, beside a run that has it."""
import pathlib
import subprocess
import unittest
import urllib.error

import strangers
from http2 import Connection

SESSION = "/gradwire.v1.Membership/Session"
STATUS = "/gradwire.v1.Status/Get"
SET = "/gradwire.v1.Rendezvous/Set"
GATHER = "/gradwire.v1.Aggregation/Gather"
NEIGHBOR = "/gradwire.v1.Neighbor/Stream"
HEALTH = "/grpc.health.v1.Health/Check"
UNAUTHENTICATED = "16"
RIGHT, WRONG = "the-token-of-this-run", "the-token-of-another"


class TokenTest(strangers.StrangersTest):
    def file_with(self, token):
        file = self.folder / token
        file.write_text(token + "\n")
        file.chmod(0o600)
        return file

    def guarded(self, world_size, *options):
        return self.coordinator(world_size, "--token-file", self.file_with(RIGHT), *options)

    def member(self, coordinator, rank, *options, token=RIGHT):
        return self.worker(coordinator, rank, "--token-file", self.file_with(token), *options)

    def assert_refused(self, address, path, token=None):
        """At once, and with a sentence."""
        with Connection(address) as stranger:
            stream = stranger.open(path, [("gradwire-token", token)] if token else [])
            self.assertTrue(stranger.ended(stream, 5), path)
            self.assertIn(b"token", stranger.trailers[stream])
            self.assertEqual(stranger.status(stream), UNAUTHENTICATED, path)

    def test_coordinator_refuses_all_calls(self):
        coordinator = self.guarded(2)
        threads = strangers.status_of(coordinator.pid, "Threads")
        for path in (SESSION, STATUS, SET, GATHER, HEALTH):
            for token in (None, WRONG, RIGHT[:-1]):
                self.assert_refused(coordinator.address, path, token)
        self.assertLessEqual(strangers.status_of(coordinator.pid, "Threads"), threads + 2)
        workers = [self.member(coordinator, rank, "--iterations", "3") for rank in range(2)]
        self.assert_done([*workers, coordinator])

    def test_workers_refuse_all_calls_beside_a_run(self):
        for backend, path in (("sharded", GATHER), ("ring", NEIGHBOR)):
            with self.subTest(backend):
                coordinator = self.guarded(2)
                workers = [self.member(coordinator, rank, "--sync", "all-reduce", "--backend", backend,
                                       "--iterations", "300") for rank in range(2)]
                coordinator.wait_for_step(1)
                address = coordinator.status()["ranks"][0]["address"]
                for token in (None, WRONG):
                    self.assert_refused(address, path, token)
                    self.assert_refused(address, STATUS, token)
                self.assert_done([*workers, coordinator])

    def test_worker_with_another_token_is_told_and_the_run_goes_on(self):
        coordinator = self.guarded(1)
        for options, why in (([], "the call has none"),
                             (["--token-file", self.file_with(WRONG)], "is not this run's")):
            stranger = self.worker(coordinator, 0, "--iterations", "3", *options)
            self.assertEqual(stranger.wait(60), 2, stranger.text())
            self.assertIn(why, stranger.text())
            self.assertIn(f"coordinator {coordinator.address}: ", stranger.text())
        self.assert_done([self.member(coordinator, 0, "--iterations", "3"), coordinator])
        self.assertNotIn(RIGHT, coordinator.text())

    def test_file_without_a_token_is_bad_usage(self):
        empty = self.folder / "empty"
        empty.touch()
        for program in ("gradwire-coordinator", "gradwire-worker"):
            done = subprocess.run([strangers.BIN / program, "--listen", "127.0.0.1:0", "--token-file",
                                   empty], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"no token is in '{empty}': got 0 characters", done.stderr)


class LaunchTest(strangers.StrangersTest):
    def test_launch_has_a_token_that_no_list_of_processes_shows(self):
        launch = self.keep_process([strangers.BIN / "gradwire", "launch", "--workers", "2",
                                    "--port-file", self.folder / "ports", "--", *strangers.TINY,
                                    "--iterations", "400"], "launch")
        strangers.wait_for("a step", lambda: "gradwire_step 1" in strangers.get(
            f"http://{self.port('metrics')}/metrics"), 60)
        with Connection(self.port("grpc")) as stranger:
            stream = stranger.open(STATUS)
            self.assertTrue(stranger.ended(stream, 5))
            self.assertEqual(stranger.status(stream), UNAUTHENTICATED)
        token = self.token_of_a_member()
        self.assertRegex(token, "^[0-9a-f]{64}$")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                shown = (process / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            self.assertNotIn(token, shown)
        self.assert_done([launch])

    def port(self, name):
        ports = self.folder / "ports"
        lines = ports.read_text().splitlines() if ports.exists() else []
        found = [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]
        if not found:
            raise OSError("it does not listen yet")
        return found[0]

    def token_of_a_member(self):
        """In the file that its environment names."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                text = (process / "environ").read_bytes().decode(errors="replace")
                program = (process / "cmdline").read_text(errors="replace").split("\0")
            except OSError:
                continue
            variables = dict(line.partition("=")[::2] for line in text.split("\0"))
            file = variables.get("GRADWIRE_TOKEN_FILE")
            if file and str(self.folder / "ports") in program:
                self.assertEqual(pathlib.Path(file).stat().st_mode & 0o777, 0o600)
                return pathlib.Path(file).read_text()
        raise AssertionError("no program of the launch has a token")


class PagesTest(strangers.StrangersTest):
    def test_pages_ask_for_the_token_if_told_so(self):
        file = self.folder / "token"
        file.write_text(RIGHT)
        coordinator = self.coordinator(1, "--token-file", file, "--http-token", "true")
        url = f"http://{coordinator.metrics}/status.json"
        with self.assertRaises(urllib.error.HTTPError) as raised:
            strangers.get(url)
        self.assertEqual(raised.exception.code, 401)
        self.assertIn("Basic", raised.exception.headers["WWW-Authenticate"])
        for options, code in (([], 2), (["--token-file", file], 0)):
            status = subprocess.run([strangers.BIN / "gradwire", "status", coordinator.metrics,
                                     *options], capture_output=True, text=True, timeout=60,
                                    check=False)
            self.assertEqual(status.returncode, code, status.stderr)


if __name__ == "__main__":
    unittest.main()
