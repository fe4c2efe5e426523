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
    def command(host, argv, environment):
        return host, argv, environment


class Compare(unittest.TestCase):
    """`printed`: what the ranks print, by program ("train" is ours) and mode, one after the other."""

    def setUp(self):
        self.printed, self.started = {}, []
        self.built_with = 0  # exit code
        self.argvs, self.environments, self.built, self.made = [], [], [], None

    def jobs(self, _check):
        started = []
        made = mock.MagicMock()
        made.__enter__.return_value = made
        made.start = lambda _name, command: started.append(command)

        def finish(_deadline):
            self.assertEqual([host for host, *_ in started], [0, 1])
            argv = started[0][1]
            self.argvs.append(argv)
            self.environments = [environment for *_, environment in started]
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
        done = mock.Mock(returncode=self.built_with, stdout="no compiler")

        def run(command, **_):
            self.built.append(command)
            return done

        def alike(*how):
            self.made = how[:3]
            return Hosts()
        with mock.patch.object(subprocess, "run", run), \
                mock.patch.object(jobs, "Jobs", self.jobs), \
                mock.patch.object(made_hosts.MadeHosts, "alike", alike), \
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

    def test_ranks_get_their_place_and_both_programs_the_same_work(self):
        for program in ("train", "train.py"):
            self.add(program, "plain", [[(1, 1), (1, 1)]] * 2)
        self.compare("--modes", "plain", "--rounds", "1", "--steps", "5", "--width", "8", "--tuned",
                     "--hosts", "auto", "--rate", "1gbit", "--build", "/built")
        self.assertEqual(self.made, ("auto", 2, "1gbit"))
        for rank, environment in enumerate(self.environments):
            port = environment.pop("MASTER_PORT")
            self.assertGreater(int(port), 0)
            self.assertEqual(environment, {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": "127.0.0.1", "GRADWIRE_COORDINATOR_METRICS": "off"})
        ours, theirs = self.argvs
        self.assertEqual(ours[1:], ["plain", "5", "8"])
        self.assertEqual(theirs[2:], ["plain", "5", "8", "--tuned"])
        install, configure, _ = self.built
        self.assertEqual(install[:3], ["cmake", "--install", "/built"])
        self.assertIn(f"-DCMAKE_PREFIX_PATH={install[4]}", configure)
        self.assertEqual(str(pathlib.Path(ours[0]).parent), configure[configure.index("-B") + 1])

    def test_build_that_fails_is_told(self):
        self.built_with = 1
        code, rows = self.compare()
        self.assertRegex(code, r"^cmake --install .* exited 1:\nno compiler$")
        self.assertEqual(rows, [])

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

    def test_odd_ranks_leave_out_the_branch_and_all_do_in_every_third_step(self):
        for rank, expected in ((0, [True, True, False] * 2), (1, [False] * 6)):
            run = mock.MagicMock(rank=rank, world_size=2, step=lambda passes: passes())
            self.names["unused"](run, 6)
            self.assertEqual([call.args for call in run.one_pass.call_args_list],
                             [(with_branch,) for with_branch in expected])

    def test_last_pass_of_a_step_averages_in_mode_no_sync(self):
        happened = []
        run = mock.MagicMock(step=lambda passes: passes(), one_pass=lambda: happened.append("pass"))
        run.net.no_sync.return_value = mock.MagicMock(
            __enter__=lambda _: happened.append("no sync"), __exit__=lambda *_: happened.append("sync"))
        self.names["no_sync"](run, 2)
        self.assertEqual(happened, ["no sync", "pass", "pass", "sync", "pass"] * 2)

    def printed(self, rank, run=None):
        """What main() prints, with `run` in place of the training."""
        place = {"RANK": str(rank), "WORLD_SIZE": "7", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        names = self.names["main"].__globals__
        more = {"Run": lambda *_: run, "uneven": mock.Mock(), "final_loss": lambda _: 0.5} if run else {}
        with mock.patch.dict(os.environ, place), mock.patch.dict(names, more), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            names["main"]()
        return printed.getvalue()

    def test_rank_without_a_batch_prints_nothing(self):
        self.assertEqual(self.printed(1), "")

    def test_each_pass_has_the_seconds_of_its_step_and_rank_0_the_final_loss(self):
        run = mock.Mock(losses=[1.0, 2.0, 3.0, 4.0], seconds=[0.25, 0.75])
        lines = "1 0.25\n2 0.25\n3 0.75\n4 0.75\n"
        self.assertEqual(self.printed(0, run), lines + "0.5 0\n")
        self.assertEqual(self.printed(1, run), lines)


if __name__ == "__main__":
    unittest.main()
