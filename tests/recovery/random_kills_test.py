"""Five of eight workers are killed at random moments of 300 steps, and the result is that of the
undisturbed run, to the bit. Prints each seed's kills; GRADWIRE_KILL_SEEDS=first:last takes others."""
import os
import random
import signal
import time
import unittest

from kill_test import Run, undisturbed

WORKERS = 8
KILLED = 5
STEPS = 300
BACK_ENDS = ("coordinator", "sharded", "ring", "memory")
FIRST, _, LAST = os.environ.get("GRADWIRE_KILL_SEEDS", "0:3").partition(":")


def words_of(backend):
    return ["--sync", "ddp", "--backend", backend, "--dataset", "fashion-mnist", "--iterations",
            str(STEPS)]


def kill_some(run, rng):
    """Gives (rank, step) of each."""
    victims = rng.sample(range(WORKERS), KILLED)
    survivor = next(rank for rank in range(WORKERS) if rank not in victims)
    steps = sorted(rng.sample(range(1, STEPS - 20), KILLED))
    for rank, step in zip(victims, steps):
        run.until_step(survivor, step)
        time.sleep(rng.random() * 0.03)  # anywhere in a step: what is tested is that it does not matter
        run.signal(rank, signal.SIGKILL)
    return list(zip(victims, steps))


class RandomKillsTest(unittest.TestCase):
    def test_five_of_eight(self):
        for backend in BACK_ENDS:
            words = words_of(backend)
            expected = undisturbed(*words, workers=WORKERS, world_size=WORKERS)
            for seed in range(int(FIRST), int(LAST)):
                with self.subTest(backend=backend, seed=seed):
                    run = Run(*words, workers=WORKERS, world_size=WORKERS)
                    kills = kill_some(run, random.Random(f"{backend} {seed}"))
                    print(f"{backend}, seed {seed}: killed (rank, at step) {kills}", flush=True)
                    self.assertEqual(run.end(), 0, run.text)
                    self.assertEqual(run.hashes(), expected, run.text)


if __name__ == "__main__":
    unittest.main()
