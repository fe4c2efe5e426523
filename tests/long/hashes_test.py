"""A run gives the same bits with every sync and back end, on any number of processes."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
WORLD_SIZE = 4
SYNCS = ("gather-scatter", "all-reduce", "ddp")
BACKENDS = ("coordinator", "sharded", "ring")
RUN = ["--iterations", "20", "--batch-size", "2", "--lr", "0.01", "--threads", "1",
       "--print-every", "0"]


def hashes(sync, backend, processes):
    """Returns the SHA-256 of the parameters and of the buffers, for each rank."""
    with tempfile.TemporaryDirectory(prefix="gradwire-hashes-") as folder:
        summary = pathlib.Path(folder, "summary.json")
        command = [BIN / "gradwire", "launch", "--workers", processes, "--world-size", WORLD_SIZE,
                   "--listen", "127.0.0.1:0", "--metrics", "off", "--summary", summary, "--",
                   "--sync", sync, "--backend", backend, *RUN]
        done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=600)
        if done.returncode != 0:
            raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout}")
        ranks = json.loads(summary.read_text())["ranks"]
    assert [rank["rank"] for rank in ranks] == list(range(WORLD_SIZE)), ranks
    return [(rank["parameters_sha256"], rank["buffers_sha256"]) for rank in ranks]


class HashesTest(unittest.TestCase):
    def test_any_sync_back_end_and_number_of_processes_same_bits(self):
        expected = hashes("gather-scatter", "coordinator", WORLD_SIZE)
        self.assertEqual(len(set(expected)), 1)
        for sync in SYNCS:
            for backend in BACKENDS:
                for processes in range(1, WORLD_SIZE + 1):
                    with self.subTest(sync=sync, backend=backend, processes=processes):
                        self.assertEqual(hashes(sync, backend, processes), expected)


if __name__ == "__main__":
    unittest.main()
