"""cli/runs/jobs.py: programs that run together, and what becomes of them."""
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCES))
from cli.runs.failure import EXIT_USAGE, Failure, Stopped
from cli.runs.jobs import Jobs, run_job
from cli.runs.process import Command

LONG = 60
DRIVER = """
import sys
from cli.runs.jobs import Jobs
from cli.runs.process import Command
with Jobs(lambda: None) as jobs:
    job = jobs.start("a", Command(["/bin/sh", "-c", "sleep 1000 & echo $! $$; wait"],
                                  {"PATH": "/bin"}))
    jobs.run_until(lambda: b"\\n" in job.out, float("inf"))
    print(jobs._guard._pid, job.out.decode(), end="", flush=True)
    jobs.finish(float("inf"))
"""


def never():
    pass


def shell(script, **more):
    return Command(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}, **more)


def run_all(*jobs, seconds=LONG, check=never):
    """`jobs`: arguments of Jobs.start."""
    with Jobs(check) as group:
        for job in jobs:
            group.start(*job)
        return group.finish(time.monotonic() + seconds)


def failure_of(*jobs, **more):
    try:
        run_all(*jobs, **more)
    except Failure as failure:
        return failure
    return None


def has_ended(pid, seconds=0):
    """Whether it has, or does so soon."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([end], [], [], seconds)[0])
    finally:
        os.close(end)


class JobsTest(unittest.TestCase):
    def test_all_end_well_gives_their_output_in_order(self):
        self.assertEqual(run_all(("a", shell("echo one")), ("b", shell("echo two"))),
                         ["one\n", "two\n"])

    def test_much_output_is_all_kept(self):
        outputs = run_all(("a", shell("head -c 1000000 /dev/zero")))
        self.assertEqual(len(outputs[0]), 1000000)

    def test_server_is_ended_after_the_others(self):
        outputs = run_all(("server", shell("exec sleep 1000"), True), ("a", shell("echo one")))
        self.assertEqual(outputs, ["one\n"])

    def test_server_that_ignores_sigterm_is_killed(self):
        server = ("server", shell("trap '' TERM; echo up; while :; do sleep 1000; done"), True)
        with Jobs(never) as jobs:
            process = jobs.start(*server)
            jobs.run_until(lambda: process.out, time.monotonic() + LONG)
            jobs.finish(time.monotonic() + LONG)
            self.assertEqual(process.status, -signal.SIGKILL)

    def test_one_fails_says_how_and_why(self):
        failure = failure_of(("rank 0", shell("exec sleep 1000")),
                             ("rank 1", shell("echo broken >&2; exit 3")))
        self.assertEqual(str(failure), "rank 1 ended with exit code 3:\n  broken")

    def test_failure_shows_the_last_lines(self):
        failure = failure_of(("a", shell("seq 20 >&2; exit 3")))
        shown = "\n  ".join(str(number) for number in range(13, 21))
        self.assertEqual(str(failure), f"a ended with exit code 3:\n  {shown}")

    def test_one_that_fails_soon_after_is_told_too(self):
        failure = failure_of(("rank 0", shell("exit 3")), ("rank 1", shell("sleep 0.2; exit 4")))
        self.assertEqual(str(failure),
                         "rank 0 ended with exit code 3\nrank 1 ended with exit code 4")

    def test_killed_job_names_the_signal(self):
        self.assertEqual(str(failure_of(("a", shell("kill -9 $$")))),
                         "a was killed by signal 9 (Killed)")

    def test_server_fails_is_a_failure(self):
        failure = failure_of(("server", shell("exit 1"), True), ("a", shell("exec sleep 1000")))
        self.assertEqual(str(failure), "server ended with exit code 1")

    def test_too_slow_names_who_runs(self):
        failure = failure_of(("rank 0", shell("")), ("rank 1", shell("exec sleep 1000")),
                             seconds=0.3)
        self.assertEqual(str(failure), "not done in time: rank 1 still running")

    def test_stopped_ends_the_wait(self):
        def check():
            raise Stopped("stopped")
        self.assertIsInstance(failure_of(("a", shell("exec sleep 1000")), check=check), Stopped)

    def test_behind_with_nothing_runs(self):
        with Jobs(never) as jobs:
            pid = jobs.start("a", shell("exec sleep 1000")).pid
            self.assertFalse(has_ended(pid))
        self.assertTrue(has_ended(pid))

    def test_what_a_job_leaves_is_killed(self):
        pid = int(run_all(("a", shell("sleep 1000 & echo $!")))[0])
        self.assertTrue(has_ended(pid, LONG))

    def test_what_a_job_may_leave_lives_on(self):
        pid = int(run_all(("a", shell("sleep 1000 & echo $!", leaves_others=True)))[0])
        self.assertFalse(has_ended(pid))
        os.kill(pid, signal.SIGKILL)

    def test_job_gets_a_group_of_its_own(self):
        group = run_all(("a", shell("cut -d ' ' -f 5 /proc/$$/stat; echo $$")))[0].split()
        self.assertEqual(group[0], group[1])

    def kill_driver(self, also_guard):
        """Gives the ids of the job's child and of the job."""
        with subprocess.Popen([sys.executable, "-B", "-c", DRIVER], cwd=SOURCES, text=True,
                              stdout=subprocess.PIPE) as driver:
            guard, *pids = (int(pid) for pid in driver.stdout.readline().split())
            self.assertEqual([has_ended(pid) for pid in pids], [False, False])
            if also_guard:
                os.kill(guard, signal.SIGKILL)
            driver.kill()
        return pids

    def test_killed_driver_leaves_nothing_running(self):
        pids = self.kill_driver(also_guard=False)
        self.assertEqual([has_ended(pid, LONG) for pid in pids], [True, True])

    def test_driver_killed_with_its_guard_leaves_no_job_running(self):
        child, job = self.kill_driver(also_guard=True)
        self.assertTrue(has_ended(job, LONG))
        os.kill(child, signal.SIGKILL)

    def test_no_such_program_is_wrong_usage(self):
        failure = failure_of(("x", Command(["/no/such/program"], {})))
        self.assertEqual(str(failure),
                         "cannot start '/no/such/program': No such file or directory")
        self.assertEqual(failure.exit_code, EXIT_USAGE)

    def test_output_that_is_not_utf8_comes_out_as_it_was(self):
        self.assertEqual(run_all(("a", shell(r"printf '\377'")))[0].encode(
            "utf-8", "surrogateescape"), b"\xff")

    def test_run_job_gives_the_output(self):
        self.assertEqual(run_job("a", shell("echo one"), LONG, never), "one\n")


if __name__ == "__main__":
    unittest.main()
