"""cli/runs/runner.py: runs of several ranks, beside a coordinator that is a script."""
import os
import pathlib
import socket
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.failure import Failure, Stopped
from cli.runs.runner import (COORDINATOR, MASTER, Run, Runner, first_ephemeral_port, free_port,
                             torch_version)

# Writes its port file as gradwire-coordinator does, and serves.
SERVES = '''while [ $# -gt 0 ]; do [ "$1" = --port-file ] && file=$2; shift; done
[ -n "$file" ] && printf 'grpc=127.0.0.1:7\\nmetrics=off\\n' > "$file.new" && mv "$file.new" "$file"
exec sleep 1000'''
HOSTS = '''case $1 in
addr) echo "127.0.0.$2" ;;
run) host=$2; shift 2; HOST=$host exec "$@" ;;
down) touch "$0.down" ;;
esac'''


# Runs one rank after the other: what is between "-np 1" and a colon, or the end.
MPIRUN = """exec /usr/bin/python3 -c '
import subprocess, sys
rank = []
for word in [*sys.argv[1:], ":"]:
    if word == "-np":
        rank = []
    elif word == ":":
        subprocess.run(rank[1:], check=True)
    else:
        rank.append(word)
' "$@"
"""


def never():
    pass


def echo(*words):
    return ["/bin/sh", "-c", 'echo "$*"', "sh", *words]


