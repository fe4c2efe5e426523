"""cli/plan/plan.py: what it says of a run that is to be."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCES))
from cli.plan.plan import HOST_NOTES, Plan, run, steps_per_epoch, whole
from cli.runs.failure import Failure

GRADIENT = 36924456
LAYOUT = {"parameters": [{"name": "a", "shape": [2, 3]}, {"name": "b", "shape": []}],
          "buckets": [{"bytes": GRADIENT, "averaged": True}, {"bytes": 22080, "averaged": False}]}
COORDINATOR = {"name": "coordinator", "average": {"worker": 1, "host": 1, "coordinator": 4},
               "broadcast": {"worker": 1, "host": 1, "coordinator": 4}}
RING = {"name": "ring", "average": {"worker": 1.5, "host": 1.5, "coordinator": 0},
        "broadcast": {"worker": 1, "host": 1, "coordinator": 0}}
# Two hosts with two workers each.
RING_OF_PAIRS = {"name": "ring", "average": {"worker": 1.5, "host": 1.25, "coordinator": 0},
                 "broadcast": {"worker": 1, "host": 1, "coordinator": 0}}
UNKNOWN = {"name": "gloo", "average": {"worker": 1.5, "host": None, "coordinator": 0},
           "broadcast": {"worker": 1, "host": None, "coordinator": 0}}
MEASURED = {"sync": "all-reduce", "backend": "ring", "iteration_seconds": 1.5,
            "exposed_seconds": 0.5, "bytes_sent_per_step": 100.4, "trained_parameters": 0}


# VGG-11 on four workers.
REQUEST = {"command": "gradwire plan", "model": "vgg11", "workers": 4, "per_host": 1, "link_gbit": 1.0,
           "seconds_per_byte": 1e-8, "wire": "fp32", "element_bytes": 4, "batch_size": 64,
           "samples": None, "compute_seconds": None, "interval": 0, "overlaps": True,
           "measured": None,
           "backends": [COORDINATOR, RING]}


def plan_of(layout=None, **changes):
    return Plan({**REQUEST, **changes}, LAYOUT | (layout or {})).report()


def rows(report):
    return report.parts[0].rows


def fields(report):
    return [column.field for column in report.parts[0].columns]


class PlanTest(unittest.TestCase):
    def test_backends_have_their_bytes(self):
        through, ring = rows(plan_of())
        self.assertEqual(through["worker_bytes"], GRADIENT + 22080)
        self.assertEqual(through["coordinator_bytes"], 4 * (GRADIENT + 22080))
        self.assertEqual(ring["worker_bytes"], 55386684 + 22080)
        self.assertEqual(ring["coordinator_bytes"], 0)

    def test_columns_and_kinds_of_buckets_are_those_of_the_request(self):
        report = plan_of()
        self.assertEqual(fields(report), ["backend", "worker_bytes", "coordinator_bytes",
                                          "transfer_seconds"])
        self.assertEqual([(row["bucket"], row["what"]) for row in report.parts[1].rows],
                         [(0, "gradients, averaged"), (1, "buffers, rank 0's")])

    def test_models_that_go_every_ten_steps_are_a_tenth_of_the_bytes(self):
        report = plan_of(interval=10)
        ring = rows(report)[1]
        self.assertEqual(ring["worker_bytes"], round((55386684 + 22080) / 10))
        self.assertAlmostEqual(ring["transfer_seconds"], (55386684 + 22080) * 1e-9)
        self.assertEqual(report.parts[1].rows[0]["what"], "models, averaged")
        self.assertEqual(report.environment["exchange"],
                         "after every 10 steps; bytes and transfer are means of a step")

    def test_transfer_takes_as_long_as_the_busiest_link(self):
        through, ring = rows(plan_of())
        self.assertAlmostEqual(through["transfer_seconds"], 4 * (GRADIENT + 22080) * 1e-8)
        self.assertAlmostEqual(ring["transfer_seconds"], (55386684 + 22080) * 1e-8)

    def test_workers_of_a_host_share_its_link(self):
        report = plan_of(per_host=2, backends=[RING_OF_PAIRS, UNKNOWN], samples=50000)
        ring, unknown = rows(report)
        self.assertEqual(ring["worker_bytes"], 55386684 + 22080)
        self.assertEqual(ring["host_bytes"], GRADIENT * 5 // 4 + 22080)
        self.assertAlmostEqual(ring["transfer_seconds"], (GRADIENT * 5 // 4 + 22080) * 1e-8)
        self.assertEqual(unknown["worker_bytes"], 55386684 + 22080)
        self.assertTrue({"host_bytes", "transfer_seconds", "epoch_seconds"}.isdisjoint(unknown))
        self.assertIn("host_bytes", fields(report))
        self.assertNotIn("host_bytes", fields(plan_of()))
        self.assertEqual([HOST_NOTES[0] in one.notes for one in (report, plan_of())],
                         [True, False])
        self.assertEqual(report.environment["workers on a host"], 2)
        self.assertNotIn("workers on a host", plan_of().environment)

    def test_half_type_halves_gradients_but_not_buffers(self):
        report = plan_of(wire="bf16", element_bytes=2)
        self.assertEqual(rows(report)[1]["worker_bytes"], 55386684 // 2 + 22080)
        self.assertEqual([row["bytes"] for row in report.parts[1].rows], [GRADIENT // 2, 22080])

    def test_buckets_say_what_is_in_them(self):
        self.assertEqual([row["what"] for row in plan_of().parts[1].rows],
                         ["gradients, averaged", "buffers, rank 0's"])

    def test_times_of_people_have_milliseconds_and_epochs_tenths(self):
        text = plan_of(samples=50000, compute_seconds=0.7, measured=MEASURED).markdown()
        (ring,) = [line for line in text.splitlines() if line.startswith("| ring")]
        numbers = [cell.strip() for cell in ring.split("|")[4:-1]]
        self.assertEqual(numbers, ["0.554", "1.254", "0.700", "10,860,117,744", "137.2", "1.500", "0.500",
                                   "100"])

    def test_computation_gives_both_bounds(self):
        report = plan_of(compute_seconds=0.7)
        through, ring = rows(report)
        self.assertEqual(ring["barrier_seconds"], 0.7 + ring["transfer_seconds"])
        self.assertEqual(ring["overlap_seconds"], 0.7)
        self.assertEqual(through["overlap_seconds"], through["transfer_seconds"])
        self.assertIn("overlap_seconds", fields(report))
        self.assertNotIn("overlap_seconds", fields(plan_of()))

    def test_samples_give_an_epoch(self):
        self.assertNotIn("epoch_seconds", fields(plan_of()))
        for report in (plan_of(samples=50000), plan_of({"samples": 50000})):
            self.assertIn("epoch_seconds", fields(report))
            ring = rows(report)[1]
            self.assertEqual(ring["worker_bytes_per_epoch"], 196 * (55386684 + 22080))
            self.assertEqual(ring["epoch_seconds"], 196 * ring["transfer_seconds"])
            self.assertEqual(report.environment["epoch"], "50000 samples, 196 steps, of transfer alone")

    def test_samples_that_are_given_win(self):
        report = plan_of({"samples": 50000}, samples=10, compute_seconds=0.7)
        self.assertEqual(report.environment["epoch"], "10 samples, 1 steps with overlap")
        self.assertEqual(rows(report)[1]["epoch_seconds"], 0.7)

    def test_epoch_of_a_sync_without_overlap_has_a_barrier_in_each_step(self):
        report = plan_of(samples=50000, compute_seconds=0.7, overlaps=False)
        ring = rows(report)[1]
        self.assertEqual(ring["epoch_seconds"], 196 * (0.7 + ring["transfer_seconds"]))
        self.assertEqual(report.environment["epoch"], "50000 samples, 196 steps with a barrier")

    def test_measured_run_stands_beside_its_back_end(self):
        report = plan_of(measured=MEASURED)
        through, ring = rows(report)
        self.assertNotIn("measured_seconds", through)
        self.assertEqual((ring["measured_seconds"], ring["measured_exposed_seconds"],
                          ring["measured_bytes"]), (1.5, 0.5, 100))
        self.assertIn("measured_seconds", fields(report))
        self.assertEqual(report.environment["measured"], "sync all-reduce, backend ring")
        self.assertNotIn("measured_seconds", fields(plan_of()))

    def test_measured_run_of_another_model_is_refused(self):
        layout = {"parameters": [{"name": "a", "shape": [2, 3]}, {"name": "frozen", "shape": [8]}],
                  "buckets": [{"bytes": 24, "averaged": True, "tensors": ["a"]},
                              {"bytes": 4, "averaged": True, "tensors": ["mean"]}]}
        plan_of(layout, measured=MEASURED | {"trained_parameters": 6})
        plan_of(layout, measured=MEASURED)  # its number is not known
        # Neither is known of a program's own model, or of a layout without names.
        plan_of(layout, measured=MEASURED | {"trained_parameters": 0})
        plan_of(measured=MEASURED | {"trained_parameters": 14})
        with self.assertRaisesRegex(Failure, "trained 14 parameters, but the model of this plan trains "
                                             "6; give that run's --hidden, --freeze-features"):
            plan_of(layout, measured=MEASURED | {"trained_parameters": 14})

    def test_facts_are_those_of_the_run(self):
        self.assertEqual(plan_of(link_gbit=2.5, compute_seconds=0.7).environment, {
            "model": "vgg11, 7 parameters", "workers": 4,
            "link": "2.5 Gbit/s, both ways at once", "wire": "fp32",
            "batch": "64 per worker, 256 in all",
            "computation alone": "0.700 s an iteration"})

    def test_tensors_of_buckets_are_named(self):
        buckets = [{**LAYOUT["buckets"][0], "tensors": ["b", "a"]}, LAYOUT["buckets"][1]]
        report = plan_of({"buckets": buckets})
        self.assertEqual(report.parts[1].rows[0]["tensors"], ["b", "a"])
        self.assertNotIn("tensors", report.parts[1].rows[1])
        self.assertTrue(report.markdown().endswith(":\n\n- 0: b, a\n"))
        self.assertNotIn("Tensors", plan_of().markdown())

    def test_what_is_no_layout_is_refused(self):
        for layout in ([], {"buckets": []}):
            with self.assertRaisesRegex(Failure, "^got no layout, expected buckets and parameters$"):
                Plan({}, layout)


class Run(unittest.TestCase):
    """With a program in place of gradwire-layout."""

    def run_with(self, script, **files):
        files = {"json": "", "csv": "", "markdown": "", **files}
        request = {**REQUEST, "files": files, "layout_command": ["/bin/sh", "-c", script]}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run(request, lambda: None)
        return printed.getvalue()

    def test_layout_of_the_program_is_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "plan.json")
            printed = self.run_with(f"echo '{json.dumps(LAYOUT)}'", json=str(file))
            self.assertEqual([row["backend"] for row in json.loads(file.read_text())["backends"]],
                             ["coordinator", "ring"])
        self.assertTrue(printed.startswith("## Plan: vgg11 on 4 workers\n\n    gradwire plan\n"))

    def test_program_that_fails_says_why(self):
        with self.assertRaisesRegex(
                Failure, "^gradwire-layout ended with exit code 2:\n  no data$"):
            self.run_with("echo no data >&2; exit 2")

    def test_program_that_prints_something_else_is_told(self):
        for printed in ("hello", "", "[1]", "3"):
            with self.assertRaisesRegex(Failure, "^got no layout, "):
                self.run_with(f"echo '{printed}'")


class Whole(unittest.TestCase):
    def test_part_of_a_byte_is_rounded(self):
        for size, expected in ((0, 0), (0.4, 0), (0.5, 1), (1.5, 2), (2.5, 3)):
            self.assertEqual(whole(size), expected)


class StepsPerEpoch(unittest.TestCase):
    def test_one_sample_is_one_step(self):
        for workers, batch_size in ((1, 1), (1, 64), (8, 1), (8, 64)):
            self.assertEqual(steps_per_epoch(1, workers, batch_size), 1)

    def test_shares_that_do_not_divide_are_filled_up(self):
        self.assertEqual(steps_per_epoch(50000, 4, 64), 196)
        self.assertEqual(steps_per_epoch(5, 2, 3), 1)
        self.assertEqual(steps_per_epoch(7, 2, 3), 2)


if __name__ == "__main__":
    unittest.main()
