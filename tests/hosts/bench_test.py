"""`gradwire bench`, and so `gradwire experiment`, over the hostfile of `gradwire launch`, over real
ssh, on hosts of namespaces."""
import json
import unittest

from reachable_hosts import ReachableHosts
from namespace_hosts import wait_until

SECONDS_TO_END = 8


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(ReachableHosts(3))
        cls.hostfile = cls.hosts.hostfile("10.10.1.1 slots=1", "10.10.1.2", "10.10.1.3  # spare")

    def tearDown(self):
        wait_until("the end of all on the hosts", lambda: not any(
            self.hosts.others(host) for host in range(3)), SECONDS_TO_END)

    def gradwire(self, *words):
        exit_code, printed = self.hosts.gradwire(*words, "--hostfile", self.hostfile)
        self.assertEqual(exit_code, 0, printed)
        return printed

    def test_collectives(self):
        file = self.hosts.folder / "collectives.json"
        self.gradwire("bench", "collectives", "--workers", "2", "--sizes", "4K", "--backends",
                      "ring,coordinator", "--warmup", "1", "--iterations", "3", "--json", file)
        rows = json.loads(file.read_text())["rows"]
        self.assertEqual([(row["backend"], row["wrong"]) for row in rows],
                         [("ring", 0), ("coordinator", 0)])

    def test_training(self):
        file = self.hosts.folder / "training.json"
        self.gradwire("bench", "training", "--workers", "2", "--model", "lenet", "--batch-size", "4",
                      "--rounds", "1", "--iterations", "3", "--setups", "ddp",
                      "--json", file)
        # The first iteration is not counted.
        setups = json.loads(file.read_text())["setups"]
        self.assertEqual([setup["iterations"] for setup in setups], [2], setups)


if __name__ == "__main__":
    unittest.main()
