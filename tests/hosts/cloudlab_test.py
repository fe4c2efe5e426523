"""The commands of docs/deploy/cloudlab.md on four hosts with CloudLab's addresses and an sshd each,
at small sizes."""
import pathlib
import re
import unittest

from reachable_hosts import BIN, ReachableHosts, summaries

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/deploy/cloudlab.md"
COMMAND = re.compile(r"^    (build/bin/(?:.*\\\n)*.*)$", re.MULTILINE)
# In place of the page's sizes.
SMALLER = (("--dataset cifar10 --data-dir \"$PWD/cifar10\"",
            "--dataset synthetic --model lenet --threads 1"),
           ("--batch-size 256", "--batch-size 32"), ("--batch-size 64", "--batch-size 8"),
           ("--epochs 1", "--iterations 3"), (" --evaluate", ""), ("--data-dir \"$PWD/cifar10\"", ""))


def commands(start):
    """Returns the words of the page's commands that begin so."""
    found = [command for command in COMMAND.findall(PAGE.read_text()) if command.startswith(start)]
    for old, new in SMALLER:
        found = [command.replace(old, new) for command in found]
    return [command.replace("\\\n", " ").split() for command in found]


class CloudlabTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(ReachableHosts(4))

    def test_hosts_have_the_addresses_of_the_page(self):
        self.assertEqual(self.hosts.addresses, [f"10.10.1.{host}" for host in range(1, 5)])

    def gradwire(self, words):
        """Runs a command of the page on the first host. Returns what it printed."""
        hostfile = str(self.hosts.hostfile())
        folder = self.hosts.folder
        words = [hostfile if word == "hosts" else
                 str(folder / word) if word.endswith(".json") else word for word in words[1:]]
        exit_code, printed = self.hosts.gradwire(*words)
        self.assertEqual(exit_code, 0, printed)
        return printed

    def test_doctor_finds_that_a_run_would_work(self):
        for host in range(4):  # so that no link is faster than the others beside a loaded machine
            self.hosts.limit_rate(host, "200mbit")
            self.addCleanup(self.hosts.run, host, ["tc", "qdisc", "del", "dev", "eth0", "root"])
        (doctor,) = commands("build/bin/gradwire doctor")
        self.assertIn("A run would work.", self.gradwire(doctor))

    def test_the_four_commands_give_the_four_set_ups(self):
        launches = commands("build/bin/gradwire launch")
        self.assertEqual(len(launches), 4)
        runs = {}
        for words in launches:
            self.gradwire(words)
            file = words[words.index("--summary") + 1]
            runs[file] = summaries(self.hosts.folder / file)
        self.assertEqual([(run[0]["sync"], len(run)) for run in runs.values()],
                         [("none", 1), ("gather-scatter", 4), ("all-reduce", 4), ("ddp", 4)])
        several = [runs[file] for file in ("2a.json", "2b.json", "3.json")]
        self.assertEqual(len({rank["parameters_sha256"] for run in several for rank in run}), 1)

    def test_command_of_each_node_makes_one_run(self):
        (words,) = commands("build/bin/gradwire-worker")
        started = []
        for rank in range(4):
            command = [str(rank) if word == "R" else word for word in words[1:]]
            log = self.hosts.folder / f"node{rank}.log"
            started.append((self.hosts.start(
                rank, [*self.hosts.environment(), str(BIN / "gradwire-worker"), *command], log), log))
        for process, log in started:
            self.assertEqual(process.wait(120), 0, log.read_text())


if __name__ == "__main__":
    unittest.main()
