"""cli/launch/supervisor.py: what becomes of the others when one program ends."""
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch.signals import Signals
from cli.launch.supervisor import Member, Supervisor
from cli.launch.terminal import ERR, OUT
from cli.runs.failure import Failure
from cli.runs.process import Command

LONG = 60
HOUR = 3600


class Recorder:
    """Stands in for a Terminal."""

    def __init__(self):
        self.broken = False
        self.lines, self.bars = [], []

    def print_line(self, fd, line):
        self.lines.append((fd, line))

    def set_bar(self, text):
        self.bars.append(text)


def shell(name, script, **more):
    return Member(name, Command(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}), **more)


class SupervisorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "file")
        self.terminal = Recorder()
        signals = self.enterContext(Signals())
        self.supervisor = self.enterContext(Supervisor(self.terminal, signals))

    def start(self, *members):
        for member in members:
            self.supervisor.start(member)

    def await_lines(self, count):
        self.assertTrue(self.supervisor.run_until(lambda: len(self.terminal.lines) == count, LONG))

    def test_lines_have_the_name_in_front_and_keep_their_stream(self):
        self.start(shell("rank 0", "echo one; echo two >&2; printf three; printf four >&2"))
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual([line for fd, line in self.terminal.lines if fd == OUT],
                         [b"[rank 0] one", b"[rank 0] three"])
        self.assertEqual([line for fd, line in self.terminal.lines if fd == ERR],
                         [b"[rank 0] two", b"[rank 0] four"])

    def test_bar_is_drawn_for_the_one_that_has_it(self):
        self.start(shell("rank 0", r"printf '10 %%\r' >&2", has_bar=True))
        self.supervisor.run()
        self.assertEqual(self.terminal.bars, [b"10 %", b""])

    def test_server_that_ended_before_the_workers_started_does_not_end_the_run(self):
        self.start(shell("server", "exit 0", serves=True))
        self.assertFalse(self.supervisor.run_until(lambda: False, LONG))
        self.start(shell("worker", "exec sleep 1000"))
        os.kill(os.getpid(), signal.SIGINT)
        self.assertEqual(self.supervisor.run(), 128 + signal.SIGINT)

    def test_nothing_runs_is_not_ready(self):
        self.assertFalse(self.supervisor.run_until(lambda: False, LONG))

    def test_not_ready_in_time(self):
        self.start(shell("worker", "exec sleep 1000"))
        self.assertFalse(self.supervisor.run_until(lambda: False, 0.02))

    def test_nothing_started_is_well(self):
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual(self.supervisor.cause, "")

    def test_first_failure_has_its_code_and_cause(self):
        self.start(shell("rank 0", "exec sleep 1000"), shell("rank 1", "exit 3"))
        self.assertEqual(self.supervisor.run(), 3)
        self.assertEqual(self.supervisor.cause, "rank 1 ended with exit code 3")

    def test_member_killed_soon_after_a_failure_is_its_cause(self):
        self.start(shell("rank 0", "sleep 0.05; kill -9 $$"), shell("rank 1", "exit 1"))
        self.assertEqual(self.supervisor.run(), 137)
        self.assertEqual(self.supervisor.cause, "rank 0 was ended by signal 9 (Killed)")

    def test_member_killed_after_fail_changes_nothing(self):
        self.start(shell("rank 0", "sleep 0.05; kill -9 $$"))
        self.supervisor.fail(75, "no address")
        self.assertEqual(self.supervisor.run(), 75)

    BEGINS = "echo now the run has begun; "

    def start_run(self, *workers, server="exec sleep 1000"):
        """A server that says at once that the run has begun, and workers that wait for that."""
        self.start(shell("server", self.BEGINS + server, serves=True, begun_by=b"has begun"))
        self.await_lines(1)
        for number, script in enumerate(workers):
            self.start(shell(f"rank {number}", script, dispensable=True))

    def test_others_go_on_without_one_that_was_lost(self):
        self.start_run("kill -9 $$", "exit 1", "sleep 0.3")
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual(self.supervisor.cause, "")
        self.assertEqual(sorted(member.name for member in self.supervisor.lost),
                         ["rank 0", "rank 1"])

    def test_lost_one_is_the_cause_if_the_run_cannot_go_on(self):
        self.start_run("kill -9 $$", "exec sleep 1000", server="sleep 0.3; exit 1")
        self.assertEqual(self.supervisor.run(), 137)
        self.assertEqual(self.supervisor.cause, "rank 0 was ended by signal 9 (Killed)")

    def test_killed_one_is_the_cause_rather_than_what_others_made_of_it(self):
        self.start_run("exit 1", "sleep 0.05; kill -9 $$", server="sleep 0.3; exit 1")
        self.assertEqual(self.supervisor.run(), 137)

    def test_all_lost_is_no_success(self):
        self.start_run("exit 1", "kill -9 $$")
        self.assertEqual(self.supervisor.run(), 137)

    def test_wrong_option_ends_all_also_in_a_run(self):
        self.start_run("exit 2", "exec sleep 1000")
        self.assertEqual(self.supervisor.run(), 2)
        self.assertEqual(self.supervisor.cause, "rank 0 ended with exit code 2")

    def test_failure_after_the_run_is_one(self):
        self.start(shell("server", "echo has begun; echo is over; exec sleep 1000", serves=True,
                         begun_by=b"has begun", over_by=b"is over"))
        self.await_lines(2)
        self.start(shell("rank 0", "exit 1", dispensable=True))
        self.assertEqual(self.supervisor.run(), 1)

    def test_lost_before_the_run_has_begun_ends_all(self):
        self.start(shell("rank 0", "kill -9 $$", dispensable=True),
                   shell("rank 1", "exec sleep 1000", dispensable=True))
        self.assertEqual(self.supervisor.run(), 137)

    def test_failure_leaves_the_others_time_to_say_why(self):
        self.start(shell("rank 0", "sleep 0.1; echo why"), shell("rank 1", "exit 3"))
        self.supervisor.run()
        self.assertEqual(self.terminal.lines, [(OUT, b"[rank 0] why")])

    def test_fail_ends_all_with_its_code(self):
        self.start(shell("worker", "exec sleep 1000"))
        self.supervisor.fail(75, "no address")
        self.assertEqual(self.supervisor.run(), 75)
        self.assertEqual(self.supervisor.cause, "no address")

    def test_no_such_program_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "^cannot start '/no/program'"):
            self.start(Member("worker", Command(["/no/program"], {})))

    def test_worker_failed_leaves_a_lingering_server_its_time(self):
        # Longer than a server that does not linger is let live.
        self.start(shell("server", f"sleep 2.5; echo done >{self.file}", serves=True, linger=HOUR),
                   shell("worker", "exit 3"))
        self.assertEqual(self.supervisor.run(), 3)
        self.assertTrue(self.file.exists())

    def test_signal_while_the_server_lingers_is_well(self):
        # The server interrupts this process as soon as the worker is no more.
        self.start(shell("server", f"until [ -s {self.file} ] && ! kill -0 $(cat {self.file}) "
                         "2>/dev/null; do sleep 0.05; done; kill -INT $PPID; exec sleep 1000",
                         serves=True, linger=HOUR),
                   shell("worker", f"echo $$ >{self.file}"))
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual(self.supervisor.cause, "")

    def test_signals_are_passed_on(self):
        for number, passed_on in ((signal.SIGINT, b"2"), (signal.SIGTERM, b"15"),
                                  (signal.SIGHUP, b"15")):
            terminal = Recorder()
            with Signals() as signals, Supervisor(terminal, signals) as supervisor:
                supervisor.start(shell("a", "for n in 1 2 15; do trap \"echo $n; exit\" $n; done; "
                                            "echo up; while :; do sleep 0.01; done"))
                self.assertTrue(supervisor.run_until(lambda: terminal.lines, LONG))
                os.kill(os.getpid(), number)
                self.assertEqual(supervisor.run(), 128 + number)
            self.assertEqual([line for fd, line in terminal.lines if fd == OUT],
                             [b"[a] up", b"[a] " + passed_on])
            self.assertEqual(supervisor.cause,
                             f"stopped by signal {int(number)} ({signal.strsignal(number)})")

    def test_second_signal_kills_at_once(self):
        self.start(shell("a", "trap 'echo first' INT; echo up; while :; do sleep 0.01; done"))
        self.await_lines(1)
        os.kill(os.getpid(), signal.SIGINT)
        self.await_that_stopped()
        start = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
        self.assertEqual(self.supervisor.run(), 128 + signal.SIGINT)
        self.assertLess(time.monotonic() - start, 1)

    def await_that_stopped(self):
        self.assertFalse(self.supervisor.run_until(lambda: False, LONG))

    def test_broken_output_stops_all(self):
        def notice(_fd, _line):
            self.terminal.broken = True
        self.terminal.print_line = notice
        self.start(shell("a", "echo up; exec sleep 1000"))
        self.assertEqual(self.supervisor.run(), 128 + signal.SIGPIPE)
        self.assertEqual(self.supervisor.cause, "stopped by signal 13 (Broken pipe)")


class SignalsTest(unittest.TestCase):
    def test_behind_with_all_is_as_before(self):
        before = signal.getsignal(signal.SIGTERM)
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            self.assertEqual(signals.take(), bytes([signal.SIGTERM]))
            self.assertEqual(signals.take(), b"")
        self.assertIs(signal.getsignal(signal.SIGTERM), before)
        self.assertEqual(signal.set_wakeup_fd(-1), -1)


if __name__ == "__main__":
    unittest.main()
