"""Workers die at named points of a step, in every way that bytes are averaged, and the result is that
of the undisturbed run, to the bit. The ledger of the run is sound and has the losses. MatrixTest, which
takes long, prints a line for each cell; GRADWIRE_MATRIX="fold ring" takes those with all these words in
their lines."""
import collections
import dataclasses
import functools
import itertools
import os
import pathlib
import signal
import tempfile
import time
import unittest

import ledger_test
from local_run import AGGREGATORS, HANG, WORLD_SIZE, Death, LocalRun

STEP = 4  # in which somebody dies
ITERATIONS = {signal.SIGKILL: 8, signal.SIGSTOP: 8, HANG: 8}
TRAINING = ["--dataset", "synthetic", "--seed", "744", "--batch-size", "2", "--threads", "1",
            "--print-every", "0"]
MODELS = {  # what becomes of buffers
    "none": ["--model", "lenet", "--bucket-cap-mb", "0"],
    "sent": ["--model", "vgg11", "--broadcast-buffers", "true"],
    "kept": ["--model", "vgg11", "--broadcast-buffers", "false"],
}
IN_A_STEP = ("hand-in", "window", "fold", "applied", "next-forward", "ready", "before-sealed",
             "sealed")
IN_A_RECOVERY = ("new-view", "rewound")
BACK_ENDS = ("coordinator", "sharded", "ring", "memory", "aggregators", "hosts")
# With "hosts", two hosts with two workers each: the ring, whose hops within a host go through memory.
HOSTS = ("127.0.0.2", "127.0.0.3")
# Somebody else folds: the worker sees the first mean, while others are still made.
FOLDS_ELSEWHERE = ("coordinator", "aggregators")
SYNCS = ("gather-scatter", "ddp")
# With "hosts", for which gather-scatter would take the coordinator.
SYNCS_OF_HOSTS = ("all-reduce", "ddp")


@dataclasses.dataclass(frozen=True)
class Cell:
    point: str
    by: signal.Signals
    backend: str
    sync: str
    buffers: str = "none"
    victim: int = 2

    def __str__(self):
        return (f"{self.point:13} {self.by.name:7} {self.backend:11} {self.sync:14} "
                f"buffers {self.buffers:4} rank {self.victim}")

    def deaths(self):
        """In a recovery: of another one."""
        if self.point in IN_A_RECOVERY:
            first = Death((self.victim + 1) % WORLD_SIZE, "hand-in", STEP, self.by)
            return [first, Death(self.victim, self.point, 2, self.by)]
        folds_elsewhere = self.point == "fold" and self.backend in FOLDS_ELSEWHERE
        return [Death(self.victim, "mean" if folds_elsewhere else self.point, STEP, self.by)]

    def words(self):
        return (*TRAINING, *MODELS[self.buffers], "--iterations", str(ITERATIONS[self.by]))


def whole_matrix():
    """The victims take turns: rank 0, whose buffers all get, is one as the others are."""
    deaths = itertools.product(IN_A_STEP + IN_A_RECOVERY, (signal.SIGKILL, signal.SIGSTOP))
    ways = [(backend, sync, buffers) for backend in BACK_ENDS
            for sync in (SYNCS_OF_HOSTS if backend == "hosts" else SYNCS) for buffers in MODELS]
    for (number, death), (other, way) in itertools.product(enumerate(deaths), enumerate(ways)):
        yield Cell(*death, *way, victim=(number + other) % WORLD_SIZE)


