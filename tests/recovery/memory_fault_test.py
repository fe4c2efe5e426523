"""A bit of one worker's parameters turns over in memory, and the run ends as if it had not."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from kill_test import BIN, RUN, Run, undisturbed

# So small a rate changes no float: the parameters stay what they were drawn as, and are found.
UNCHANGED = ["--lr", "1e-30", "--weight-decay", "0", "--momentum", "0"]
WORDS = [*UNCHANGED, "--sync", "ddp", "--iterations", "600", "--check-replicas", "10"]
TENSOR = "classifier.0.weight"
PATTERN_BYTES = 256


def begin_of_tensor():
    """The first bytes of TENSOR, as the seed gives them."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "weights.safetensors")
        subprocess.run([BIN / "gradwire-worker", *RUN, *UNCHANGED, "--sync", "none", "--iterations", "1",
                        "--save-weights", file], check=True, capture_output=True)
        data = file.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + header_bytes])
    begin = 8 + header_bytes + header[TENSOR]["data_offsets"][0]
    return data[begin:begin + PATTERN_BYTES]


def written_regions(pid):
    """(first, end) of the memory that the process can write."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights = line.split()[:2]
        if rights.startswith("rw"):
            first, end = place.split("-")
            yield int(first, 16), int(end, 16)


def turn_a_bit(pid, pattern):
    """Wherever the pattern stands. Gives how often that was."""
    count = 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for first, end in written_regions(pid):
            try:
                memory.seek(first)
                data = memory.read(end - first)
            except OSError:  # the region is gone, or no memory
                continue
            at = data.find(pattern)
            while at >= 0:
                memory.seek(first + at)
                memory.write(bytes([pattern[0] ^ 1]))
                count += 1
                at = data.find(pattern, at + 1)
    return count


@unittest.skipUnless(os.geteuid() == 0, "only root may write to other processes' memory")
class MemoryFaultTest(unittest.TestCase):
    def start(self, workers):
        pattern = begin_of_tensor()
        run = Run(*WORDS, workers=workers, world_size=workers)
        run.until_step(0, 3)
        self.assertGreater(turn_a_bit(run.pid_of(1), pattern), 0)
        return run

    def test_one_of_three_is_lost(self):
        run = self.start(3)
        self.assertEqual(run.end(), 0, run.text)
        self.assertRegex(run.text, "its parameters differ from the others' after step [0-9]+0, "
                                   f"first in {TENSOR}")
        self.assertEqual(run.hashes(), undisturbed(*WORDS, workers=3, world_size=3), run.text)

    def test_of_two_nobody_knows_which(self):
        run = self.start(2)
        self.assertNotEqual(run.end(), 0, run.text)
        self.assertRegex(run.text, "the workers' parameters differ after step [0-9]+0, first in "
                                   f"{TENSOR}, and no majority says which are right")


if __name__ == "__main__":
    unittest.main()
