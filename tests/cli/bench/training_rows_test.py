"""cli/bench/training_rows.py and bench_training.py: tables, and what is run for them."""
import contextlib
import io
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.bench import bench_training
from cli.bench.bench_training import run_of
from cli.bench.training_rows import TrainingTimes, add_round, comparison_rows, training_rows
from cli.runs.failure import Failure
from cli.runs.report import Report
from cli.runs.runner import COORDINATOR, MASTER, Outputs

COMPUTATION = {"name": "computation", "kind": "alone", "options": ["--sync", "none"], "peers": []}
ALL_REDUCE = {"name": "all-reduce", "kind": "own", "options": ["--sync", "all-reduce"],
              "peers": ["gloo-all-reduce", "gloo-ddp"]}
GLOO = {"name": "gloo-all-reduce", "kind": "peer", "options": ["--mode", "all-reduce"],
        "peers": []}
REQUEST = {"workers": 2, "peers": False, "setups": [COMPUTATION, ALL_REDUCE], "rounds": 2,
           "iterations": 3, "batch_size": 8, "model": "vgg11",
           "model_options": ["--model", "vgg11"], "dataset": "synthetic", "data_dir": "",
           "compute_seconds": None, "ring_seconds_per_byte": None,
           "blas_path": "/x/libblas.so.3", "blas_warning": "",
           "under_mpirun": ["mpi"], "one_host": ["memory"],
           "programs": {"worker": "/x/gradwire-worker", "layout": "/x/gradwire-layout",
                        "peers": str(pathlib.Path(__file__).resolve().parents[3] / "bench/peers")}}


def line(iteration, exposed=0.0):
    return json.dumps({"step": 0, "iteration_seconds": iteration,
                       "phase_seconds": {"exposed_communication": exposed}}) + "\n"


LAST = line(0.01)


def summary(sha256):
    return f'{{\n  "parameters_sha256": "{sha256}"\n}}\n'


def times_of(*ranks, compare=False):
    times = TrainingTimes()
    add_round(ranks, compare, times)
    return times


class AddRound(unittest.TestCase):
    def assert_refused(self, message, *ranks):
        with self.assertRaises(Failure) as raised:
            times_of(*ranks)
        self.assertEqual(str(raised.exception), message)

    def test_mean_of_ranks_without_the_first_and_the_last(self):
        times = times_of(line(9) + line(1, 0.2) + line(4, 0.4) + LAST,
                         line(9) + line(2, 0.4) + line(3, 0.8) + LAST)
        self.assertEqual(times.iteration_seconds, [1.5, 3.5])
        self.assertEqual(len(times.exposed_seconds), 2)
        self.assertAlmostEqual(times.exposed_seconds[0], 0.3)
        self.assertAlmostEqual(times.exposed_seconds[1], 0.6)

    def test_rows_about_epochs_are_passed_over(self):
        epoch = '{"kind": "epoch", "rank": 0, "epoch": 0}\n'
        times = times_of(line(9) + line(1) + LAST + epoch + summary("a"))
        self.assertEqual(times.iteration_seconds, [1])

    def test_several_rounds_are_kept_together(self):
        times = TrainingTimes()
        for _ in range(2):
            add_round([line(9) + line(1) + LAST], False, times)
        self.assertEqual(times.iteration_seconds, [1, 1])

    def test_ranks_that_differ_in_one_round_do_not_agree(self):
        times = TrainingTimes()
        for other in ("a", "b", "a"):
            add_round([line(9) + line(1) + LAST + summary(hash) for hash in ("a", other)], True, times)
        self.assertFalse(times.ranks_agree)

    def test_no_phases_leave_exposed_unmeasured(self):
        times = times_of('{"iteration_seconds": 1}\n' * 3)
        self.assertEqual((times.iteration_seconds, times.exposed_seconds), ([1], []))

    def test_phases_of_some_iterations_leave_exposed_unmeasured(self):
        times = times_of('{"iteration_seconds": 1}\n' + line(1, 0.1) + line(1, 0.1) + LAST)
        self.assertEqual(times.exposed_seconds, [])

    def test_phases_of_one_rank_leave_exposed_unmeasured(self):
        times = times_of(line(1, 0.1) * 4, '{"iteration_seconds": 1}\n' + line(1, 0.1) * 3)
        self.assertEqual((times.iteration_seconds, times.exposed_seconds), ([1, 1], []))

    def test_equal_hashes_agree(self):
        rank = line(1) + summary("a")
        self.assertTrue(times_of(rank, rank, compare=True).ranks_agree)

    def test_different_hashes_disagree_where_they_are_compared(self):
        ranks = line(1) + summary("a"), line(1) + summary("b")
        self.assertFalse(times_of(*ranks, compare=True).ranks_agree)
        self.assertTrue(times_of(*ranks).ranks_agree)

    def test_other_output_names_the_rank(self):
        self.assert_refused("rank 1 printed a line that is no JSON object: hello",
                            line(1), "hello\n")
        self.assert_refused("rank 0 printed an iteration without iteration_seconds",
                            '{"step": 1}\n')
        self.assert_refused("rank 0 printed a summary that is no JSON object",
                            line(1) + "{\n  cut")

    def test_unequal_iterations_are_refused(self):
        self.assert_refused("rank 1 printed 1 iterations, rank 0 2", line(1) + line(1), line(1))


