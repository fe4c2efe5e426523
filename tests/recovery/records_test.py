"""A run loses two workers, and still its logs, summaries and report have each step once. The first worker
stops when all have the means of a step that is not sealed, so the others compute a step again that they
had finished. The second is killed once a step is sealed. See dying_worker.cc."""
import csv
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

from local_run import BIN, ENVIRONMENT, WORLD_SIZE, Death, LocalRun

STEPS = 10
NOT_SEALED = 3
SEALED = 5
WORDS = ["--model", "lenet", "--dataset", "synthetic", "--seed", "744", "--batch-size", "2",
         "--threads", "1", "--bucket-cap-mb", "0", "--iterations", str(STEPS), "--print-every", "1",
         "--sync", "ddp", "--backend", "coordinator"]
DEATHS = [Death(2, "applied", NOT_SEALED, signal.SIGSTOP), Death(1, "sealed", SEALED, signal.SIGKILL)]
# The first step that a survivor computed of each rank that it adopted.
ADOPTED = {2: NOT_SEALED, 1: SEALED + 1}
FLOAT_BYTES = 4


class RecordsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        words = [*WORDS, "--log-jsonl", str(cls.folder / "rank{rank}.jsonl")]
        with LocalRun(words, cls.folder, deaths=DEATHS) as run:
            cls.summaries = run.summaries()
        cls.logs = [cls.folder / f"rank{rank}.jsonl" for rank in range(WORLD_SIZE)]
        lines = [[json.loads(line) for line in log.read_text().splitlines()] for log in cls.logs]
        cls.records = [[line for line in log if "kind" not in line] for log in lines]
        cls.recoveries = [line for line in lines[0] if line.get("kind") == "recovery"]

    def of_survivors(self):
        """The records that workers wrote which are there at the end."""
        return [record for rank, records in enumerate(self.records) for record in records
                if record["step"] >= ADOPTED.get(rank, 0)]

    def test_survivors_go_on_from_the_first_step_that_is_not_sealed(self):
        self.assertEqual({rank: recovery["first_step"] for recovery in self.recoveries
                          for rank in recovery["lost_ranks"]}, ADOPTED)

    def test_each_log_has_each_step_once(self):
        for rank, records in enumerate(self.records):
            with self.subTest(rank=rank):
                self.assertEqual([record["step"] for record in records], list(range(STEPS)))
                self.assertEqual({record["rank"] for record in records}, {rank})

    def test_summaries_count_each_step_once(self):
        for rank, summary in enumerate(self.summaries):
            with self.subTest(rank=rank):
                steps = STEPS - ADOPTED.get(rank, 0)
                self.assertEqual(summary["iterations"], steps)
                self.assertEqual(len(summary["losses"]), steps)
                self.assertEqual(summary["epochs"][-1]["iterations"], steps)

    def test_logs_add_up_to_what_the_summaries_say(self):
        for field in ("bytes_sent", "bytes_received"):
            self.assertEqual(sum(summary[field] for summary in self.summaries),
                             sum(record[field] for record in self.of_survivors()), field)

    def test_step_that_was_computed_once_sends_the_gradient_once(self):
        gradient = self.summaries[0]["trained_parameters"] * FLOAT_BYTES
        sent = {step: {record["bytes_sent"] for record in self.of_survivors() if record["step"] == step}
                for step in (0, 1, 2, STEPS - 2, STEPS - 1)}
        self.assertEqual(sent, {step: {gradient} for step in sent})

    def test_no_step_sends_more_than_what_was_computed_for_it(self):
        gradient = self.summaries[0]["trained_parameters"] * FLOAT_BYTES
        for record in self.of_survivors():
            # The step twice, and the next one, which the first attempt may have handed in as well.
            self.assertLessEqual(record["bytes_sent"], 3 * gradient, record)

    def test_report_has_each_step_once_with_all_ranks(self):
        subprocess.run([BIN / "gradwire", "report", *self.logs, "--out", self.folder / "report.html"],
                       env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
        with open(self.folder / "report.steps.csv", encoding="utf-8") as file:
            rows = [(int(row["step"]), int(row["ranks"])) for row in csv.DictReader(file)]
        self.assertEqual(rows, [(step, WORLD_SIZE) for step in range(STEPS)])


if __name__ == "__main__":
    unittest.main()
