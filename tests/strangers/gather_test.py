"""Streams that strangers open at a worker."""
import signal
import unittest

import strangers
from http2 import Connection

GATHER = "/gradwire.v1.Aggregation/Gather"
NEIGHBOR = "/gradwire.v1.Neighbor/Stream"
# Seconds for a worker's exit behind the coordinator's; a call would wait for a view for 10.
SOON = 5


class GatherTest(strangers.StrangersTest):
    def begin(self, backend, aggregators=0):
        """A run of two in its middle, of which one is held up."""
        self.coordinator_ = self.coordinator(2, "--aggregators", aggregators)
        self.aggregators = [self.keep_process(
            [strangers.BIN / "gradwire-coordinator", "--aggregate-only", "true", "--listen",
             "127.0.0.1:0", "--metrics", "off", "--coordinator", self.coordinator_.address],
            f"aggregator-{number}") for number in range(aggregators)]
        self.workers = [self.worker(self.coordinator_, rank, "--sync", "all-reduce", "--backend",
                                    backend, "--iterations", "400", "--step-timeout-seconds", "15",
                                    "--summary", self.folder / f"summary-{rank}")
                        for rank in range(2)]
        self.coordinator_.wait_for_step(1)
        self.workers[1].send(signal.SIGSTOP)
        status = self.coordinator_.status()
        self.assertEqual(status["state"], "running")
        self.address = status["ranks"][0]["address"]

    def assert_ends_well(self):
        self.workers[1].send(signal.SIGCONT)
        self.assert_done([self.coordinator_, *self.aggregators])
        self.assert_done(self.workers, SOON)
        for rank in range(2):
            self.assertTrue((self.folder / f"summary-{rank}").exists())

    def test_silent_gather_is_ended_and_does_not_hold_up_the_end(self):
        self.begin("sharded")
        stranger = self.keep(Connection(self.address))
        stream = stranger.open(GATHER)
        ended = stranger.ended(stream, 4)
        self.assert_ends_well()
        self.assertTrue(ended)

    def test_silent_gather_where_nothing_is_summed_does_not_hold_up_the_end(self):
        self.begin("sharded", aggregators=1)
        self.keep(Connection(self.address)).open(GATHER)
        self.assert_ends_well()

    def test_silent_neighbour_stream_is_ended(self):
        self.begin("ring")
        stranger = self.keep(Connection(self.address))
        stream = stranger.open(NEIGHBOR)
        ended = stranger.ended(stream, 4)
        self.assert_ends_well()
        self.assertTrue(ended)


if __name__ == "__main__":
    unittest.main()
