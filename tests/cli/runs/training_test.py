"""cli/runs/training.py and coordinator.py: how ranks that train start, and what they print."""
import contextlib
import importlib.metadata
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests/support")]
from cli.runs.coordinator import bound_addresses, parse_addresses
from cli.runs.failure import Failure
from cli.runs.runner import COORDINATOR, MASTER, PYTHON
from cli.runs.training import (TO_STDOUT, alone, collective_ranks, is_number, parse_output, parse_ranks,
                               peers_of, ranks_of, steps_per_epoch, training_peers_of,
                               warn_of_slow_blas)
from logs import log_line, log_text

EPOCH = '{"kind":"epoch","epoch":0}\n'
SUMMARY = '{\n  "rank": 0\n}\n'


class Addresses(unittest.TestCase):
    def test_each_line_names_one(self):
        self.assertEqual(parse_addresses("grpc=127.0.0.1:7\nmetrics=[::1]:8\n"),
                         {"grpc": "127.0.0.1:7", "metrics": "[::1]:8"})

    def test_file_that_is_not_there_yet_has_none(self):
        self.assertEqual(bound_addresses("/no/such/file"), {})

    def test_file_is_read(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("grpc=h:1\n")
            file.flush()
            self.assertEqual(bound_addresses(file.name), {"grpc": "h:1"})


class Starts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "gloo_training.py").touch()
        self.request = {"under_mpirun": ["mpi"], "programs": {"worker": "/bin/worker", "peers": str(self.folder)},
                        "blas_path": ""}

    def test_ranks_meet_at_a_coordinator(self):
        run = ranks_of(self.request, ["--model", "mlp"], 2)
        self.assertTrue(run.coordinator)
        self.assertEqual(run.ranks, [
            ["/bin/worker", "--model", "mlp", *TO_STDOUT, "--coordinator", COORDINATOR, "--rank",
             str(rank)] for rank in (0, 1)])

    def test_coordinator_says_what_it_did_only_if_gradients_go_through_it(self):
        told = ("--aggregation-summary", "/dev/stdout")
        for argv, options in ((["--backend", "coordinator"], told), (["--backend", "ring"], ()),
                              (["--model", "x", "--backend", "coordinator", "--lr", "1"], told),
                              (["--name", "coordinator"], ())):
            self.assertEqual(ranks_of(self.request, argv, 2).coordinator_options, options)

    def test_back_end_that_mpirun_starts_is_started_by_it(self):
        programs = {**self.request["programs"], "collectives": "/bin/collectives"}
        request = {**self.request, "programs": programs}
        for backend in ("mpi", "ring"):
            options = ["--backend", backend]
            for run in (ranks_of(request, options, 2), collective_ranks(request, 2, options)):
                self.assertEqual(run.mpirun, backend == "mpi")

    def test_collectives_get_their_rank_and_the_coordinator_its_options(self):
        self.request["programs"]["collectives"] = "/bin/collectives"
        run = collective_ranks(self.request, 2, ["--bytes", 4096], ("--a", "b"))
        self.assertEqual(run.ranks[1], ["/bin/collectives", "--coordinator", COORDINATOR, "--rank", "1",
                                        "--world-size", "2", "--bytes", "4096"])
        self.assertEqual((len(run.ranks), run.coordinator_options), (2, ("--a", "b")))

    def test_epoch_is_of_whole_batches_of_equal_shares(self):
        for samples, workers, batch, steps in ((100, 1, 10, 10), (101, 1, 10, 11), (101, 2, 51, 1),
                                               (103, 2, 51, 2), (3, 4, 8, 1)):
            self.assertEqual(steps_per_epoch(samples, workers, batch), steps)

    def test_one_alone_is_one(self):
        self.assertEqual(len(alone(self.request, []).ranks), 1)

    def test_alone_each_has_neither_rank_nor_coordinator(self):
        run = alone(self.request, ["--model", "mlp"], 2)
        self.assertFalse(run.coordinator)
        self.assertEqual(run.ranks, [["/bin/worker", "--model", "mlp", *TO_STDOUT]] * 2)

    def test_peers_meet_at_the_first_of_them(self):
        run = training_peers_of(self.request, ["--lr", "1"], 2)
        self.assertFalse(run.coordinator)
        self.assertEqual(run.ranks[1], [
            PYTHON, str(self.folder / "gloo_training.py"), "--rank", "1", "--world-size", "2",
            "--master", MASTER, "--lr", "1"])

    def test_peers_name_their_pytorch(self):
        for error, version in ((None, "2.6"), (importlib.metadata.PackageNotFoundError, "")):
            with mock.patch.object(importlib.metadata, "version", return_value="2.6",
                                   side_effect=error):
                self.assertEqual(training_peers_of(self.request, [], 2).inputs, (version,))

    def test_peers_compute_on_the_workers_blas_if_it_is_known(self):
        self.request["blas_path"] = "/lib/libblas.so.3"
        for argv in training_peers_of(self.request, [], 2).ranks:
            self.assertEqual(argv[-2:], ["--blas", "/lib/libblas.so.3"])

    def test_peers_that_are_not_installed_are_told(self):
        with self.assertRaisesRegex(Failure, "^no '.*/other.py'; it is built and installed"):
            peers_of(self.request, "other.py", [], 1)


