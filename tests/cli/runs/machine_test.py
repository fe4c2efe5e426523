"""cli/runs/machine.py, cpu_sampler.py and quantiles.py: what is read and computed."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.cpu_sampler import CpuSampler, cpu_ticks
from cli.runs.machine import cpu_model, describe_machine
from cli.runs.quantiles import median, quantile


class Machine(unittest.TestCase):
    def test_cpu_model_is_the_first(self):
        self.assertEqual(cpu_model("processor : 0\nmodel name\t: Fast 9\nmodel name\t: Slow 1\n"),
                         "Fast 9")
        self.assertEqual(cpu_model(""), "unknown")

    def test_machine_has_what_figures_depend_on(self):
        machine = describe_machine({"grpc": "1.51"})
        self.assertEqual(list(machine), ["date", "cores", "cpu", "kernel", "grpc"])
        self.assertRegex(machine["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        self.assertRegex(machine["kernel"], "^Linux ")
        self.assertGreater(machine["cores"], 0)


class CpuTicks(unittest.TestCase):
    def test_line_of_the_program_adds_user_and_system(self):
        stat = "12 (gradwire-coordi) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0"
        self.assertEqual(cpu_ticks(stat, "gradwire-coordinator"), 730)

    def test_another_program_is_none(self):
        self.assertIsNone(cpu_ticks("12 (ip) S 1 2 3 4 5 6 7 8 9 10 700 30 0", "gradwire-x"))
        self.assertIsNone(cpu_ticks("", "gradwire-x"))


class Sampler(unittest.TestCase):
    def test_this_process_has_a_time(self):
        cpu = CpuSampler(pathlib.Path("/proc/self/comm").read_text().strip())
        self.assertIsNone(cpu.seconds)
        cpu.sample(os.getpid())
        self.assertEqual(cpu.seconds, 0)

    def test_process_that_is_no_more_gives_nothing(self):
        cpu = CpuSampler("x")
        cpu.sample(2**22)  # above the highest id
        self.assertIsNone(cpu.seconds)


class Quantiles(unittest.TestCase):
    def test_between_two_values_it_is_interpolated(self):
        self.assertEqual(quantile([4, 1, 2, 3], 0.9), 3.7)
        self.assertEqual(median([4, 1, 2, 3]), 2.5)

    def test_ends_are_the_extremes(self):
        self.assertEqual((quantile([2, 1, 3], 0), quantile([2, 1, 3], 1)), (1, 3))

    def test_no_values_have_none(self):
        self.assertIsNone(median([]))


if __name__ == "__main__":
    unittest.main()
