"""cli/bench/collective_row.py and bench_collectives.py: rows, and what is run for them."""
import contextlib
import io
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.bench import bench_collectives
from cli.bench.bench_collectives import Case, cases_of, run_of
from cli.bench.collective_row import collective_row
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.report import Report
from cli.runs.runner import COORDINATOR, MASTER, Outputs

WIRES = {"fp32": 4.0, "bf16": 2.0}
RING = {"name": "ring", "is_peer": False, "asked": False, "tls": False, "wires": WIRES, "loads_coordinator": False,
        "least_seconds_per_byte": {"all-reduce": None, "gather": None, "reduce-scatter": None}}
THROUGH = {**RING, "name": "coordinator", "loads_coordinator": True}
MPI = {**RING, "name": "mpi"}
MEMORY = {**RING, "name": "memory"}
PEER = {**RING, "name": "gloo (PyTorch)", "is_peer": True, "wires": {"fp32": 4.0},
        "least_seconds_per_byte": {"all-reduce": None, "gather": None}}
ALL_REDUCE = {"name": "all-reduce", "sums": True, "sizes": [4, 20000], "busbw_factor": 1.0}
REQUEST = {"workers": 2, "peers": True, "ops": [ALL_REDUCE], "backends": [RING, PEER],
           "warmup": 20, "iterations": 3, "seconds_per_size": 0.5,
           "link_gbit": None, "tls": False, "hosts": "", "hostfile": "", "under_mpirun": ["mpi"],
           "one_host": ["memory"],
           "programs": {"collectives": "/x/gradwire-collectives",
                        "make_certificates": "/x/make-certificates",
                        "peers": str(pathlib.Path(__file__).resolve().parents[3] / "bench/peers")}}


def rank(seconds, sent=2000000000, **changes):
    return {"seconds": seconds, "cpu_seconds": 1.0, "bytes_sent": sent, "bytes_received": sent,
            "checked": 10, "wrong": 1, "iterations_in_all": 6, **changes}


TWO = [rank([1, 2, 3]), rank([4, 1, 2])]  # three iterations of 10^9 bytes each


def row_of(backend=RING, ranks=TWO, wire="fp32", busbw_factor=1.0, coordinator=None):
    op = {**ALL_REDUCE, "busbw_factor": busbw_factor}
    return collective_row(Case(1000000000, op, backend, wire), ranks, coordinator)