def seconds(*iterations):
    return TrainingTimes(list(iterations))


class Rows(unittest.TestCase):
    def test_computation_is_what_others_are_measured_against(self):
        row = training_rows([COMPUTATION, ALL_REDUCE], {"computation": seconds(2, 2),
                                                        "all-reduce": seconds(5, 5)})[1]
        self.assertEqual((row["p50_seconds"], row["over_computation_seconds"],
                          row["efficiency_percent"]), (5, 3, 40))

    def test_no_computation_leaves_gaps(self):
        (row,) = training_rows([COMPUTATION, ALL_REDUCE], {"all-reduce": seconds(2, 2)})
        self.assertEqual((row["setup"], row["over_computation_seconds"],
                          row["efficiency_percent"], row["exposed_seconds"]),
                         ("all-reduce", None, None, None))

    def test_mean_tells_what_few_iterations_cost(self):
        (row,) = training_rows([ALL_REDUCE], {"all-reduce": seconds(1, 1, 1, 9)})
        self.assertEqual((row["p50_seconds"], row["mean_seconds"]), (1, 3))

    def test_percentile_and_median_of_the_wait_are_of_all_iterations(self):
        times = TrainingTimes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20], [0.1, 0.2, 0.9])
        (row,) = training_rows([ALL_REDUCE], {"all-reduce": times})
        self.assertEqual((row["iterations"], row["p50_seconds"], row["p90_seconds"],
                          row["exposed_seconds"]), (11, 6, 10, 0.2))

    def test_peers_are_pytorch(self):
        rows = training_rows([ALL_REDUCE, GLOO], {"all-reduce": seconds(2),
                                                  "gloo-all-reduce": seconds(2)})
        self.assertEqual([row["system"] for row in rows], ["Gradwire", "PyTorch"])

    def test_set_up_with_its_peer_gives_the_ratio(self):
        rows = comparison_rows([COMPUTATION, ALL_REDUCE, GLOO],
                               {"all-reduce": seconds(1, 1, 4), "gloo-all-reduce": seconds(2),
                                "computation": seconds(3)})
        self.assertEqual(rows, [{"setup": "all-reduce", "p50_seconds": 1,
                                 "peer": "gloo-all-reduce", "peer_p50_seconds": 2, "ratio": 0.5,
                                 "mean_ratio": 1}])


    def test_ratio_needs_both_measurements(self):
        for measured in ("all-reduce", "gloo-all-reduce"):
            self.assertEqual(comparison_rows([ALL_REDUCE, GLOO], {measured: seconds(1)}), [])