def summaries_of(words, check_run_dir=None, **how):
    """With `check_run_dir`, the coordinator keeps a ledger, which gets its run directory at the end."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder, "run") if check_run_dir else None
        with LocalRun(words, pathlib.Path(folder), run_dir=run_dir, **how) as run:
            summaries = run.summaries()
        if check_run_dir:
            check_run_dir(run_dir)
        return summaries


def hashes_of(summaries):
    """Of parameters and buffers of each rank."""
    return [(summary["parameters_sha256"], summary["buffers_sha256"]) for summary in summaries]


def without_buffers(hashes, lost):
    """Buffers that each rank keeps for itself are lost with its worker."""
    return [hashes[rank][:1] if rank in lost else hashes[rank] for rank in range(WORLD_SIZE)]


@functools.lru_cache(maxsize=None)
def undisturbed(words):
    """Whatever sync and back end: all have the same bits."""
    return hashes_of(summaries_of(words))


class CellTest(unittest.TestCase):
    def check(self, cell):
        lost = {death.rank for death in cell.deaths()} if cell.buffers == "kept" else {}
        expected = without_buffers(undisturbed(cell.words()), lost)
        backend = {"aggregators": "sharded", "hosts": "auto"}.get(cell.backend, cell.backend)
        words = [*cell.words(), "--sync", cell.sync, "--backend", backend]
        how = {"aggregators": {"aggregators": AGGREGATORS}, "hosts": {"hosts": HOSTS}}
        summaries = summaries_of(words, deaths=cell.deaths(), **how.get(cell.backend, {}),
                                 check_run_dir=lambda run_dir: self.check_ledger(run_dir, cell))
        self.assertEqual(without_buffers(hashes_of(summaries), lost), expected)
        self.assertEqual({summary["failures"]["losses"] for summary in summaries},
                         {len(cell.deaths())})

    def check_ledger(self, run_dir, cell):
        code, found = ledger_test.verdict(run_dir)
        self.assertEqual((code, found["findings"] if code < 2 else found), (0, []))
        self.assertEqual(found["steps_with_samples"], ITERATIONS[cell.by])
        lost = ledger_test.lost_ranks(ledger_test.shown(run_dir)["runs"][0])
        self.assertEqual(sorted(lost), sorted(death.rank for death in cell.deaths()))


class SelectionTest(CellTest):
    """What the ordinary tests have time for."""

    def test_killed_when_it_hands_in_to_the_coordinator(self):
        self.check(Cell("hand-in", signal.SIGKILL, "coordinator", "gather-scatter", victim=0))

    def test_killed_before_it_has_said_what_it_exchanges(self):
        words = Cell("", signal.SIGKILL, "", "").words()
        for backend in ("sharded", "ring"):
            with self.subTest(backend=backend):
                summaries = summaries_of([*words, "--sync", "ddp", "--backend", backend],
                                         deaths=[Death(2, "new-view", 1, signal.SIGKILL)])
                self.assertEqual(hashes_of(summaries), undisturbed(words))

    def test_killed_before_a_resumed_run_is_connected(self):
        words = [*Cell("", signal.SIGKILL, "", "", "sent").words(), "--sync", "ddp"]
        with tempfile.TemporaryDirectory() as folder:
            how = {"run_dir": pathlib.Path(folder, "run")}
            for part, iterations, deaths in (("first", 3, []),
                                             ("second", 5, [Death(2, "new-view", 1, signal.SIGKILL)])):
                at = pathlib.Path(folder, part)
                at.mkdir()
                more = ["--iterations", str(iterations), "--trace", str(at / "trace{rank}")]
                with LocalRun([*words, *more], at, deaths, **how) as run:
                    summaries = run.summaries()
                # Behind the first step and at the end: a trace that breaks off has it, too.
                self.assertEqual((at / "trace0").read_text().count('"clock_offset"'), 2, part)
        self.assertEqual({summary["first_step"] for summary in summaries}, {3})
        self.assertEqual(hashes_of(summaries), undisturbed((*words, "--iterations", "5")))

    def test_killed_when_each_rank_has_buffers_of_its_own(self):
        """At the end of a step that is not sealed, and with means of the next one under way."""
        for point, sync in (("ready", "gather-scatter"), ("next-forward", "ddp")):
            with self.subTest(point=point):
                self.check(Cell(point, signal.SIGKILL, "sharded", sync, "kept"))

    def test_killed_while_it_folds_for_the_others(self):
        self.check(Cell("fold", signal.SIGKILL, "sharded", "ddp"))

    def test_killed_between_two_buckets_means_of_separate_aggregators(self):
        self.check(Cell("applied", signal.SIGKILL, "aggregators", "ddp", victim=3))

    def test_stopped_before_it_hears_that_the_step_is_sealed(self):
        self.check(Cell("before-sealed", signal.SIGSTOP, "ring", "ddp"))

    def test_another_killed_when_it_hears_of_the_loss(self):
        self.check(Cell("new-view", signal.SIGKILL, "hosts", "ddp"))

    def test_time_in_a_view_that_failed_is_waiting(self):
        """Rank 1 breaks off its step at the first loss, and then cannot connect with rank 2, unless it
        is so fast that it connects before that stops."""
        words = [*Cell("", signal.SIGSTOP, "", "").words(), "--sync", "ddp", "--backend", "ring"]
        deaths = [Death(3, "hand-in", STEP, signal.SIGKILL), Death(2, "new-view", 2, signal.SIGSTOP)]
        tries = (summaries_of(words, deaths=deaths)[1]["failures"]["recoveries"] for _ in range(8))
        recovery, = next(recoveries for recoveries in tries if len(recoveries) == 1)
        self.assertEqual(recovery["losses"], 2)
        lost = recovery["seconds_lost_by_phase"]
        self.assertLess(lost["computing"], lost["waiting"])


class MatrixTest(CellTest):
    def test_all(self):
        wanted = os.environ.get("GRADWIRE_MATRIX", "").split()
        outcomes = collections.Counter()
        for cell in whole_matrix():
            if not all(word in str(cell).split() for word in wanted):
                continue
            with self.subTest(cell=str(cell)):
                begun = time.monotonic()
                outcome = "differs"
                try:
                    self.check(cell)
                    outcome = "the same"
                finally:
                    outcomes[outcome] += 1
                    print(f"{cell}  {outcome:8} {time.monotonic() - begun:5.1f} s", flush=True)
        print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()), flush=True)
        self.assertTrue(outcomes, f"no cell has all of {wanted}")


if __name__ == "__main__":
    unittest.main()