class CollectiveRow(unittest.TestCase):
    def test_longest_of_each_iteration_counts(self):
        row = row_of()  # 4, 2, 3 s
        self.assertEqual((row["min_us"], row["p50_us"], row["iterations"]), (2e6, 3e6, 3))
        self.assertAlmostEqual(row["p99_us"], 3.98e6)

    def test_bandwidths_are_bytes_over_the_median(self):
        row = row_of(busbw_factor=1.5)
        self.assertEqual((row["algbw_gb_per_s"], row["busbw_gb_per_s"]), (1 / 3, 0.5))
        self.assertEqual(row["count"], 250000000)

    def test_wrong_values_are_those_of_all_ranks(self):
        self.assertEqual(row_of()["wrong"], 2)

    def test_cpu_is_for_what_ranks_sent(self):
        self.assertEqual(row_of()["cpu_seconds_per_gb"], 2 / 4)

    def test_coordinators_cpu_counts_with_its_part_of_the_measured_iterations(self):
        row = row_of(THROUGH, coordinator=4)  # for 6 iterations, of which 3 count
        self.assertEqual(row["cpu_seconds_per_gb"], (2 + 2) / 8)

    def test_coordinator_sends_what_the_ranks_receive(self):
        ranks = [rank([1, 2, 3], 1000000000, bytes_received=3000000000)] * 2
        self.assertEqual(row_of(THROUGH, ranks, coordinator=4)["cpu_seconds_per_gb"], (2 + 2) / 8)

    def test_coordinator_elsewhere_leaves_cpu_unknown(self):
        self.assertIsNone(row_of(THROUGH)["cpu_seconds_per_gb"])

    def test_nothing_sent_leaves_cpu_unknown(self):
        self.assertIsNone(row_of(ranks=[rank([1], 0)])["cpu_seconds_per_gb"])

    def test_cpu_of_a_rank_is_for_its_tensors_even_if_nothing_was_sent(self):
        # Two ranks, three tensors of 10^9 bytes each, 2 s of CPU time in all.
        self.assertEqual(row_of()["cpu_seconds_per_gb_and_rank"], 2 / 6)

    def test_no_link_has_no_bound(self):
        self.assertIsNone(row_of()["bound_percent"])

    def test_link_gives_part_of_the_bound(self):
        ring = {**RING, "least_seconds_per_byte": {"all-reduce": 1e-9}}
        self.assertAlmostEqual(row_of(ring)["bound_percent"], 100 / 3)
        self.assertAlmostEqual(row_of(ring, wire="bf16")["bound_percent"], 50 / 3)

    def test_operation_that_only_copies_travels_as_float32_without_that_wire_too(self):
        ring = {**RING, "wires": {"bf16": 2.0}, "least_seconds_per_byte": {"broadcast": 1e-9}}
        op = {**ALL_REDUCE, "name": "broadcast", "sums": False}
        case, = cases_of({**REQUEST, "ops": [{**op, "sizes": [1000000000]}], "backends": [ring]})
        self.assertAlmostEqual(collective_row(case, TWO, None)["bound_percent"], 100 / 3)

    def test_no_report_names_the_rank(self):
        incomplete = rank([1, 2, 3])
        del incomplete["wrong"]
        odd = [rank([1, 2, seconds]) for seconds in (0, -1, "3", None, True)]
        for other in (None, [], {}, incomplete, rank([1, 2, 3], wrong=False), *odd):
            with self.assertRaisesRegex(Failure, "^rank 1 printed no report$"):
                row_of(ranks=[TWO[0], other])

    def test_unequal_iterations_are_refused(self):
        with self.assertRaisesRegex(Failure, "^rank 1 measured 1 iterations, rank 0 3$"):
            row_of(ranks=[TWO[0], rank([1])])


