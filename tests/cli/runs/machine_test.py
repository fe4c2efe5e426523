"""cli/runs/machine.py, cpu_sampler.py and quantiles.py: what is read and computed."""
import math
import os
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.cpu_sampler import CpuSampler, cpu_ticks
from cli.runs.machine import describe_environment, describe_machine
from cli.runs.quantiles import mean, median, quantile


class Machine(unittest.TestCase):
    def test_cpu_model_is_the_first(self):
        for lines, expected in (
                (["processor : 0", "model name\t: Fast 9", "model name\t: Slow 1"], "Fast 9"),
                ([], "unknown")):
            with mock.patch("cli.runs.machine.lines_of", return_value=lines):
                self.assertEqual(describe_machine({})["cpu"], expected)

    def test_machine_has_what_figures_depend_on(self):
        machine = describe_machine({"grpc": "1.51"})
        self.assertEqual(list(machine), ["date", "cores", "cpu", "kernel", "grpc"])
        self.assertRegex(machine["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        self.assertRegex(machine["kernel"], "^Linux ")
        self.assertGreater(machine["cores"], 0)

    def test_cores_are_those_that_a_container_leaves(self):
        with mock.patch.object(os, "sched_getaffinity", lambda pid: range(7)):
            request = {"versions": {}, "hosts": "", "hostfile": "", "link_gbit": None}
            for more, cores in (({}, 7), ({"cores": 2}, 2)):
                self.assertEqual(describe_environment({**request, **more}, None)["cores"], cores)

    def test_environment_tells_hosts_link_and_peers(self):
        here = {"versions": {"grpc": "1"}, "hosts": "", "hostfile": "", "link_gbit": None}
        for changes, torch, expected in (
                ({}, None, (None, "all processes on this machine", "unshaped")),
                ({"hosts": "bed"}, "1.13", ("1.13", "a host for each rank", "unshaped")),
                ({"hosts": "bed", "link": [{"rate": "1gbit"}, {"rate": "100mbit"}]}, None,
                 (None, "a host for each rank", "1gbit, 100mbit")),
                ({"link": [{"rate": "1gbit"}]}, None,
                 (None, "all processes on this machine", "unshaped")),
                ({"hostfile": "f", "link_gbit": 2.5}, None,
                 (None, "a host for each rank", "2.5 Gbit/s"))):
            told = describe_environment({**here, **changes}, torch)
            self.assertEqual((told.get("pytorch"), told["hosts"], told["link"]), expected)


class CpuTicks(unittest.TestCase):
    def test_line_of_the_program_adds_user_and_system(self):
        stat = "12 (gradwire-coordi) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0"
        self.assertEqual(cpu_ticks(stat, "gradwire-coordinator"), 730)

    def test_another_program_is_none(self):
        self.assertIsNone(cpu_ticks("12 (ip) S 1 2 3 4 5 6 7 8 9 10 700 30 0", "gradwire-x"))
        self.assertIsNone(cpu_ticks("", "gradwire-x"))

    def test_name_with_brackets_and_spaces_is_whole(self):
        stat = "12 (a) S (b) R 1 2 3 4 5 6 7 8 9 10 5 6"
        self.assertEqual(cpu_ticks(stat, "a) S (b"), 11)

    def test_line_that_is_cut_off_is_none(self):
        self.assertIsNone(cpu_ticks("12 (a) S 1 2 3 4 5 6 7 8 9 10 700", "a"))


class Sampler(unittest.TestCase):
    def test_this_process_has_a_time(self):
        cpu = CpuSampler(pathlib.Path("/proc/self/comm").read_text().strip())
        self.assertIsNone(cpu.seconds)
        cpu.sample(os.getpid())
        self.assertEqual(cpu.seconds, 0)

    def test_time_is_what_came_between_first_and_last_sample(self):
        stats = [f"12 ({name}) S 1 2 3 4 5 6 7 8 9 10 {ticks} 0"
                 for name, ticks in (("sh", 900), ("prog", 1000), ("prog", 1100), ("prog", 1250))]
        cpu = CpuSampler("prog")
        with mock.patch.object(pathlib.Path, "read_text", side_effect=stats):
            for _ in stats:
                cpu.sample(12)
        self.assertEqual(cpu.seconds, 250 / os.sysconf("SC_CLK_TCK"))

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

    def test_one_value_is_every_quantile(self):
        self.assertEqual([quantile([7], fraction) for fraction in (0, 0.5, 0.99, 1)], [7] * 4)

    def test_values_are_left_in_their_order(self):
        values = [3, 1, 2]
        quantile(values, 0.5)
        self.assertEqual(values, [3, 1, 2])

    def test_no_values_have_none(self):
        self.assertIsNone(median([]))
        self.assertIsNone(mean([]))

    def test_mean_of_what_is_too_great_is_infinite(self):
        self.assertEqual([mean([1, 2]), mean([1e308, 1e308])], [1.5, math.inf])


if __name__ == "__main__":
    unittest.main()
