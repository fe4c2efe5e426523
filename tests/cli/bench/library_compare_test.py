"""bench/library/compare.py: its table and its exit code, with stand-ins for build and ranks."""
import contextlib
import io
import os
import pathlib
import runpy
import subprocess
import sys
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCES))
from cli.runs import jobs, made_hosts

BENCH = SOURCES / "bench" / "library" / "compare.py"


class Hosts(contextlib.nullcontext):
    """Two hosts, whose commands are (host, words)."""
    count = 2

    def __enter__(self):
        return self

    @staticmethod
    def address(_host):
        return "127.0.0.1"

    @staticmethod
    def command(host, argv, _environment):
        return host, argv


class Compare(unittest.TestCase):
    """`printed`: what the ranks print, by program ("train" is ours) and mode, one after the other."""

    def setUp(self):
        self.printed, self.started = {}, []

    def jobs(self, _check):
        started = []
        made = mock.MagicMock()
        made.__enter__.return_value = made
        made.start = lambda _name, command: started.append(command)

        def finish(_deadline):
            self.assertEqual([host for host, _ in started], [0, 1])
            argv = started[0][1]
            place = next(place for place, word in enumerate(argv) if "train" in word)
            program = pathlib.Path(argv[place]).name
            self.started.append(program)
            return next(self.printed[program, argv[place + 1]])
        made.finish = finish
        return made

    def add(self, program, mode, *rounds):
        """Each round: for each rank its (loss, seconds)."""
        texts = [["".join(f"{loss} {seconds}\n" for loss, seconds in rank) for rank in ranks]
                 for ranks in rounds]
        self.printed[program, mode] = iter(texts)

    def compare(self, *words):
        done = mock.Mock(returncode=0, stdout="")
        with mock.patch.object(subprocess, "run", return_value=done), \
                mock.patch.object(jobs, "Jobs", self.jobs), \
                mock.patch.object(made_hosts.MadeHosts, "alike", lambda *_: Hosts()), \
                mock.patch("sys.argv", ["compare.py", "--ranks", "2", *words]), \
                contextlib.redirect_stdout(io.StringIO()) as printed, \
                self.assertRaises(SystemExit) as end:
            runpy.run_path(str(BENCH))
        return end.exception.code, printed.getvalue().splitlines()[2:]

    def test_step_is_the_median_of_all_rounds_and_ranks_without_what_warms_up(self):
        def ranks(first, second):
            return [[(1, 9), (1, first), (1, first), (1, 0)], [(1, 9), (1, second), (1, second)]]
        self.add("train", "plain", ranks(0.001, 0.002), ranks(0.003, 0.004), ranks(0.005, 0.006))
        self.add("train.py", "plain", ranks(0.007, 0.007), ranks(0.007, 0.007),
                 ranks(0.001, 0.001))
        self.assertEqual(self.compare("--modes", "plain"),
                         (0, ["| plain | 3.5 | 7.0 | 0.50 | 0.0e+00 |"]))

    def test_programs_take_turns_in_an_order_that_changes(self):
        for program in ("train", "train.py"):
            self.add(program, "unused", *[[[(1, 1), (1, 1)]] * 2] * 3)
        self.compare("--modes", "unused")
        self.assertEqual(self.started, ["train", "train.py", "train.py", "train", "train",
                                        "train.py"])

    def test_largest_difference_of_any_round_rank_and_mode_counts(self):
        equal = [[(2, 1), (2, 1)]] * 2
        other = [equal[0], [(2, 1), (2.002, 1)]]
        for program in ("train", "train.py"):
            self.add(program, "uneven", equal, equal)
        self.add("train", "no-sync", other, equal)
        self.add("train.py", "no-sync", equal, equal)
        code, rows = self.compare("--rounds", "2", "--modes", "no-sync", "uneven")
        self.assertEqual([row.split(" | ")[-1] for row in rows], ["1.0e-03 |", "0.0e+00 |"])
        self.assertEqual(code, 1)

    def test_loss_that_is_not_finite_is_infinitely_far_from_any(self):
        equal = [[(1, 1), (1, 1)]] * 2
        for loss in ("nan", "inf"):
            broken = [equal[0], [(1, 1), (loss, 1)]]
            for ours, theirs in ((broken, equal), (equal, broken), (broken, broken)):
                self.add("train", "plain", ours)
                self.add("train.py", "plain", theirs)
                code, rows = self.compare("--rounds", "1", "--modes", "plain")
                self.assertEqual((code, rows[0].split(" | ")[-1]), (1, "inf |"))

    def test_rank_with_fewer_passes_is_told(self):
        self.add("train", "plain", [[(1, 1), (1, 1)], [(1, 1)]])
        self.add("train.py", "plain", [[(1, 1), (1, 1)], [(1, 1), (1, 1)]])
        code, rows = self.compare("--rounds", "1", "--modes", "plain")
        self.assertEqual((code, rows),
                         ("the two programs did not make the same number of passes", []))

    def test_too_few_rounds_steps_or_ranks_are_refused(self):
        for few in ("--rounds=0", "--steps=1", "--ranks=0"):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                code, rows = self.compare(few)
            self.assertEqual((code, rows), (2, []), few)
            self.assertRegex(said.getvalue(), "got .* expected 1 or more of 2 or more on 1 or more")


class Twin(unittest.TestCase):
    """bench/library/train.py, with a stand-in for PyTorch."""

    def setUp(self):
        nn = mock.MagicMock(Module=object)
        modules = {name: mock.MagicMock() for name in (
            "torch.distributed", "torch.distributed.algorithms", "torch.distributed.algorithms.join",
            "torch.nn.functional", "torch.nn.parallel", "compute", "rendezvous")}
        modules.update({"torch": mock.MagicMock(nn=nn), "torch.nn": nn})
        with mock.patch.dict(sys.modules, modules), \
                mock.patch.object(sys, "argv", ["train.py", "uneven", "9", "8"]):
            self.names = runpy.run_path(str(BENCH.with_name("train.py")), run_name="twin")

    def test_last_rank_has_the_most_batches_in_mode_uneven(self):
        counts = []
        for rank in range(3):
            run = mock.MagicMock(rank=rank, world_size=3)
            self.names["uneven"](run, 9)
            counts.append(run.step.call_count)
        self.assertEqual(counts, [5, 7, 9])

    def test_rank_without_a_batch_prints_nothing(self):
        place = {"RANK": "1", "WORLD_SIZE": "7", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        with mock.patch.dict(os.environ, place), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            self.names["main"]()
        self.assertEqual(printed.getvalue(), "")


if __name__ == "__main__":
    unittest.main()