class Runs(unittest.TestCase):
    def test_every_size_meets_every_back_end_on_its_wires(self):
        self.assertEqual([(case.bytes, case.backend["name"], case.wire)
                          for case in cases_of(REQUEST)],
                         [(size, name, wire) for size in (4, 20000)
                          for name, wire in (("ring", "fp32"), ("ring", "bf16"),
                                             ("gloo (PyTorch)", "fp32"))])

    def test_operations_meet_the_back_ends_that_have_them(self):
        ops = [{**ALL_REDUCE, "name": name, "sums": sums, "sizes": [8]}
               for name, sums in (("gather", False), ("reduce-scatter", True))]
        self.assertEqual([(case.op["name"], case.backend["name"], case.wire)
                          for case in cases_of({**REQUEST, "ops": ops})],
                         [("gather", "ring", "fp32"), ("gather", "gloo (PyTorch)", "fp32"),
                          ("reduce-scatter", "ring", "fp32"), ("reduce-scatter", "ring", "bf16")])

    def test_ranks_get_their_options(self):
        run = run_of(REQUEST, Case(4, ALL_REDUCE, RING, "bf16"))
        self.assertTrue(run.coordinator)
        self.assertEqual(run.ranks[1], [
            "/x/gradwire-collectives", "--coordinator", COORDINATOR, "--rank", "1",
            "--world-size", "2", "--backend", "ring", "--wire", "bf16",
            "--op", "all-reduce", "--bytes", "4",
            "--warmup", "20", "--iterations", "3", "--seconds", "0.5"])

    def test_peers_get_theirs(self):
        run = run_of(REQUEST, Case(4, ALL_REDUCE, PEER, "fp32"))
        self.assertFalse(run.coordinator)
        self.assertEqual(run.ranks[1][2:8],
                         ["--rank", "1", "--world-size", "2", "--master", MASTER])

    def test_tls_is_measured_beside_plain_where_there_is_it(self):
        ring, through = {**RING, "tls": True, "wires": {"fp32": 4.0}}, {**THROUGH, "wires": {"fp32": 4.0}}
        request = {**REQUEST, "backends": [ring, through], "ops": [{**ALL_REDUCE, "sizes": [4]}]}
        self.assertEqual([(case.backend["name"], case.tls) for case in cases_of(request)],
                         [("ring", False), ("ring", True), ("coordinator", False)])

    def test_shared_tensors_are_measured_beside_own_where_an_average_rounds_nothing(self):
        gather = {**ALL_REDUCE, "name": "gather", "sums": False, "sizes": [4]}
        request = {**REQUEST, "backends": [RING, MEMORY],
                   "ops": [{**ALL_REDUCE, "sizes": [4]}, gather]}
        cases = [(case.op["name"], case.wire) for case in cases_of(request) if case.shared]
        self.assertEqual(cases, [("all-reduce", "fp32")])
        self.assertEqual([case.shared for case in cases_of(request)
                          if case.backend is MEMORY and case.op["name"] == "all-reduce" and
                          case.wire == "fp32"], [False, True])

    def test_ranks_with_shared_tensors_are_told(self):
        for shared in (False, True):
            run = run_of(REQUEST, Case(4, ALL_REDUCE, MEMORY, "fp32", shared=shared))
            self.assertEqual("--tensors shared" in " ".join(run.ranks[0]), shared)

    def test_ranks_of_mpi_are_a_job_of_mpirun(self):
        for backend, under_mpirun in ((MPI, True), (RING, False)):
            self.assertEqual(run_of(REQUEST, Case(4, ALL_REDUCE, backend, "fp32")).mpirun,
                             under_mpirun)

    def test_back_end_that_cannot_run_here_is_left_out_with_a_note(self):
        request = {**REQUEST, "backends": [RING, MPI], "hosts": "auto"}
        self.assertEqual({case.backend["name"] for case in cases_of(request)}, {"ring"})
        self.assertIn("Back end mpi was not measured: it runs on this machine alone; on several "
                      "hosts, start the workers with mpirun (docs/deploy/mpi.md).",
                      bench_collectives.notes_of(request))

    def test_back_end_of_one_host_is_left_out_on_several(self):
        for more, names in (({}, {"ring", "memory"}), ({"hosts": "auto"}, {"ring"}),
                            ({"hostfile": "h"}, {"ring"})):
            request = {**REQUEST, "backends": [RING, MEMORY], **more}
            self.assertEqual({case.backend["name"] for case in cases_of(request)}, names)

    def test_back_end_that_was_named_and_cannot_run_here_is_a_failure(self):
        request = {**REQUEST, "backends": [{**MPI, "asked": True}], "hosts": "auto"}
        with self.assertRaisesRegex(Failure, "^--backends: mpi: it runs on this machine"):
            cases_of(request)

    def test_back_end_without_any_of_the_wires_is_left_out_with_a_note(self):
        gloo = {**RING, "name": "gloo", "wires": {}}
        request = {**REQUEST, "backends": [RING, gloo]}
        self.assertIn("Back end gloo was not measured: it carries float32 only.",
                      bench_collectives.notes_of(request))
        named = {**request, "backends": [{**gloo, "asked": True}]}
        with self.assertRaisesRegex(Failure, "^--backends: gloo: it carries float32 only$") as caught:
            cases_of(named)
        self.assertEqual(caught.exception.exit_code, EXIT_USAGE)
        gather = {**ALL_REDUCE, "name": "gather", "sums": False, "sizes": [4]}
        self.assertEqual([case.op["name"] for case in cases_of({**named, "ops": [ALL_REDUCE, gather]})],
                         ["gather"])

    def test_who_has_tls_gets_the_files_and_so_does_the_coordinator(self):
        files = ("--tls-cert", "c", "--tls-key", "k", "--tls-ca", "ca")
        run = run_of(REQUEST, Case(4, ALL_REDUCE, RING, "fp32", True), files)
        self.assertEqual(run.coordinator_options, files)
        for argv in run.ranks:
            self.assertIn(" ".join(files), " ".join(argv))
        plain = run_of(REQUEST, Case(4, ALL_REDUCE, RING, "fp32"), files)
        self.assertEqual(plain.coordinator_options, ())
        self.assertNotIn("--tls-cert", plain.ranks[0])

    def test_no_peers_script_is_told(self):
        request = {**REQUEST, "programs": {"peers": "/no/folder"}}
        with self.assertRaisesRegex(Failure, "^no '/no/folder/gloo_collectives.py'; it is built"):
            run_of(request, Case(4, ALL_REDUCE, PEER, "fp32"))