class Runs(unittest.TestCase):
    def test_own_set_up_has_a_coordinator_and_ranks(self):
        run = run_of({**REQUEST, "data_dir": "d"}, ALL_REDUCE)
        self.assertTrue(run.coordinator)
        self.assertEqual(run.ranks[1], [
            "/x/gradwire-worker", "--model", "vgg11", "--dataset", "synthetic", "--data-dir", "d",
            "--batch-size", "8", "--iterations", "4", "--threads", "1", "--augment", "false", "--sync", "all-reduce", "--print-every", "0",
            "--log-jsonl", "/dev/stdout", "--summary", "/dev/stdout",
            "--coordinator", COORDINATOR, "--rank", "1"])

    def test_emulation_is_told_to_workers_and_peers(self):
        for setup in (COMPUTATION, ALL_REDUCE, GLOO):
            ranks = run_of({**REQUEST, "compute_seconds": EMULATED}, setup).ranks
            at = ranks[1].index("--compute-seconds")
            self.assertEqual(ranks[1][at + 1], "0.25,0.5")

    def test_alone_every_rank_is_for_itself(self):
        run = run_of(REQUEST, COMPUTATION)
        self.assertFalse(run.coordinator)
        self.assertEqual(len(run.ranks), 2)
        self.assertNotIn("--rank", run.ranks[1])

    def test_peers_compute_on_the_same_blas(self):
        run = run_of(REQUEST, GLOO)
        self.assertFalse(run.coordinator)
        self.assertEqual(run.ranks[1][2:8],
                         ["--rank", "1", "--world-size", "2", "--master", MASTER])
        self.assertEqual(run.ranks[1][-4:], ["--mode", "all-reduce", "--blas", "/x/libblas.so.3"])
        self.assertNotIn("--blas", run_of({**REQUEST, "blas_path": ""}, GLOO).ranks[1])


EMULATED = {"forward": 0.25, "backward": 0.5, "option": "0.25,0.5"}
LAYOUT = json.dumps({"buckets": [{"bytes": 3000, "averaged": True}, {"bytes": 7, "averaged": False},
                                 {"bytes": 1000, "averaged": True}]})


class FakeRunner:
    """Gives these outputs of ranks, one after the other, and then a Failure."""

    def __init__(self, *outputs):
        self.outputs = list(outputs)
        self.tried = []

    def try_out(self, argv):
        self.tried.append(argv)
        return LAYOUT

    def run(self, _):
        if not self.outputs:
            raise Failure("rank 0 broke")
        return Outputs(self.outputs.pop(0))


