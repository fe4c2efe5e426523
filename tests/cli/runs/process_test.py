"""cli/runs/process.py, process_set.py, guard.py, failure.py and scratch.py: a child, what it
prints, and how it ends."""
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCES))
from cli.runs.failure import EXIT_FAILED, EXIT_USAGE, Failure, Stopped
from cli.runs.guard import MESSAGE, Guard
from cli.runs.process import Command, Process, describe_end, exit_code_of, last_lines, text_of
from cli.runs.process_set import ProcessSet
from cli.runs.output_file import scratch_folder

LONG = 30
GUARD = """
import os, signal, sys
from cli.runs.guard import Guard
guard = Guard()
for group in sys.argv[2:]:
    guard.add(int(group))
guard.remove(int(sys.argv[3]))
if sys.argv[1] == "close":
    guard.close()
"""


def shell(script, **more):
    return Command(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}, **more)


class Ends(unittest.TestCase):
    def test_exit_code_and_signal_in_words_and_as_a_shells_code(self):
        for status, words, code in ((0, "ended with exit code 0", 0),
                                    (255, "ended with exit code 255", 255),
                                    (-9, "was killed by signal 9 (Killed)", 137),
                                    (-15, "was killed by signal 15 (Terminated)", 143)):
            self.assertEqual((describe_end(status), exit_code_of(status)), (words, code))

    def test_process_that_the_kernel_killed_for_memory(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        events = pathlib.Path(folder, "memory.events")
        events.write_text("oom_kill 4\n")
        with ProcessSet() as processes:
            one = processes.add(shell(f"echo oom_kill 5 >{events}; kill -9 $$",
                                      memory_group=folder))
            while processes.running():
                processes.wait(LONG)
        self.assertEqual(one.end, "was killed by signal 9 (Killed) because memory ran out")

    def test_bytes_that_are_no_utf8_come_out_again(self):
        self.assertEqual(text_of(b"\xc3\xa4\xff").encode("utf-8", "surrogateescape"),
                         b"\xc3\xa4\xff")

    def test_context_keeps_kind_and_exit_code(self):
        failure = Stopped("stopped", 7).within("round 1").within("bench")
        self.assertEqual((type(failure), str(failure), failure.exit_code),
                         (Stopped, "bench: round 1: stopped", 7))
        self.assertEqual(Failure("x").exit_code, EXIT_FAILED)


class LastLines(unittest.TestCase):
    def test_those_that_say_something_count(self):
        for text, most, expected in (("", 1, []), ("\n \n", 1, []), ("a\nb\n\n", 1, ["b"]),
                                     ("a\n b\n", 2, ["a", " b"]), ("a\nb\nc", 2, ["b", "c"])):
            self.assertEqual(last_lines(text, most), expected)


class Children(unittest.TestCase):
    def process(self, command, *outputs):
        process = Process(command, *outputs)
        self.addCleanup(process.close)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.signal(signal.SIGKILL)
        self.reap(process)

    def reap(self, process):
        self.assertTrue(select.select([process.end_fd], [], [], LONG)[0])
        process.reap()
        return process

    def test_before_its_end_there_is_no_status(self):
        process = self.process(shell("exec sleep 1000"))
        self.assertEqual((process.status, process.ended, process.failed), (None, False, False))

    def test_end_without_0_has_failed(self):
        for code in (0, 1):
            process = self.reap(self.process(shell(f"exit {code}")))
            self.assertEqual((process.ended, process.failed), (True, bool(code)))

    def test_output_goes_where_it_was_to_go(self):
        pieces = []
        process = self.reap(self.process(shell("echo out; echo err >&2"), pieces.append))
        self.assertEqual((b"".join(pieces), process.out, process.err), (b"out\n", b"", b"err\n"))

    def test_read_tells_nothing_yet_from_the_end(self):
        process = self.process(shell("exec sleep 1000"))
        out = next(iter(process.outputs))
        self.assertIs(process.read(out), False)
        process.signal(signal.SIGKILL)
        self.reap(process)
        self.assertIsNone(process.read(out))

    def test_signal_after_the_end_is_no_error(self):
        process = self.reap(self.process(shell("exit 3")))
        process.signal(signal.SIGTERM)
        self.assertEqual(process.status, 3)

    def test_one_that_ends_with_stdin_gets_its_end_in_place_of_sigterm(self):
        process = self.process(shell("trap '' TERM; cat; exit 4", ends_with_stdin=True))
        self.assertEqual(process.write(b"some"), 4)
        process.signal(signal.SIGTERM)
        self.reap(process)
        self.assertEqual((process.out, process.status), (b"some", 4))
        self.assertEqual(process.write(b"more"), 4)  # nobody is there to take it

    def test_stdin_that_is_full_takes_no_more(self):
        process = self.process(shell("exec sleep 1000", ends_with_stdin=True))
        taken = process.write(bytes(1 << 20))
        self.assertLess(taken, 1 << 20)
        self.assertEqual(process.write(b"x"), 0)

    def test_others_read_an_empty_stdin(self):
        process = self.reap(self.process(shell("cat; echo end")))
        self.assertEqual(process.out, b"end\n")

    def test_environment_is_all_that_was_given(self):
        process = self.reap(self.process(Command(["/usr/bin/env"], {"A": "b"})))
        self.assertEqual(process.out, b"A=b\n")

    def test_program_without_right_to_run_is_no_wrong_usage(self):
        with tempfile.NamedTemporaryFile() as file:
            with self.assertRaisesRegex(Failure, "^cannot start '.*': Permission denied$") as told:
                Process(Command([file.name], {}))
        self.assertEqual(told.exception.exit_code, EXIT_FAILED)

    def test_relative_path_is_of_this_folder_and_never_searched(self):
        with self.assertRaisesRegex(Failure, "^cannot start 'sh': No such file") as told:
            Process(Command(["sh", "-c", "exit"], {"PATH": "/bin"}))
        self.assertEqual(told.exception.exit_code, EXIT_USAGE)


class Sets(unittest.TestCase):
    def test_end_is_told_after_all_output(self):
        told = []
        with ProcessSet() as processes:
            processes.add(shell("head -c 300000 /dev/zero; echo err >&2"),
                          lambda piece: told.append(len(piece)), on_end=lambda: told.append("end"))
            while processes.running():
                processes.wait(LONG)
        self.assertEqual(told[-1], "end")
        self.assertEqual(sum(told[:-1]), 300000)

    def test_wait_returns_when_the_time_is_over(self):
        with ProcessSet() as processes:
            processes.add(shell("exec sleep 1000"))
            start = time.monotonic()
            processes.wait(0.05)
            self.assertGreaterEqual(time.monotonic() - start, 0.05)

    def test_wait_wakes_on_a_file_of_the_callers(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with ProcessSet() as processes:
            processes.wake_on(reader)
            os.write(writer, b"x")
            processes.wait(None)
            self.assertEqual(os.read(reader, 9), b"x")
            os.close(writer)

    def test_output_that_is_closed_early_does_not_end_it(self):
        with ProcessSet() as processes:
            process = processes.add(shell("exec >&- 2>&-; read x; exit 5", ends_with_stdin=True))
            processes.wait(LONG)  # an output ends, or both
            self.assertEqual(processes.running(), [process])
            process.signal(signal.SIGTERM)
            while processes.running():
                processes.wait(LONG)
            self.assertEqual(process.status, 5)

    def test_error_within_ends_all(self):
        with self.assertRaises(ValueError):
            with ProcessSet() as processes:
                process = processes.add(shell("exec sleep 1000"))
                raise ValueError
        self.assertEqual(process.status, -signal.SIGKILL)

    def test_files_are_closed_behind_with(self):
        before = set(os.listdir("/proc/self/fd"))
        with ProcessSet() as processes:
            processes.add(shell("exit 3"))
            processes.add(shell("exec sleep 1000", ends_with_stdin=True))
        self.assertEqual(set(os.listdir("/proc/self/fd")), before)

    def test_program_that_cannot_be_started_leaves_the_others_be(self):
        with ProcessSet() as processes:
            process = processes.add(shell("exec sleep 1000"))
            with self.assertRaises(Failure):
                processes.add(Command(["/no/such"], {}))
            self.assertEqual(processes.running(), [process])


class Guards(unittest.TestCase):
    def sleepers(self, count):
        sleepers = [subprocess.Popen(["/bin/sleep", "1000"], process_group=0)
                    for _ in range(count)]
        for sleeper in sleepers:
            self.addCleanup(sleeper.wait)
            self.addCleanup(sleeper.kill)
        return sleepers

    def guarded(self, how, *sleepers):
        subprocess.run([sys.executable, "-B", "-c", GUARD, how,
                        *(str(sleeper.pid) for sleeper in sleepers)], cwd=SOURCES, check=True)

    def test_end_of_its_maker_kills_the_groups_that_it_still_has(self):
        kept, removed = self.sleepers(2)
        self.guarded("end", kept, removed)
        self.assertEqual(kept.wait(LONG), -signal.SIGKILL)
        self.assertIsNone(removed.poll())

    def test_closed_guard_leaves_all_alone(self):
        sleeper, removed = self.sleepers(2)
        self.guarded("close", sleeper, removed)
        self.assertEqual((sleeper.poll(), removed.poll()), (None, None))

    def test_guard_that_was_killed_is_no_error(self):
        guard = Guard()
        os.kill(guard._pid, signal.SIGKILL)
        os.waitid(os.P_PID, guard._pid, os.WEXITED | os.WNOWAIT)
        with mock.patch("os.write", side_effect=BrokenPipeError):
            guard.add(os.getpid())
        guard.close()

    def test_message_holds_every_id(self):
        for group in (1, -1, 4194304, -4194304):
            self.assertEqual(MESSAGE.unpack(MESSAGE.pack(group)), (group,))


class Scratch(unittest.TestCase):
    def test_folder_is_gone_behind_with(self):
        with scratch_folder() as folder:
            pathlib.Path(folder, "file").touch()
            self.assertTrue(pathlib.Path(folder).name.startswith("gradwire-"))
        self.assertFalse(os.path.exists(folder))

    def test_no_place_for_it_is_told(self):
        with mock.patch.object(tempfile, "tempdir", "/no/such/folder"):
            with self.assertRaisesRegex(Failure, r"^cannot make a folder for temporary files "
                                                 r"\(TMPDIR\): no such file or directory$"):
                scratch_folder()


if __name__ == "__main__":
    unittest.main()
