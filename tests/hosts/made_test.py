"""`--hosts auto`: hosts that the command makes itself, and what is left of them however it ends."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from namespace_hosts import is_running, wait_until, why_not

GRADWIRE = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"]) / "gradwire"
COLLECTIVES = ["bench", "collectives", "--hosts", "auto", "--workers", "3", "--sizes", "4K",
               "--backends", "ring,coordinator", "--warmup", "1"]
SHORT = [*COLLECTIVES, "--iterations", "3"]
ENDLESS = [*COLLECTIVES, "--iterations", "100000000", "--seconds-per-size", "0"]
SECONDS_TO_START = 60
SECONDS_TO_END = 15
SECONDS = 400  # of an experiment
CORES = 2  # fewer than the course's hosts


def namespaces():
    """Of all processes, {namespace: ids}."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        if is_running(folder.name):
            try:
                found.setdefault(os.readlink(folder / "ns/net"), set()).add(int(folder.name))
            except OSError:
                pass  # it has ended
    return found


def descendants(pid):
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return set()
    return set(map(int, children)).union(*map(descendants, children))


class MadeHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def gradwire(self, *words, **options):
        return subprocess.Popen([*options.pop("before", []), GRADWIRE, *words], cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                env={**os.environ, "TMPDIR": str(self.folder)},
                                stderr=subprocess.STDOUT, text=True, **options)

    def run_it(self, *words, **options):
        """What it printed."""
        with self.gradwire(*words, **options) as process:
            printed = process.communicate(timeout=SECONDS)[0]
        self.assertEqual(process.returncode, 0, printed)
        return printed

    def test_measures_on_links_of_the_usual_rate(self):
        printed = self.run_it(*SHORT, "--json", "x.json")
        report = json.loads((self.folder / "x.json").read_text())
        self.assertEqual([(row["backend"], row["wrong"]) for row in report["rows"]],
                         [("ring", 0), ("coordinator", 0)], printed)
        self.assertEqual(report["environment"]["link"], "1 Gbit/s")
        self.assertEqual(report["environment"]["hosts"],
                         "3 network namespaces on this machine (--hosts auto)")
        self.assertEqual([file.name for file in self.folder.iterdir()], ["x.json"])

    def test_two_at_once(self):
        first = self.gradwire(*SHORT)
        self.run_it(*SHORT)
        with first:
            printed = first.communicate(timeout=SECONDS)[0]
        self.assertEqual(first.returncode, 0, printed)

    def test_machine_has_no_more_interfaces_meanwhile(self):
        before = os.listdir("/sys/class/net")
        with self.gradwire(*ENDLESS) as process:
            self.pids_of_all(process)
            self.assertEqual(sorted(os.listdir("/sys/class/net")), sorted(before))
            process.terminate()
            process.communicate(timeout=SECONDS_TO_END)

    def pids_of_all(self, process):
        """Once ranks run on its hosts: of these, and of all else that it has started."""
        def ranks():
            below = descendants(process.pid)
            apart = [pids & below for pids in namespaces().values() if pids & below]
            return below if len(apart) > 4 and sum(
                b"gradwire-collectives" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                for pid in below if is_running(pid)) >= 3 else None
        return wait_until("ranks on the hosts", ranks, SECONDS_TO_START)

    def assert_ends_by(self, number, exit_code, to_group=False):
        with self.gradwire(*ENDLESS, process_group=0) as process:
            pids = self.pids_of_all(process)
            (os.killpg if to_group else os.kill)(process.pid, number)
            process.communicate(timeout=SECONDS_TO_END)
        self.assertEqual(process.returncode, exit_code)
        wait_until("the end of all that it started", lambda: not any(map(is_running, pids)),
                   SECONDS_TO_END)

    def test_interrupt_of_a_terminal(self):
        self.assert_ends_by(signal.SIGINT, 130, to_group=True)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_termination(self):
        self.assert_ends_by(signal.SIGTERM, 143)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_killed_and_the_next_one_runs(self):
        self.assert_ends_by(signal.SIGKILL, -9)
        self.run_it(*SHORT)

    def test_failure(self):
        with self.gradwire(*SHORT, "--timeout-seconds", "0.01") as process:
            printed = process.communicate(timeout=SECONDS)[0]
        self.assertEqual(process.returncode, 1)
        self.assertIn("not done in time", printed)
        self.assertEqual(list(self.folder.iterdir()), [])


class LongMadeHostsTest(MadeHostsTest):
    def test_experiment_on_fewer_cores_than_hosts(self):
        cores = sorted(os.sched_getaffinity(0))[:CORES]
        printed = self.run_it("experiment", "course", "--scale", "tiny", "--hosts", "auto",
                              "--rate", "10gbit", "--out", "out",
                              before=["taskset", "--cpu-list", ",".join(map(str, cores))])
        results = json.loads((self.folder / "out/results.json").read_text())
        timed = [claim for claim in results["claims"] if "condition" in claim]
        self.assertEqual(len(timed), 11, printed)
        for claim in timed:
            self.assertIn("computation emulated", claim["condition"])
            self.assertNotEqual(claim["verdict"], "not-measurable")
        verdicts = {claim["key"]: claim["verdict"] for claim in results["claims"]}
        for key in ("first-loss", "reduce-same", "ddp-same", "by-parameter-same"):
            self.assertEqual(verdicts[key], "confirmed")
        page = (self.folder / "out/report.html").read_text()
        self.assertIn("confirmed, computation emulated", page)
        self.assertIn("COMPUTATION IS EMULATED", page)


if __name__ == "__main__":
    unittest.main()