class FakeRunner:
    """Gives the same outputs each time; a Failure after `most` runs."""

    def __init__(self, outputs, most=100):
        self.outputs = outputs
        self.most = most
        self.tried = self.made = None
        self.runs = []

    def try_out(self, argv):
        self.tried = argv

    def run_here(self, _, argv):
        self.made = argv

    def run(self, run):
        self.runs.append(run)
        self.most -= 1
        if self.most < 0:
            raise Failure("rank 0 broke")
        return Outputs(self.outputs)


class Measure(unittest.TestCase):
    def measure(self, runner, **changes):
        self.report = Report("", "", {})
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                bench_collectives.measure({**REQUEST, **changes}, runner, self.report)
            finally:
                self.said = said.getvalue()

    def test_rows_and_progress_are_there(self):
        right = json.dumps(rank([0.001, 0.002], wrong=0))
        self.measure(FakeRunner([right, right]), ops=[{**ALL_REDUCE, "sizes": [4]}],
                     backends=[RING])
        self.assertEqual(self.report.title, "Collectives, 2 ranks")
        self.assertEqual([row["wire"] for row in self.report.parts[0].rows], ["fp32", "bf16"])
        self.assertEqual(self.said.splitlines()[0],
                         "all-reduce                4 B  ring           fp32  p50 1500.0 us  busbw 0.0000 GB/s"
                         "  (2 iterations only)")

    def test_iterations_are_said_if_they_are_fewer_than_asked(self):
        for count in (1, REQUEST["iterations"]):
            right = json.dumps(rank([0.001] * count, wrong=0))
            self.measure(FakeRunner([right]), ops=[{**ALL_REDUCE, "sizes": [4]}],
                         backends=[{**RING, "wires": {"fp32": 4.0}}])
            self.assertEqual("iterations only" in self.said, count < REQUEST["iterations"])

    def test_rows_with_tls_are_named_and_certificates_are_of_this_machine(self):
        right = json.dumps(rank([0.001], wrong=0))
        runner = FakeRunner([right, right])
        self.measure(runner, ops=[{**ALL_REDUCE, "sizes": [4]}], tls=True,
                     backends=[{**RING, "tls": True, "wires": {"fp32": 4.0}}])
        part = self.report.parts[0]
        self.assertEqual([row["tls"] for row in part.rows], ["no", "yes"])
        self.assertIn("tls", [column.field for column in part.columns])
        self.assertEqual((runner.made[0], runner.made[-1]), ("/x/make-certificates", "127.0.0.1"))
        folder = runner.made[runner.made.index("--out") + 1]
        words = ["--tls-cert", f"{folder}/127.0.0.1.pem", "--tls-key", f"{folder}/127.0.0.1.key",
                 "--tls-ca", f"{folder}/ca.pem"]
        plain, encrypted = ([*run.ranks[0], *run.coordinator_options] for run in runner.runs)
        self.assertFalse(set(words) & set(plain))
        at = encrypted.index("--tls-cert")
        self.assertEqual(encrypted[at:at + 6], words)
        self.assertEqual(list(runner.runs[1].coordinator_options), words)
        self.assertIn('Rows with tls "yes" have encrypted connections between all processes.',
                      self.report.notes)
        self.assertIn("fp32  TLS  p50", self.said.splitlines()[1])

    def test_program_is_tried_out_and_no_certificates_are_made_without_tls(self):
        runner = FakeRunner([json.dumps(rank([0.001], wrong=0))])
        self.measure(runner, ops=[{**ALL_REDUCE, "sizes": [4]}],
                     backends=[{**RING, "wires": {"fp32": 4.0}}])
        self.assertEqual(runner.tried, ["/x/gradwire-collectives", "--help"])
        self.assertIsNone(runner.made)

    def test_rows_with_shared_tensors_are_named_and_explained(self):
        right = json.dumps(rank([0.001], wrong=0))
        self.measure(FakeRunner([right, right]), ops=[{**ALL_REDUCE, "sizes": [4]}],
                     backends=[{**MEMORY, "wires": {"fp32": 4.0}}])
        part = self.report.parts[0]
        self.assertEqual([row["tensors"] for row in part.rows], ["own", "shared"])
        self.assertIn("tensors", [column.field for column in part.columns])
        self.assertIn("fp32  shared tensors  p50", self.said.splitlines()[1])
        self.assertIn('Tensors "shared" lie in memory', " ".join(self.report.notes))

    def test_wrong_values_fail_at_the_end(self):
        wrong = json.dumps(rank([1, 1, 1]))
        with self.assertRaisesRegex(Failure, '^12 values were wrong; see column "wrong"$'):
            self.measure(FakeRunner([wrong, wrong]))
        self.assertEqual(len(self.report.parts[0].rows), 6)
        self.assertIn("WRONG VALUES", self.said)

    def test_failure_names_size_and_back_end_and_keeps_what_was_measured(self):
        right = json.dumps(rank([1, 1, 1], wrong=0))
        with self.assertRaisesRegex(Failure, "^all-reduce, 4 bytes, ring: rank 0 broke$"):
            self.measure(FakeRunner([right, right], most=1))
        self.assertEqual(len(self.report.parts[0].rows), 1)

    def test_output_that_is_no_json_is_no_report(self):
        with self.assertRaisesRegex(Failure, "^all-reduce, 4 bytes, ring: rank 0 printed no report$"):
            self.measure(FakeRunner(["hello", "hello"]))

    def test_notes_are_of_limits_and_links_that_there_are(self):
        right = json.dumps(rank([1, 1, 1], wrong=0))
        self.measure(FakeRunner([right, right]), seconds_per_size=0)
        self.assertEqual(len(self.report.notes), 1)
        self.measure(FakeRunner([right, right]), seconds_per_size=60.0, link_gbit=1)
        self.assertIn("more than 60 s;", self.report.notes[1])
        self.assertRegex(self.report.notes[2], "^% of bound: ")
        self.assertEqual(len(self.report.notes), 3)

    def test_root_is_told_if_one_operation_has_it(self):
        gather = {**ALL_REDUCE, "name": "gather", "sums": False}
        for ops, told in (([ALL_REDUCE], False), ([ALL_REDUCE, gather], True)):
            notes = bench_collectives.notes_of({**REQUEST, "ops": ops})
            self.assertEqual(any(note.startswith("Rank 0 is the root") for note in notes), told)

    def test_bound_that_a_coordinator_beside_rank_0_can_beat_is_explained(self):
        right = json.dumps(rank([1, 1, 1], wrong=0))
        self.measure(FakeRunner([right, right]), link_gbit=1, hosts="auto")
        self.assertIn("may be quicker", self.report.notes[-1])


if __name__ == "__main__":
    unittest.main()
