"""cli/status/status.py, as the program that `gradwire status` becomes."""
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.runs.failure import Failure
from cli.status import http_client, status
from sample import body_of, running
from scripted_server import ScriptedServer, http_answer, unused_address

SCRIPT = SOURCES / "cli" / "status" / "status.py"


def answer(**changes):
    return http_answer(body_of(running(**changes)))


def command(address, watch=False, as_json=False, token_file=""):
    data = {"coordinator": address, "watch": watch, "json": as_json, "token_file": token_file,
            "tls": None}
    return ["/usr/bin/python3", "-B", str(SCRIPT), json.dumps(data)]


class Status(unittest.TestCase):
    def status(self, *answers, **options):
        with ScriptedServer(*answers) as server:
            self.address = server.address
            return subprocess.run(command(server.address, **options), capture_output=True,
                                  text=True, timeout=60, check=False)

    def test_running_coordinator_is_shown(self):
        shown = self.status(answer())
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertTrue(shown.stdout.startswith("run 0123456789ab: running"), shown.stdout)

    def test_token_goes_with_each_request(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "token")
            file.write_text("a-secret-of-some-length\n")
            with ScriptedServer(answer(), answer(state="finished")) as server:
                subprocess.run(command(server.address, watch=True, token_file=str(file)),
                               capture_output=True, timeout=60, check=True)
        for request in server.requests:
            self.assertIn("Authorization: Bearer a-secret-of-some-length\r\n", request)
        self.assertEqual(len(server.requests), 2)

    def test_coordinator_that_asks_for_a_token_is_wrong_usage(self):
        shown = self.status(http_answer(b"", 401))
        self.assertEqual(shown.returncode, 2)
        self.assertEqual(shown.stderr, f"gradwire status: the coordinator at {self.address} does not "
                         "answer: it asks for a token (--token-file)\n")

    def test_json_is_what_came(self):
        self.assertEqual(self.status(http_answer(b" " + body_of(running())), as_json=True).stdout,
                         " " + body_of(running()).decode())

    def test_watched_json_is_a_line_for_each_answer(self):
        shown = self.status(http_answer(json.dumps(running(), indent=1).encode()),
                            answer(state="finished"), watch=True, as_json=True)
        self.assertEqual(shown.stdout, body_of(running()).decode() +
                         body_of(running(state="finished")).decode())

    def test_json_that_would_move_a_terminal_is_escaped(self):
        shown = self.status(answer(reason="\x9b2J\x7f"), as_json=True)
        self.assertIn(r"\u009b2J\u007f", shown.stdout)
        self.assertEqual(json.loads(shown.stdout), running(reason="\x9b2J\x7f"))

    def test_watch_shows_each_answer_until_the_end(self):
        shown = self.status(answer(), answer(step=18), answer(state="finished"), watch=True)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("step 17 of 20", shown.stdout)
        self.assertIn("\n\nrun 0123456789ab: running", shown.stdout)
        self.assertIn("step 18 of 20", shown.stdout)
        self.assertIn("\n\nrun 0123456789ab: finished", shown.stdout)

    def test_watch_and_coordinator_gone_says_where_it_was(self):
        shown = self.status(answer(), watch=True)
        self.assertEqual(shown.returncode, 0)
        self.assertEqual(shown.stderr,
                         f"gradwire status: {self.address} does not answer any more: its run is "
                         "over (last seen: step 17 of 20); the coordinator's log says how it "
                         "ended\n")

    def test_watch_and_coordinator_that_ends_while_it_is_asked_says_where_it_was(self):
        shown = self.status(answer(), b"", watch=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("does not answer any more: its run is over (last seen: step 17 of 20)",
                      shown.stderr)

    def test_watch_and_another_program_comes_fails(self):
        self.assertEqual(self.status(answer(), http_answer(b"{}"), watch=True).returncode, 1)

    def test_nobody_there_is_try_again(self):
        address = unused_address()
        shown = subprocess.run(command(address), capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 75)
        self.assertEqual(shown.stderr, "gradwire status: cannot reach a coordinator's --metrics at "
                                       f"{address}: connection refused\n")

    def test_other_program_fails(self):
        shown = self.status(http_answer(b"hello"))
        self.assertEqual(shown.returncode, 1)
        self.assertEqual(shown.stderr, f"gradwire status: {self.address} is no coordinator's "
                                       "--metrics address: its answer is no JSON\n")

    def test_missing_page_fails_with_its_code(self):
        shown = self.status(http_answer(b"", 404))
        self.assertEqual(shown.returncode, 1)
        self.assertIn("got 404 for /status.json, expected 200", shown.stderr)

    def test_stdout_that_is_full_fails(self):
        with ScriptedServer(answer()) as server, open("/dev/full", "wb") as full:
            shown = subprocess.run(command(server.address), stdout=full, stderr=subprocess.PIPE,
                                   text=True, check=False)
        self.assertEqual(shown.returncode, 1)
        self.assertEqual(shown.stderr,
                         "gradwire status: cannot write to stdout: no space left on device\n")


class Ask(unittest.TestCase):
    def failure_of(self, error):
        with mock.patch.object(http_client, "get", side_effect=error), \
                self.assertRaises(Failure) as raised:
            status.ask("h:1")
        return raised.exception

    def test_coordinator_that_is_slow_is_try_again_but_not_gone(self):
        """A watcher would else say that the run is over."""
        slow = self.failure_of(http_client.TooSlow("no whole answer within 5s"))
        self.assertEqual((type(slow), slow.exit_code, str(slow)), (
            Failure, 75, "cannot reach a coordinator's --metrics at h:1: no whole answer within 5s"))
        gone = self.failure_of(http_client.Unreachable("connection refused"))
        self.assertEqual((type(gone), gone.exit_code), (status.Unreachable, 75))

    def follow(self, *answers):
        """Watches; returns what is shown, and what is said."""
        texts, said = [], []
        asked = [(body_of(one).decode(), one) if isinstance(one, dict) else one for one in answers]
        with mock.patch.object(status, "ask", side_effect=asked) as ask, \
                mock.patch.object(status, "show", texts.append), \
                mock.patch.object(status, "say", lambda _, text: said.append(text)), \
                mock.patch.object(status.time, "sleep") as sleep:
            self.assertEqual(status.follow({"coordinator": "h:1", "watch": True, "json": True,
                                            "token_file": "", "tls": None}, None), 0)
        self.assertEqual(ask.call_count, len(answers))
        self.assertEqual(sleep.call_args_list, [mock.call(1)] * (len(answers) - 1))
        return texts, said

    def test_watcher_of_a_coordinator_that_is_gone_says_what_it_saw_last(self):
        texts, (said,) = self.follow(running(), running(step=18), running(step=19),
                                     status.Unreachable("gone"))
        self.assertEqual([json.loads(text)["step"] for text in texts], [17, 18, 19])
        self.assertIn("(last seen: step 19 of 20)", said)

    def test_watcher_of_a_run_that_is_over_does_not_ask_again(self):
        for state in ("finished", "aborted"):
            texts, said = self.follow(running(), running(state="paused"), running(state=state))
            self.assertEqual((len(texts), said), (3, []))
            texts, said = self.follow(running(state=state))
            self.assertEqual((len(texts), said), (1, []))

    def test_certificates_that_are_of_no_use_are_named(self):
        files = {"cert": "/no/c.pem", "key": "/no/k.key", "ca": "/no/ca.pem"}
        with self.assertRaises(Failure) as raised:
            status.context_of(files)
        self.assertEqual((str(raised.exception), raised.exception.exit_code), (
            "--tls-cert, --tls-key, --tls-ca: cannot use /no/c.pem, /no/k.key, /no/ca.pem: "
            "No such file or directory", 2))


class Terminal(unittest.TestCase):
    """`--watch` on a terminal of 5 lines of 30 characters."""

    def shown(self, *answers):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
        with ScriptedServer(*answers) as server, open(ours, "rb", buffering=0) as screen:
            subprocess.run(command(server.address, watch=True), stdout=theirs, timeout=60,
                           check=True)
            os.close(theirs)
            text = b""
            try:
                while piece := screen.read(4096):
                    text += piece
            except OSError:  # the other side is closed
                pass
        return text.decode().replace("\r\n", "\n")

    def test_each_answer_is_drawn_over_the_one_before_and_cut_to_the_screen(self):
        text = self.shown(answer(), answer(state="finished"))
        self.assertEqual(text, "\x1b[2J\x1b[H"
                               "run 0123456789ab: running, 2 o\x1b[K\n"
                               "model vgg11, dataset cifar10, \x1b[K\n"
                               "step 17 of 20, 400.0 ms an ite\x1b[K\n"
                               "... 9 more lines\x1b[K\n\x1b[J"
                               "\x1b[H"
                               "run 0123456789ab: finished, 2 \x1b[K\n"
                               "model vgg11, dataset cifar10, \x1b[K\n"
                               "step 17 of 20, 400.0 ms an ite\x1b[K\n"
                               "... 9 more lines\x1b[K\n\x1b[J")


if __name__ == "__main__":
    unittest.main()