class Output(unittest.TestCase):
    def assert_refused(self, message, *texts):
        with self.assertRaises(Failure) as told:
            parse_ranks(texts)
        self.assertEqual(str(told.exception), message)

    def test_records_and_summary_are_told_apart(self):
        output = parse_output(log_text(0, 2, 0.25) + EPOCH + SUMMARY)
        self.assertEqual((output.seconds, output.summary), ([0.25, 0.25], {"rank": 0}))

    def test_recovery_after_a_pause_is_no_iteration(self):
        recovery = '{"kind":"recovery","rank":0,"generation":2,"lost_ranks":[]}\n'
        output = parse_output(log_line(0, 0, 0.25) + recovery + log_line(0, 1, 0.5) + SUMMARY)
        self.assertEqual((output.seconds, output.summary), ([0.25, 0.5], {"rank": 0}))

    def test_without_a_summary_it_is_empty(self):
        self.assertEqual(parse_output(log_text(0, 1)).summary, {})

    def test_nothing_printed_is_no_iteration(self):
        output = parse_output("")
        self.assertEqual((output.records, output.summary), ([], {}))

    def test_phase_has_the_iterations_in_which_it_was_measured(self):
        lines = [log_line(0, 0), log_line(0, 1, phase_seconds={}), log_line(0, 2)]
        odd = json.dumps({"iteration_seconds": 1, "phase_seconds": {"forward": None}}) + "\n"
        output = parse_output("".join(lines) + odd)
        self.assertEqual(output.phase("forward"), [0.1, 0.1])
        self.assertEqual(output.phase("unknown"), [])

    def test_numbers_are_no_truths_and_no_texts(self):
        for value, expected in ((1, True), (0.5, True), (True, False), ("1", False), (None, False)):
            self.assertIs(is_number(value), expected)

    def test_other_output_names_rank_and_line(self):
        self.assert_refused("rank 1 printed a line that is no JSON object: hello",
                            log_text(0, 1), "hello\n")
        self.assert_refused("rank 0 printed a line that is no JSON object: [1]", "[1]\n")

    def test_iteration_without_its_time_is_refused(self):
        for seconds in (None, True, "1"):
            self.assert_refused("rank 0 printed an iteration without iteration_seconds",
                                json.dumps({"iteration_seconds": seconds}) + "\n")

    def test_summary_that_is_cut_off_is_refused(self):
        self.assert_refused("rank 0 printed a summary that is no JSON object",
                            log_text(0, 1) + SUMMARY[:-3])

    def test_ranks_with_different_numbers_are_refused(self):
        self.assert_refused("rank 2 printed 1 iterations, rank 0 2",
                            log_text(0, 2), log_text(1, 2), log_text(2, 1))

    def test_slow_kernels_are_said_once_and_others_are_not(self):
        for warning, said in (("", ""), ("OpenBLAS is slow", "warning: OpenBLAS is slow\n")):
            with contextlib.redirect_stderr(io.StringIO()) as err:
                warn_of_slow_blas({"blas_warning": warning})
            self.assertEqual(err.getvalue(), said)

    def test_ranks_come_in_their_order(self):
        outputs = parse_ranks([log_text(rank, 1, 1 + rank) for rank in range(3)])
        self.assertEqual([output.seconds for output in outputs], [[1], [2], [3]])


if __name__ == "__main__":
    unittest.main()
