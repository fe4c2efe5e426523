"""cli/launch/supervisor.py: what becomes of the others when one program ends."""
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch import supervisor
from cli.launch.signals import Signals
from cli.launch.supervisor import Loss, Member, Supervisor
from cli.launch.terminal import ERR, OUT
from cli.runs.failure import Failure
from cli.runs.process import Command

LONG = 60
KILLED = r"rank 0 \(process \d+\) was killed by signal 9 \(Killed\)"
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


def losses_in(line):
    """Of a server that says "lost RANK,…", or "fatal" if nobody goes on without them."""
    word, _, ranks = line.partition(b" ")
    if word not in (b"lost", b"fatal"):
        return []
    return [Loss(frozenset(map(int, ranks.split(b","))), "for a reason", ends_run=word == b"fatal")]


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

    def assert_cause(self, expression):
        self.assertRegex(self.supervisor.cause, f"^{expression}$")

    def await_lines(self, count):
        self.assertTrue(self.supervisor.run_until(lambda: len(self.terminal.lines) == count, LONG))

    def test_lines_have_the_name_in_front_and_keep_their_stream(self):
        self.start(shell("rank 0", "echo one; echo two >&2; printf three; printf four >&2"))
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual([line for fd, line in self.terminal.lines if fd == OUT],
                         [b"[rank 0] one", b"[rank 0] three"])
        self.assertEqual([line for fd, line in self.terminal.lines if fd == ERR],
                         [b"[rank 0] two", b"[rank 0] four"])

    def test_lines_of_ranks_that_one_program_starts_have_their_names(self):
        def label_of(line):
            label, mark, rest = line.partition(b": ")
            return (label, rest) if mark else (b"", line)
        self.start(shell("mpirun", "echo 'rank 3: one'; echo two", label_of=label_of))
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual([line for _, line in self.terminal.lines], [b"[rank 3] one", b"[mpirun] two"])

    def test_bar_is_drawn_for_the_one_that_has_it(self):
        self.start(shell("rank 0", r"printf '10 %%\r' >&2", has_bar=True))
        self.supervisor.run()
        self.assertEqual(self.terminal.bars, [b"10 %", b""])

    def test_carriage_return_of_one_that_has_no_bar_is_a_character(self):
        self.start(shell("rank 1", r"printf 'a\rb\n' >&2"))
        self.supervisor.run()
        self.assertEqual((self.terminal.bars, self.terminal.lines), ([], [(ERR, b"[rank 1] a\rb")]))

    def test_bar_of_a_member_that_is_lost_goes_while_the_others_go_on(self):
        self.start(shell("server", "echo begun; exec sleep 1000", serves=True, begun_by=b"begun"))
        self.await_lines(1)
        self.start(shell("rank 0", r"printf '10 %%\r' >&2; kill -9 $$", has_bar=True,
                         dispensable=True), shell("rank 1", "exec sleep 1000"))
        self.assertTrue(self.supervisor.run_until(lambda: len(self.terminal.bars) == 2, LONG))
        self.assertEqual(self.terminal.bars, [b"10 %", b""])
        self.assertTrue(self.supervisor.running())
        os.kill(os.getpid(), signal.SIGINT)
        self.supervisor.run()

    def test_bar_of_a_lost_member_that_still_exists_goes(self):
        self.start(shell("rank 0", r"printf '10 %%\r' >&2; exec sleep 1000", has_bar=True,
                         ranks=frozenset([0])))
        self.assertTrue(self.supervisor.run_until(lambda: self.terminal.bars, LONG))
        self.start(shell("server", "echo lost 0; exec sleep 1000", serves=True,
                         losses_in=losses_in))
        self.await_lines(1)
        self.assertEqual(self.terminal.bars, [b"10 %", b""])
        os.kill(os.getpid(), signal.SIGINT)
        self.supervisor.run()

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
        self.assert_cause(r"rank 1 \(process \d+\) ended with exit code 3")

    def test_member_killed_soon_after_a_failure_is_its_cause(self):
        self.start(shell("rank 0", "sleep 0.05; kill -9 $$"), shell("rank 1", "exit 1"))
        self.assertEqual(self.supervisor.run(), 137)
        self.assert_cause(KILLED)

    def test_signal_that_a_member_turned_into_an_exit_code_is_one(self):
        self.start(shell("rank 0", "sleep 0.05; exit 143"), shell("rank 1", "exit 3"))
        self.assertEqual(self.supervisor.run(), 143)

    def test_member_killed_after_fail_changes_nothing(self):
        self.start(shell("rank 0", "sleep 0.05; kill -9 $$"))
        self.supervisor.fail(75, "no address")
        self.assertEqual(self.supervisor.run(), 75)

    BEGINS = "echo now the run has begun; "

    def start_run(self, *workers, server="exec sleep 1000", **more):
        """A server that says at once that the run has begun, workers that wait for that, and then
        the rest of the server's script."""
        go = self.file.with_name("go")
        waiting = f"until [ -e {go} ]; do sleep 0.02; done; "
        self.start(shell("server", self.BEGINS + waiting + server, serves=True,
                         begun_by=b"has begun", over_by=b"is over", losses_in=losses_in))
        self.await_lines(1)
        for number, script in enumerate(workers):
            self.start(shell(f"rank {number}", script, **{
                "dispensable": True, "ranks": frozenset([number]), "ends_with_run": True, **more}))
        go.touch()

    def test_others_go_on_without_one_that_was_lost(self):
        self.start_run("kill -9 $$", "exit 1", "sleep 0.3")
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual(self.supervisor.cause, "")
        self.assertEqual(sorted(member.name for member in self.supervisor.lost),
                         ["rank 0", "rank 1"])

    def test_run_that_has_begun_goes_on_also_after_further_lines(self):
        lost = "until [ -e %s ]; do sleep 0.02; done; kill -9 $$" % self.file
        self.start_run(lost, "sleep 0.4", server=f"echo more; touch {self.file}")
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual([member.name for member in self.supervisor.lost], ["rank 0"])

    def test_worker_that_says_something_has_not_begun_the_run(self):
        self.start(shell("server", "exec sleep 1000", serves=True, begun_by=b"has begun"),
                   shell("rank 0", "echo hello; kill -9 $$", dispensable=True, ranks=frozenset([0])),
                   shell("rank 1", "exec sleep 1000", dispensable=True, ranks=frozenset([1])))
        self.assertEqual(self.supervisor.run(), 137)
        self.assert_cause(KILLED)

    def test_lost_one_is_the_cause_if_the_run_cannot_go_on(self):
        self.start_run("kill -9 $$", "exec sleep 1000", server="sleep 0.3; exit 1")
        self.assertEqual(self.supervisor.run(), 137)
        self.assert_cause(KILLED)

    def test_killed_one_is_the_cause_rather_than_what_others_made_of_it(self):
        self.start_run("exit 1", "sleep 0.05; kill -9 $$", server="sleep 0.3; exit 1")
        self.assertEqual(self.supervisor.run(), 137)

    def test_one_that_fails_when_it_has_finished_is_the_cause(self):
        """Also if the others finish later."""
        self.start_run("exit 1", "kill -9 $$", "exit 1", "sleep 3",
                       server="echo lost 2; sleep 2; echo is over")
        self.assertEqual(self.supervisor.run(), 1)
        self.assert_cause(r"rank 0 \(process \d+\) ended with exit code 1")

    def test_server_killed_after_others_went_on_is_the_cause(self):
        self.start_run("kill -9 $$", "sleep 0.7; exit 75",
                       server="echo lost 0; sleep 0.5; kill -9 $$")
        self.assertEqual(self.supervisor.run(), 137)
        self.assert_cause(r"server \(process \d+\) was killed by signal 9 \(Killed\)")
        self.assertEqual([member.name for member in self.supervisor.lost], ["rank 0"])

    def test_later_loss_that_ends_the_run_is_the_cause(self):
        ended = self.file
        self.start_run("kill -9 $$", f"echo >{ended}; exit 1", "exec sleep 1000",
                       server=f"echo lost 0; until [ -e {ended} ]; do sleep 0.02; done; sleep 1; exit 1")
        self.assertEqual(self.supervisor.run(), 1)
        self.assert_cause(r"rank 1 \(process \d+\) ended with exit code 1")

    def test_server_killed_is_the_cause_also_if_its_workers_end_first(self):
        self.leave_time_to_say_why()
        self.start_run("exit 75", "exit 75", server="sleep 0.5; kill -9 $$")
        self.assertEqual(self.supervisor.run(), 137)
        self.assert_cause(r"server \(process \d+\) was killed by signal 9 \(Killed\)")

    def test_server_that_its_workers_lost_is_named(self):
        self.start_run("exit 75", "exit 75")
        self.assertEqual(self.supervisor.run(), 75)
        self.assert_cause(r"server \(process \d+\) did not answer its workers any more")

    def test_server_is_not_blamed_unless_all_workers_lost_it(self):
        self.start_run("exit 75", "exit 1")
        self.assertIn(self.supervisor.run(), (1, 75))
        self.assert_cause(r"rank [01] \(process \d+\) ended with exit code (1|75)")

    def leave_time_to_say_why(self):
        """As much as members take on a busy machine."""
        for name in ("SECONDS_TO_SAY_WHY", "SECONDS_TO_FAIL"):
            self.enterContext(mock.patch.object(supervisor, name, LONG))

    def assert_run_ends_for_the_lost_one(self, **more):
        self.start_run("exec sleep 1000", "sleep 0.3; exit 1", **more,
                       server="echo fatal 0; sleep 0.6; exit 1")
        self.assertEqual(self.supervisor.run(), 1)
        self.assert_cause(r"rank 0 \(process \d+\) was lost: for a reason")

    def test_lost_one_that_still_exists_is_the_cause_if_the_run_ends_for_it(self):
        self.assert_run_ends_for_the_lost_one()

    def test_one_that_nobody_goes_on_without_is_the_cause_before_it_ends(self):
        self.assert_run_ends_for_the_lost_one(dispensable=False)

    def test_killed_one_has_its_code_also_if_the_server_speaks_first(self):
        self.leave_time_to_say_why()
        self.start_run("sleep 0.5; kill -9 $$", "sleep 1; exit 1",
                       server="echo fatal 0; sleep 1; exit 1")
        self.assertEqual(self.supervisor.run(), 137)
        self.assert_cause(KILLED)

    def stop(self, number, server):
        """Runs to the end, with a worker stopped by SIGSTOP."""
        workers = ["true", "true"]
        workers[number] = "kill -STOP $$; exec sleep 1000"
        self.start_run(*workers, server=server)
        return self.supervisor.run()

    def test_lost_one_that_is_stopped_is_ended_when_the_others_have_finished(self):
        self.assertEqual(self.stop(1, server="echo lost 1; sleep 0.3; echo is over"), 0)
        self.assertEqual(self.supervisor.cause, "")
        (lost,) = self.supervisor.lost
        self.assertEqual((lost.name, lost.was_told_to_end, lost.loss.cause),
                         ("rank 1", True, "for a reason"))
        self.assertEqual(self.supervisor.late, [])

    def test_lost_one_is_ended_also_while_the_server_stays(self):
        self.start_run("kill -STOP $$", "true", server="echo lost 0; echo is over; exec sleep 1000")
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual([member.name for member in self.supervisor.lost], ["rank 0"])

    def test_adopted_ranks_are_of_the_worker_that_carried_them(self):
        self.start_run("exec sleep 1000", "sleep 0.1", "exec sleep 1000",
                       server="echo lost 2; echo lost 0,2; sleep 0.2; echo is over")
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual(sorted((member.name, sorted(member.loss.ranks))
                                for member in self.supervisor.lost),
                         [("rank 0", [0, 2]), ("rank 2", [2])])

    def test_lost_program_is_ended_too(self):
        self.start_run("kill -STOP $$", "true", server="echo lost 0; echo is over",
                       ends_with_run=False)
        self.assertEqual(self.supervisor.run(), 0)

    def test_lost_one_that_fails_after_the_run_is_no_failure(self):
        self.leave_time_to_say_why()
        self.start_run("sleep 0.5; exit 1", "true", server="echo lost 0; echo is over")
        self.assertEqual(self.supervisor.run(), 0)
        self.assertEqual([member.end for member in self.supervisor.lost],
                         ["ended with exit code 1"])

    def test_one_that_was_not_lost_gets_longer_and_is_told_of(self):
        with mock.patch.object(supervisor, "SECONDS_TO_FINISH", 2):
            self.assertEqual(self.stop(0, server="echo is over"), 0)
        self.assertEqual(([member.name for member in self.supervisor.late], self.supervisor.lost),
                         (["rank 0"], []))

    def test_one_that_was_not_lost_is_left_to_end_by_itself(self):
        with (mock.patch.object(supervisor, "SECONDS_TO_FINISH", LONG),
              mock.patch.object(supervisor, "SECONDS_TO_FAIL", 0.4)):
            self.start_run(f"sleep 1; echo done >{self.file}", "true", server="echo is over")
            self.assertEqual(self.supervisor.run(), 0)
        self.assertTrue(self.file.exists())
        self.assertEqual((self.supervisor.late, self.supervisor.lost), ([], []))

    def test_one_that_is_late_has_time_between_the_two_signals(self):
        with mock.patch.object(supervisor, "SECONDS_TO_FINISH", 1):
            self.start_run(f"trap 'sleep 0.3; echo done >{self.file}; exit 1' TERM; "
                           "while :; do sleep 0.05; done", "true", server="echo is over")
            self.assertEqual(self.supervisor.run(), 0)
        self.assertTrue(self.file.exists())
        self.assertEqual([member.name for member in self.supervisor.late], ["rank 0"])

    def test_program_that_has_more_to_do_than_the_run_is_left_alone(self):
        with mock.patch.object(supervisor, "SECONDS_TO_FINISH", 0):
            self.start_run(f"sleep 0.8; echo done >{self.file}", "true", server="echo is over",
                           ends_with_run=False)
            self.assertEqual(self.supervisor.run(), 0)
        self.assertTrue(self.file.exists())

    def test_all_lost_is_no_success(self):
        self.start_run("exit 1", "kill -9 $$")
        self.assertEqual(self.supervisor.run(), 137)

    def test_wrong_option_ends_all_also_in_a_run(self):
        self.start_run("exit 2", "exec sleep 1000")
        self.assertEqual(self.supervisor.run(), 2)
        self.assert_cause(r"rank 0 \(process \d+\) ended with exit code 2")

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

    def hang_up(self, disposition):
        """Sets what this process does after SIGHUP, until the end of the test."""
        before = signal.signal(signal.SIGHUP, disposition)
        self.addCleanup(signal.signal, signal.SIGHUP, before)

    def test_signals_are_passed_on(self):
        self.hang_up(signal.SIG_DFL)
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

    def test_run_under_nohup_outlives_its_terminal(self):
        self.hang_up(signal.SIG_IGN)
        with Signals() as signals, Supervisor(Recorder(), signals) as supervisor:
            supervisor.start(shell("a", "kill -HUP $PPID; sleep 0.1"))
            self.assertEqual(supervisor.run(), 0)
        self.assertEqual(supervisor.cause, "")
        self.assertEqual(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)

    def test_signal_after_a_failure_is_the_only_one_before_the_kill(self):
        self.start(shell("a", "for n in 2 15; do trap \"echo $n\" $n; done; echo up; "
                              "while :; do sleep 0.01; done"))
        self.await_lines(1)
        with (mock.patch.object(supervisor, "SECONDS_TO_SAY_WHY", 0.5),
              mock.patch.object(supervisor, "SECONDS_TO_FAIL", LONG)):
            self.supervisor.fail(75, "no address")
        os.kill(os.getpid(), signal.SIGINT)
        self.assertEqual(self.supervisor.run(), 75)
        self.assertEqual([line for fd, line in self.terminal.lines if fd == OUT],
                         [b"[a] up", b"[a] 2"])

    def test_first_signal_that_ends_a_run_ends_the_wait_for_other_programs(self):
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        self.assertFalse(self.supervisor.wait_for(lambda: False, LONG))
        self.assertEqual(self.supervisor.signalled, signal.SIGTERM)

    def test_signal_for_a_checkpoint_does_not_end_the_wait_for_other_programs(self):
        os.kill(os.getpid(), signal.SIGUSR1)
        self.assertFalse(self.supervisor.wait_for(lambda: False, 0.02))
        self.assertEqual(self.supervisor.signalled, 0)

    def test_only_a_coordinator_whose_run_has_begun_is_asked_for_a_checkpoint(self):
        """On this machine or on another host."""
        for changes, asked in (({}, True), ({"link": "a"}, True), ({"begun": False}, False),
                               ({"ended": True}, False), ({"serves": False}, False)):
            case = {"link": None, "begun": True, "ended": False, "serves": True, **changes}
            member = Member("a", Command(["/bin/a"], {}, link=case["link"]), serves=case["serves"],
                            begun_by=b"has begun")
            running = supervisor.Running(member, self.terminal, lambda *_: None)
            running._process = mock.Mock(ended=case["ended"])
            running._print(OUT, b"the run has begun" if case["begun"] else b"the run waits")
            running.ask_for_checkpoint()
            self.assertEqual(running._process.signal.call_args_list,
                             [mock.call(signal.SIGUSR1)] if asked else [], changes)
            self.assertFalse(running.was_told_to_end)

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
