"""Ledgers of real runs: workers are killed, everything is killed and resumed, the disk is full, a second
coordinator comes. What the coordinator recorded is sound, and planted faults are found."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

import checkpoint_test
from checkpoint_test import BIN
from kill_test import place_of

STEPS = 60
DDP = ["--sync", "ddp", "--backend", "coordinator", "--iterations", str(STEPS)]
HEADER = struct.Struct("<IIQQ")
SEALED = 4
BEGINS_WRITE = 1 << 31  # in the type of the first record of a write


class Run(checkpoint_test.Run):
    def until_step(self, step):
        self.until(rf"^\[rank 0\] epoch .* iteration {step}/")

    def kill_worker(self, rank):
        pid = next(pid for pid in self._children()
                   if rank in map(int, (place_of(pid) or "-1").split(",")))
        os.kill(pid, signal.SIGKILL)


def ledger(command, run_dir, *options):
    return subprocess.run([BIN / "gradwire", "ledger", command, run_dir, *options], text=True,
                          capture_output=True, timeout=60)


def verdict(run_dir):
    done = ledger("verify", run_dir, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def shown(run_dir):
    return json.loads(ledger("show", run_dir, "--json").stdout)


def lost_ranks(run):
    """Of the workers that this run of a ledger lost before its last view, in order."""
    return [rank for view in run["views"] for worker in view["lost"] for rank in worker["ranks"]]


def frames(data):
    """The places of the records: (first byte, end, type)."""
    places, at = [], 0
    while at < len(data):
        length, kind, _, _ = HEADER.unpack_from(data, at)
        end = at + (HEADER.size + length + 7) // 8 * 8
        places.append((at, end, kind & ~BEGINS_WRITE))
        at = end
    return places


class RealLedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_dir = pathlib.Path(folder.name, "run")

    def assert_sound(self, steps=STEPS):
        code, found = verdict(self.run_dir)
        self.assertEqual((code, found["findings"] if code < 2 else found), (0, []))
        self.assertEqual(found["sealed"], steps)
        self.assertEqual(found["steps_with_samples"], steps)
        return found

    def shown(self):
        return shown(self.run_dir)


class LedgerTest(RealLedgerTest):
    def test_worker_killed_then_everything_killed_and_resumed_on_another_number(self):
        # The next checkpoint is far away: none is in place whose record the kill prevents.
        with Run(DDP, self.run_dir, options=["--checkpoint-every", "20"]) as run:
            run.until_step(7)
            run.kill_worker(2)
            run.until("checkpoint before step 20 in")
            run.kill_everything()
        self.assertEqual(lost_ranks(self.shown()["runs"][0]), [2])
        with Run(DDP, self.run_dir, workers=1) as run:
            run.hashes()
        self.assert_sound()
        first, second = self.shown()["runs"]
        self.assertIsNone(first["end"])
        self.assertTrue(second["end"]["finished"])
        self.assertEqual(second["epoch"], first["epoch"] + 1)
        self.assertEqual(second["resumed"]["folder"], f"step-{second['resumed']['step']:012}")
        self.assertEqual((second["resumed"]["step"],
                          [checkpoint["step"] for checkpoint in first["checkpoints"]]), (20, [20]))
        text = ledger("show", self.run_dir).stdout
        self.assertIn(f"{STEPS} sealed steps, from 0 to {STEPS - 1}", text)

    def test_planted_faults_are_found(self):
        with Run(DDP, self.run_dir) as run:
            run.hashes()
        found = self.assert_sound()
        self.assertEqual((found["again"], found["segments"]), (0, 1))
        log = self.run_dir / "ledger" / "00000001.log"
        data = log.read_bytes()
        places = frames(data)
        self.assertEqual([kind for _, _, kind in places].count(SEALED), STEPS)
        begin, end, _ = [place for place in places if place[2] == SEALED][3]
        flipped = bytearray(data)
        flipped[begin + HEADER.size] ^= 4
        faults = {
            "a lost record": (data[:begin] + data[end:], 2),
            "a doubled record": (data[:end] + data[begin:], 2),
            "a flipped bit": (bytes(flipped), 2),
            "an end before a checkpoint's record": (data[:places[4][0]], 1),
            "wrong bytes at the end": (data[:-8] + b"\1" * 8, 1),
        }
        for name, (bad, expected) in faults.items():
            with self.subTest(name):
                log.write_bytes(bad)
                code, what = verdict(self.run_dir)
                self.assertEqual(code, expected, what)
                if code == 2:
                    self.assertIn(f"is damaged at byte {end if 'doubled' in name else begin}", what)

    def test_damaged_ledger_is_not_written_to(self):
        with Run(DDP, self.run_dir) as run:
            run.hashes()
        log = self.run_dir / "ledger" / "00000001.log"
        data = bytearray(log.read_bytes())
        data[30] ^= 1
        log.write_bytes(data)
        with Run(DDP, self.run_dir) as run:
            self.assertEqual(run.wait(), 2)
            self.assertIn("is damaged at byte 0", run.text)
        self.assertEqual(log.read_bytes(), data)

    def test_second_coordinator_tries_again_later(self):
        with Run([*DDP, "--iterations", "300"], self.run_dir) as run:  # longer than the other start
            run.until_step(2)
            second = subprocess.run(
                [BIN / "gradwire-coordinator", "--listen", "127.0.0.1:0", "--metrics", "off",
                 "--run-dir", self.run_dir], text=True, capture_output=True, timeout=60)
            self.assertEqual(second.returncode, 75, second.stderr)
            run.hashes()
        self.assert_sound(300)

    def test_run_that_cannot_recover_says_why(self):
        with Run(["--sync", "local-sgd:3"], self.run_dir) as run:
            run.hashes()
        code, found = verdict(self.run_dir)
        self.assertEqual((code, found["findings"], found["sealed"]), (0, [], 0))
        self.assertIn("records no step: ", found["notes"][0])

    def test_no_ledger_is_wrong_usage(self):
        done = ledger("verify", self.run_dir)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot read ledger", done.stderr)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "a small disk needs root")
class FullDiskTest(RealLedgerTest):
    def test_training_goes_on_and_the_end_is_recorded(self):
        """The disk has room for the reserve, and hardly for the first records."""
        self.run_dir.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1028k", "tmpfs", self.run_dir],
                                 capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", self.run_dir])
        with Run(DDP, self.run_dir, options=["--checkpoint-every", "0"]) as run:
            run.hashes()
        self.assertIn("steps are not recorded any more", run.text)
        code, found = verdict(self.run_dir)
        self.assertEqual(code, 1, found)
        self.assertIn("no space left on device", found["findings"][0])
        self.assertTrue(self.shown()["runs"][0]["end"]["finished"])


if __name__ == "__main__":
    unittest.main()