class FreePortTest(unittest.TestCase):
    def test_the_kernel_gives_it_to_no_other_program(self):
        self.assertTrue(all(port < first_ephemeral_port() for port in (free_port() for _ in range(20))))

    def test_a_port_on_which_a_program_listens_is_not_free(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", free_port()))
            taken.listen()
            port = taken.getsockname()[1]
            with mock.patch("cli.runs.runner.random.sample", return_value=[port, port + 1]):
                self.assertNotEqual(free_port(), port)


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.request = {"hosts": "", "hostfile": "", "workers": 2, "rate": "none", "port": 29400,
                        "timeout_seconds": 60,
                        "programs": {"coordinator": self.script("coordinator", SERVES)}}

    def script(self, name, text):
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o700)
        return str(program)

    def outputs_of(self, *runs):
        with Runner(self.request, never) as runner:
            return [runner.run(run) for run in runs]

    def test_ranks_get_the_coordinators_address(self):
        run = Run([echo(COORDINATOR, str(rank)) for rank in range(2)])
        for outputs in self.outputs_of(run, run):
            self.assertEqual(outputs.ranks, ["127.0.0.1:7 0\n", "127.0.0.1:7 1\n"])

    def test_each_run_has_the_address_of_its_own_coordinator(self):
        self.script("coordinator", SERVES.replace("127.0.0.1:7", "127.0.0.1:'$$'"))
        first, second = self.outputs_of(*2 * [Run([echo(COORDINATOR)])])
        self.assertNotEqual(first.ranks, second.ranks)

    def test_coordinators_cpu_time_is_taken(self):
        self.script("coordinator", SERVES.replace("exec sleep 1000", "while :; do :; done"))
        (outputs,) = self.outputs_of(Run([["/bin/sh", "-c", "sleep 0.5"]]))
        self.assertGreater(outputs.coordinator_cpu_seconds, 0)

    def test_coordinator_fails_says_why(self):
        self.script("coordinator", "echo no port >&2; exit 1")
        with self.assertRaisesRegex(Failure, "^coordinator ended with exit code 1:\n  no port$"):
            self.outputs_of(Run([echo("x")]))

    def test_no_coordinator_gives_a_free_address(self):
        with mock.patch("cli.runs.runner.free_port", return_value=7777):
            (outputs,) = self.outputs_of(Run([echo(MASTER)], coordinator=False))
        self.assertEqual(outputs.ranks[0], "127.0.0.1:7777\n")
        self.assertIsNone(outputs.coordinator_cpu_seconds)

    def test_what_rank_0_prints_is_watched_while_it_runs(self):
        seen, done = [], self.folder / "done"

        def watch(printed):
            seen.append(bytes(printed))
            if printed == b"first\n":
                done.touch()
        waits = f"echo first; until [ -e {done} ]; do :; done; echo last"
        with Runner(self.request, never) as runner:
            runner.run(Run([["/bin/sh", "-c", waits], echo("other")], coordinator=False), watch)
        self.assertIn(b"first\n", seen)
        self.assertEqual(seen[-1], b"first\nlast\n")
        for mpirun in (False, True):
            seen.clear()
            self.script("mpirun", MPIRUN)
            with mock.patch.dict("os.environ", {"PATH": f"{self.folder}:{os.environ['PATH']}"}), \
                    Runner(self.request, never) as runner:
                runner.run(Run([echo("first")], mpirun=mpirun), watch)  # beside a coordinator
            self.assertEqual(seen[-1], b"first\n")

    def test_output_of_the_run_before_is_not_taken_for_that_of_mpirun(self):
        seen, go = [], self.folder / "go"

        def watch(printed):
            seen.append(bytes(printed))
            go.touch()
        self.script("mpirun", f"until [ -e {go} ]; do sleep 0.02; done\n{MPIRUN}")
        with mock.patch.dict("os.environ", {"PATH": f"{self.folder}:{os.environ['PATH']}"}), \
                Runner(self.request, never) as runner:
            for word in "ab":
                seen.clear()
                go.unlink(missing_ok=True)
                runner.run(Run([echo(word)], mpirun=True), watch)
                self.assertEqual((seen[0], seen[-1]), (b"", word.encode() + b"\n"))

    def under_mpirun(self, script, *runs):
        """Runs with an mpirun that runs one rank after the other."""
        self.script("mpirun", script)
        with mock.patch.dict("os.environ", {"PATH": f"{self.folder}:{os.environ['PATH']}"}):
            return self.outputs_of(*runs)

    def test_mpirun_starts_all_ranks_and_their_output_is_kept_apart(self):
        runs = [Run([echo(word, COORDINATOR), echo("other")], mpirun=True) for word in "ab"]
        outputs = self.under_mpirun(MPIRUN, *runs)
        self.assertEqual([of_run.ranks for of_run in outputs],
                         [[f"{word} 127.0.0.1:7\n", "other\n"] for word in "ab"])

    def test_mpirun_fails_says_why(self):
        with self.assertRaisesRegex(Failure, "^mpirun ended with exit code 3:\n  no slots$"):
            self.under_mpirun("echo no slots >&2; exit 3", Run([echo("x")], mpirun=True))

    def test_environment_reaches_the_ranks(self):
        run = Run([["/bin/sh", "-c", "echo $MINE"]], coordinator=False, environment={"MINE": "x"})
        self.assertEqual(self.outputs_of(run)[0].ranks, ["x\n"])

    def test_hosts_have_a_rank_each_and_the_last_one_the_coordinator(self):
        self.request["hosts"] = self.script("hosts", HOSTS)
        ranks = [["/bin/sh", "-c", 'echo "$HOST $*"', "sh", COORDINATOR, MASTER]] * 2
        (outputs,) = self.outputs_of(Run(ranks))
        self.assertEqual(outputs.ranks, [f"{host} 127.0.0.2:29400 127.0.0.0:29401\n"
                                         for host in (0, 1)])
        self.assertTrue(pathlib.Path(self.request["hosts"] + ".down").exists())

    def test_run_that_is_to_be_here_is_on_no_host(self):
        self.request["hosts"] = self.script("hosts", HOSTS)
        ranks = [["/bin/sh", "-c", 'echo "host $HOST"']]
        there, here = self.outputs_of(*(Run(ranks, coordinator=False, here=here)
                                        for here in (False, True)))
        self.assertEqual((there.ranks, here.ranks), (["host 0\n"], ["host \n"]))

    def test_hosts_get_the_rate_that_a_run_asks_for(self):
        hosts = HOSTS.replace("case $1 in", 'case $1 in\nup) echo "$3" >> "$0.rates" ;;')
        self.request["hosts"] = self.script("hosts", hosts)
        runs = [Run([echo("x")], coordinator=False, rate=rate)
                for rate in ("", "1gbit", "1gbit", "10mbit")]
        self.outputs_of(*runs)
        self.assertEqual(pathlib.Path(self.request["hosts"] + ".rates").read_text(),
                         "none\n1gbit\n10mbit\n")

    def test_try_out_on_this_machine_is_once(self):
        with Runner(self.request, never) as runner:
            said = runner.try_out(["/bin/sh", "-c", f"echo once | tee -a {self.folder}/tried"])
        self.assertEqual(said, "once\n")
        self.assertEqual((self.folder / "tried").read_text(), "once\n")

    def test_try_out_names_the_host_of_a_program_and_what_it_said(self):
        self.request["hosts"] = self.script("hosts", HOSTS)
        dead = ["/bin/sh", "-c", '[ "$HOST" != 1 ] || { echo cut off >&2; exit 3; }']
        with Runner(self.request, never) as runner:
            with self.assertRaisesRegex(
                    Failure, "^sh on host 1 ended with exit code 3:\n  cut off$"):
                runner.try_out(dead)

    def test_try_out_on_this_machine_names_no_host(self):
        with Runner(self.request, never) as runner:
            with self.assertRaisesRegex(Failure, "^sh ended with exit code 3$"):
                runner.try_out(["/bin/sh", "-c", "exit 3"])

    def test_missing_pytorch_says_what_to_install_and_a_signal_does_not(self):
        for error, said in ((Failure("no module"), "^--peers needs PyTorch; run: apt-get install "
                                                   "python3-torch\n  no module$"),
                            (Stopped("stopped"), "^stopped$")):
            runner = mock.Mock()
            runner.run_here.side_effect = error
            with self.assertRaisesRegex(type(error), said):
                torch_version(runner)

    def test_too_slow_is_a_failure(self):
        self.request["timeout_seconds"] = 0.2
        with self.assertRaisesRegex(Failure, "^not done in time: rank 0 still running$"):
            self.outputs_of(Run([["/bin/sleep", "1000"]], coordinator=False))

    def test_behind_with_no_folder_is_left(self):
        with mock.patch.object(tempfile, "tempdir", str(self.folder)):
            self.outputs_of(Run([echo("x")]))
        self.assertEqual([file.name for file in self.folder.iterdir()], ["coordinator"])


if __name__ == "__main__":
    unittest.main()
