"""`gradwire launch --hostfile` over real ssh, on hosts of namespaces."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from reachable_hosts import BIN, RUN, ReachableHosts, summaries
from namespace_hosts import wait_until

SECONDS_TO_END = 2
LEASE = 5
ENDLESS = [*RUN[:-6], "--iterations", "1000000", "--sync", "ddp", "--threads", "1",
           "--print-every", "1"]


def pid_there(pid):
    """The same process's id on its host, which has process ids of its own."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)[1]


class LaunchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(ReachableHosts(4))

    def launch(self, *words, lines=()):
        return self.hosts.gradwire("launch", "--hostfile", self.hosts.hostfile(*lines), *words)

    def assert_nothing_runs(self, seconds=0):
        self.until(lambda: not any(self.hosts.others(host) for host in range(4)), seconds)
        self.assertEqual([name for host in range(4) for name in
                          os.listdir(self.hosts.temporary(host))], [])

    def until(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, [self.hosts.others(h) for h in range(4)])

    def assert_refused(self, *said, words=(), lines=()):
        exit_code, printed = self.launch(*words, *([] if "--" in words else ["--", *RUN]),
                                         lines=lines)
        self.assertEqual(exit_code, 2, printed)
        for text in said:
            self.assertIn(text, printed)
        self.assertNotIn("[rank", printed)
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_summaries_logs_and_traces_come_back_and_values_are_those_of_one_machine(self):
        folder = self.hosts.folder
        here = folder / "here.json"
        exit_code, printed = self.hosts.gradwire("launch", "--workers", "4", "--summary", here,
                                                 "--", *RUN)
        self.assertEqual(exit_code, 0, printed)
        exit_code, printed = self.launch("--summary", folder / "there.json", "--trace",
                                         folder / "trace.json", "--", *RUN, "--log-jsonl",
                                         folder / "run.jsonl")
        self.assertEqual(exit_code, 0, printed)
        there = summaries(folder / "there.json")
        self.assertEqual([one["rank"] for one in there], [0, 1, 2, 3])
        self.assertEqual({one["parameters_sha256"] for one in there},
                         {one["parameters_sha256"] for one in summaries(here)})
        for rank in range(4):
            self.assertIn(f"[rank {rank}] ", printed)
            lines = (folder / f"run.rank{rank}.jsonl").read_text().splitlines()
            self.assertEqual(len([line for line in lines if '"step"' in line]), 20)
        self.assertTrue(json.loads((folder / "trace.json").read_text())["traceEvents"])
        self.assertIn("watch the run on http://10.10.1.1:", printed)
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_per_host_slots_and_fewer_workers_fill_hosts_in_order(self):
        show = ["--program", "/bin/sh", "--", "-c",
                'echo "$GRADWIRE_RANK $(hostname) $LOCAL_RANK $LOCAL_WORLD_SIZE"']
        for words, lines, expected in (
                (["--per-host", "2", "--workers", "3"], (), "0 host1 0 2,1 host1 1 2,2 host2 0 1"),
                ([], ("10.10.1.2 slots=2", "10.10.1.1"), "0 host2 0 2,1 host2 1 2,2 host1 0 1")):
            exit_code, printed = self.launch(*words, *show, lines=lines)
            self.assertEqual(exit_code, 0, printed)
            said = sorted(line.partition("] ")[2] for line in printed.splitlines()
                          if line.startswith("[rank"))
            self.assertEqual(said, expected.split(","))

    def started(self, *words):
        """A launch whose ranks train."""
        log = self.hosts.folder / "log"
        log.unlink(missing_ok=True)
        command = self.hosts.gradwire_command(
            "launch", "--hostfile", self.hosts.hostfile(), "--lease-seconds", LEASE, "--on-loss",
            "stop", *words, "--", *ENDLESS)
        began = time.monotonic()
        launch = self.hosts.start(0, command, log)
        self.addCleanup(launch.end, signal.SIGKILL)
        wait_until("training", lambda: "[rank 0] epoch" in launch.text() or not launch.running(), 60)
        self.assertTrue(launch.running(), launch.text())
        print(f"first step {time.monotonic() - began:.2f} s after the command")
        return launch

    def test_lost_host_is_carried_on_by_the_others_with_the_same_values(self):
        folder = self.hosts.folder
        run = [*RUN[:-6], "--iterations", "400", "--sync", "ddp", "--threads", "1",
               "--print-every", "1"]
        exit_code, printed = self.hosts.gradwire("launch", "--workers", "4", "--summary",
                                                 folder / "here.json", "--", *run)
        self.assertEqual(exit_code, 0, printed)
        log = folder / "log"
        log.unlink(missing_ok=True)
        launch = self.hosts.start(0, self.hosts.gradwire_command(
            "launch", "--hostfile", self.hosts.hostfile(), "--summary", folder / "there.json", "--",
            *run, "--log-jsonl", folder / "run.jsonl"), log)
        self.addCleanup(launch.end, signal.SIGKILL)
        wait_until("training", lambda: "iteration 9/" in launch.text() or not launch.running(), 60)
        worker = next(pid for pid, words in self.hosts.others(2).items()
                      if words.split()[0].endswith("/gradwire-worker"))
        there = pid_there(worker)
        os.kill(worker, signal.SIGKILL)
        self.assertEqual(launch.wait(), 0, launch.text())
        self.assertIn(f"rank 2 (process {there} on host 10.10.1.3) was killed by signal 9 (Killed); "
                      "the others went on", launch.text())
        there = summaries(folder / "there.json")
        self.assertEqual([one["rank"] for one in there], [0, 1, 2, 3])
        self.assertEqual({one["parameters_sha256"] for one in there},
                         {one["parameters_sha256"] for one in summaries(folder / "here.json")})
        steps = [json.loads(line).get("step")
                 for line in (folder / "run.rank2.jsonl").read_text().splitlines()]
        steps = [step for step in steps if step is not None]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], 399)

    def started_run(self, *words):
        """A launch of many steps, once it trains; and its summary."""
        summary = self.hosts.folder / "there.json"
        log = self.hosts.folder / "log"
        log.unlink(missing_ok=True)
        launch = self.hosts.start(0, self.hosts.gradwire_command(
            "launch", "--hostfile", self.hosts.hostfile(), "--summary", summary, *words, "--",
            *RUN[:-6], "--iterations", "400", "--sync", "ddp", "--threads", "1", "--print-every",
            "1"), log)
        self.addCleanup(launch.end, signal.SIGKILL)
        wait_until("training", lambda: "iteration 9/" in launch.text() or not launch.running(), 60)
        return launch, summary

    def pid_of(self, host, program):
        return next(pid for pid, words in self.hosts.others(host).items()
                    if words.split()[0].endswith(f"/{program}"))

    def test_worker_stopped_on_a_host_is_ended_once_the_others_have_finished(self):
        launch, summary = self.started_run("--lease-seconds", LEASE)
        pid = self.pid_of(2, "gradwire-worker")
        there = pid_there(pid)
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(launch.wait(), 0, launch.text())
        self.assertRegex(launch.text(), rf"rank 2 \(process {there} on host 10.10.1.3\) was lost: it was "
                         r"silent for \S+ s; it still existed when the others had finished, so the "
                         "launcher ended it; the others went on with its ranks")
        self.assertEqual([one["rank"] for one in summaries(summary)], [0, 1, 2, 3])
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_coordinator_killed_on_its_host_is_named(self):
        launch, summary = self.started_run()
        pid = self.pid_of(0, "gradwire-coordinator")
        there = pid_there(pid)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(launch.wait(), 137, launch.text())
        cause = f"coordinator (process {there} on host 10.10.1.1) was killed by signal 9 (Killed)"
        self.assertIn(f"gradwire launch: {cause}; all have ended", launch.text())
        collected = json.loads(summary.read_text())
        self.assertEqual(collected["ended"], {"code": 137, "reason": cause})
        self.assertEqual([one["ended"]["code"] for one in collected["ranks"]], [75] * 4)
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_ctrl_c_leaves_nothing_on_any_host(self):
        launch = self.started()
        launch.send(signal.SIGINT)
        began = time.monotonic()
        self.assert_nothing_runs(SECONDS_TO_END)
        print(f"Ctrl-C: nothing left after {time.monotonic() - began:.2f} s")
        self.assertEqual(launch.wait(), 130, launch.text())

    def test_killed_launcher_leaves_nothing_on_any_host(self):
        launch = self.started()
        launch.send(signal.SIGKILL)
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_failed_rank_ends_all(self):
        launch = self.started()
        trainer = next(pid for pid, words in self.hosts.others(2).items() if words.split()[0].endswith("/gradwire-worker"))
        there = pid_there(trainer)
        subprocess.run(["kill", "-9", str(trainer)], check=True)
        self.assertEqual(launch.wait(), 137, launch.text())
        self.assertIn(f"rank 2 (process {there} on host 10.10.1.3) was killed by signal 9 (Killed); "
                      "all have ended", launch.text())
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_pulled_cable_ends_both_sides_within_the_lease(self):
        launch = self.started()
        self.hosts.cut(3)
        self.addCleanup(self.hosts.mend, 3)
        began = time.monotonic()
        self.until(lambda: not any("gradwire" in words or "python3" in words
                                   for words in self.hosts.others(3).values()), LEASE + 1)
        print(f"pulled cable: that host alone ended after {time.monotonic() - began:.2f} s")
        self.assertNotEqual(launch.wait(2 * LEASE + 5), 0)
        self.assertRegex(launch.text(), "10.10.1.4|rank 3")

    def test_dead_host_is_named(self):
        self.assert_refused("host 10.10.1.9: ssh ended with exit code 255",
                            lines=(*self.hosts.addresses[:3], "10.10.1.9"))

    def test_wrong_host_key_is_named(self):
        known = self.hosts.folder / "known_hosts"
        right = known.read_text()
        self.addCleanup(known.write_text, right)
        keys = [line.split(None, 1)[1] for line in right.splitlines()]
        known.write_text(right.replace(keys[2], keys[1]))
        self.assert_refused("host 10.10.1.3: ssh ended with exit code 255",
                            "Host key verification failed")

    def test_other_version_is_named(self):
        gradwire = BIN / "gradwire"
        old = self.hosts.file("old", "#!/bin/sh\necho gradwire 0.0.9\n")
        old.chmod(0o755)
        self.hosts.run(1, ["mount", "--bind", old, gradwire])
        self.addCleanup(self.hosts.run, 1, ["umount", gradwire])
        self.assert_refused("host 10.10.1.2: got version 'gradwire 0.0.9', expected 'gradwire ")

    def test_full_disk_is_named(self):
        folder = self.hosts.temporary(2)
        self.hosts.run(2, ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder])
        self.addCleanup(self.hosts.run, 2, ["umount", folder])
        self.hosts.run(2, ["sh", "-c", f"cat /dev/zero > {folder}/full"], check=False)
        self.assert_refused(f"host 10.10.1.3: cannot write to '{folder}/gradwire-",
                            "no space left")

    def test_node_without_the_data_is_named(self):
        data = self.hosts.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "batch.bin").write_bytes(b"x" * 100)
        self.hosts.run(3, ["mount", "-t", "tmpfs", "tmpfs", data])
        self.addCleanup(self.hosts.run, 3, ["umount", data])
        self.assert_refused(f"host 10.10.1.4: '{data}': no files in it, expected the 1 files that "
                            "10.10.1.1 has", words=["--", "--dataset", "cifar10", "--data-dir",
                                                    data, "--iterations", "1"])

    def test_taken_port_is_named(self):
        taken = self.hosts.start(0, ["/usr/bin/python3", "-c", "import socket,time; s=socket.socket"
                                     "(); s.bind(('10.10.1.1', 29400)); s.listen(); "
                                     "print('up', flush=True); time.sleep(1000)"],
                                 self.hosts.folder / "taken")
        self.addCleanup(taken.end)
        wait_until("port", lambda: "up" in taken.text(), 10)
        exit_code, printed = self.launch("--listen", "10.10.1.1:29400", "--", *RUN)
        self.assertNotEqual(exit_code, 0)
        self.assertIn("cannot listen on 10.10.1.1:29400: address already in use", printed)
        self.assertNotIn("[rank", printed)
        taken.end()
        self.assert_nothing_runs(SECONDS_TO_END)

    def test_name_in_another_network_is_pointed_out(self):
        self.hosts.run(2, ["ip", "link", "add", "control", "type", "bridge"])
        self.addCleanup(self.hosts.run, 2, ["ip", "link", "del", "control"])
        self.hosts.run(2, ["ip", "address", "add", "172.31.0.3/24", "dev", "control"])
        self.hosts.run(2, ["ip", "link", "set", "control", "up"])
        self.hosts.run(0, ["ip", "route", "add", "172.31.0.3/32", "via", "10.10.1.3"])
        known = self.hosts.folder / "known_hosts"
        known.write_text(known.read_text().replace("10.10.1.3,", "10.10.1.3,172.31.0.3,"))
        lines = ("10.10.1.1", "10.10.1.2", "172.31.0.3")
        self.assert_refused("host 172.31.0.3: its name means 172.31.0.3, in network 172.31.0.0/24, "
                            "expected 10.10.1.3", lines=lines)
        exit_code, printed = self.launch("--network", "10.10.1.0/24", "--program", "/bin/true",
                                         "--", lines=lines)
        self.assertEqual(exit_code, 0, printed)

    def test_loopback_listen_is_refused(self):
        self.assert_refused("--listen: got 127.0.0.1:0, where other hosts cannot reach it",
                            words=["--listen", "127.0.0.1:0"])


if __name__ == "__main__":
    unittest.main()