class Measure(unittest.TestCase):
    def measure(self, runner, **changes):
        self.report = Report("", "", {})
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                bench_training.measure({**REQUEST, **changes}, runner, self.report)
            finally:
                self.said = said.getvalue()

    def rows(self):
        return [(row["setup"], row["iterations"]) for row in self.report.parts[0].rows]

    def test_set_ups_have_their_turns(self):
        rank = line(9) + line(1) + LAST
        self.measure(FakeRunner(*[[rank, rank]] * 4))
        self.assertEqual(self.report.title, "Training vgg11, 2 ranks, batch 8 per rank")
        self.assertEqual(self.rows(), [("computation", 2), ("all-reduce", 2)])
        self.assertEqual([part.key for part in self.report.parts], ["setups"])  # no peers, no ratios
        self.assertEqual(self.said.splitlines()[1],
                         "round 1 of 2  all-reduce           p50 so far 1.000 s")

    def test_slow_kernels_are_said_before_the_rounds(self):
        rank = line(9) + line(1) + LAST
        self.measure(FakeRunner(*[[rank, rank]] * 4), blas_warning="OpenBLAS is slow")
        self.assertEqual(self.said.splitlines()[0], "warning: OpenBLAS is slow")

    def test_model_and_data_are_tried_out_first(self):
        runner = FakeRunner()
        with self.assertRaises(Failure):
            self.measure(runner, model_options=["--model", "vgg16", "--hidden", "8"])
        self.assertEqual(runner.tried, [["/x/gradwire-layout", "--model", "vgg16", "--hidden", "8",
                                         "--dataset", "synthetic"]])

    def test_failure_names_round_and_set_up_and_keeps_what_was_measured(self):
        rank = line(9) + line(1) + LAST
        with self.assertRaisesRegex(Failure, "^round 2, all-reduce: rank 0 broke$"):
            self.measure(FakeRunner(*[[rank, rank]] * 3))
        self.assertEqual(self.rows(), [("computation", 2), ("all-reduce", 1)])

    def test_bound_stands_in_no_report_without_measurements(self):
        with self.assertRaisesRegex(Failure, "^round 1, computation: rank 0 broke$"):
            self.measure(FakeRunner(), compute_seconds=EMULATED, ring_seconds_per_byte=1e-3)
        self.assertEqual(self.rows(), [])

    def test_ranks_that_differ_fail_at_the_end(self):
        ranks = [line(9) + line(1) + LAST + summary(sha256) for sha256 in "ab"]
        with self.assertRaisesRegex(
                Failure, "^all-reduce: the ranks of one run ended with different parameters$"):
            self.measure(FakeRunner(*[ranks] * 4))
        self.assertEqual(self.rows(), [("computation", 2), ("all-reduce", 2)])

    def test_ranks_that_train_alone_and_peers_may_differ(self):
        ranks = [line(9) + line(1) + LAST + summary(sha256) for sha256 in "ab"]
        self.measure(FakeRunner(*[ranks] * 4), setups=[COMPUTATION, GLOO])
        self.assertEqual(self.rows(), [("computation", 2), ("gloo-all-reduce", 2)])

    def test_peers_have_a_table_of_ratios(self):
        rank = line(9) + line(1) + LAST
        self.measure(FakeRunner([rank], [rank]), setups=[ALL_REDUCE, GLOO], rounds=1)
        self.assertEqual([part.key for part in self.report.parts], ["setups", "comparisons"])
        ratios = self.report.parts[1]
        self.assertEqual([(row["setup"], row["peer"], row["ratio"]) for row in ratios.rows],
                         [("all-reduce", "gloo-all-reduce", 1.0)])
        self.assertEqual({column.field for column in ratios.columns}, set(ratios.rows[0]))

    def test_emulated_computation_is_said_and_has_its_bound(self):
        rank = line(9) + line(1) + LAST
        for per_byte, bound, why in ((1e-5, 0.75, "computation"), (1e-3, 4, "transfer")):
            self.measure(FakeRunner([rank] * 2, [rank] * 2), rounds=1, compute_seconds=EMULATED,
                         ring_seconds_per_byte=per_byte)
            self.assertEqual(self.report.title,
                             "Training vgg11, 2 ranks, batch 8 per rank, computation emulated")
            self.assertIn("EMULATED", self.report.notes[0])
            row = self.report.parts[0].rows[-1]
            self.assertEqual((row["setup"], row["p50_seconds"]), (f"bound ({why})", bound))
            self.assertAlmostEqual(row["over_computation_seconds"], bound - 0.75)
        self.assertEqual(self.report.parts[0].rows[-1]["efficiency_percent"], 75 / 4)

    def test_bound_needs_emulation_and_the_links_speed(self):
        rank = line(9) + line(1) + LAST
        for changes in ({"compute_seconds": EMULATED}, {"ring_seconds_per_byte": 1e-3}):
            self.measure(FakeRunner([rank] * 2, [rank] * 2), rounds=1, **changes)
            self.assertEqual(self.rows(), [("computation", 1), ("all-reduce", 1)])

    def test_layout_that_is_none_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "^gradwire-layout printed no layout: hello$"):
            bench_training.gradient_bytes("hello")


if __name__ == "__main__":
    unittest.main()
