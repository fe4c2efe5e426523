"""How long the runs of an experiment are estimated to take before the first of them."""
import dataclasses
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import request_of
from cli.experiment.study import Setting
from cli.experiment.work import COSTS, SECONDS_TO_START, TEST_SAMPLES, Late, Training

CORES = 2
MODEL = "lenet"
PER_SAMPLE, BYTES = COSTS[MODEL].seconds_per_sample, COSTS[MODEL].bytes


def setting_of(**more):
    return Setting(request_of("out", **more), {}, CORES, 1 << 30)


def training(ranks=4, kind=Training, **more):
    return kind("run", "Run", ranks, batch_size=32, iterations=10, options=(), model=MODEL, **more)


class Estimates(unittest.TestCase):
    def assert_takes(self, run, iteration, setting=None, tests=0.0):
        self.assertAlmostEqual(run.seconds(setting or setting_of()),
                               SECONDS_TO_START + tests + 10 * iteration)

    def test_one_rank_computes_with_all_cores_and_exchanges_nothing(self):
        self.assert_takes(training(ranks=1), 32 * PER_SAMPLE / CORES)

    def test_ranks_of_one_machine_share_its_cores_and_its_memory(self):
        self.assert_takes(training(threads=1), 4 * 32 * PER_SAMPLE / CORES + 2 * 4 * BYTES / 1e9)

    def test_ranks_of_other_machines_compute_by_themselves_and_share_the_links(self):
        setting = setting_of(hostfile="hosts", link_gbit=1)
        self.assert_takes(training(threads=1), 32 * PER_SAMPLE + 2 * 8 * BYTES / 1e9, setting)
        self.assert_takes(training(threads=1, gbit=0.1), 32 * PER_SAMPLE + 2 * 8 * BYTES / 1e8, setting)

    def test_evaluation_takes_a_third_of_training_on_as_many_samples(self):
        self.assert_takes(training(ranks=1, tests=True), 32 * PER_SAMPLE / CORES,
                          tests=TEST_SAMPLES * PER_SAMPLE / CORES / 3)

    def test_sleeps_take_their_time(self):
        asleep = dataclasses.replace(training(ranks=1), options=("--compute-seconds", "0.1,0.3"))
        self.assert_takes(asleep, 0.4)
        self.assert_takes(training(ranks=1, kind=Late, sleeps=(0.1, 0.3)), 0.4)
        self.assert_takes(training(ranks=1, kind=Late, sleeps=(0.1, 0.3), late=(0,), late_seconds=0.2), 0.6)


if __name__ == "__main__":
    unittest.main()
