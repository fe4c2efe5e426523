"""cli/report/grouping.py: which logs are of one run, and what is said of it."""
import os
import pathlib
import sys
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES)]
from cli.report.grouping import group_runs, make_run, notes_of, setup_name
from cli.report.logs import Log
from cli.runs.failure import Failure


def log(file, rank, steps=3, first=0):
    return Log(file, rank, [{"step": step} for step in range(first, first + steps)])


def groups_of(*files):
    """{name: ranks} of the runs that these files are of; a file's rank is given."""
    runs = group_runs([log(file, rank) for file, rank in files])
    return {run.name: [log.rank for log in run.logs] for run in runs}


class GroupRuns(unittest.TestCase):
    def test_launchers_names_are_one_run_by_rank(self):
        self.assertEqual(groups_of(("x/ddp.rank1.jsonl", 1), ("x/ddp.rank0.jsonl", 0)),
                         {"ddp": [0, 1]})

    def test_two_runs_are_told_apart(self):
        groups = groups_of(("b.rank0.jsonl", 0), ("a.rank0.jsonl", 0), ("b.rank1.jsonl", 1))
        self.assertEqual(groups, {"b": [0, 1], "a": [0]})
        self.assertEqual(list(groups), ["b", "a"])

    def test_numbers_at_the_end_are_ranks(self):
        self.assertEqual(groups_of(("ddp-4-0.jsonl", 0), ("ddp-4-1.jsonl", 1)), {"ddp-4": [0, 1]})

    def test_number_that_holds_the_rank_is_not_the_rank(self):
        self.assertEqual(groups_of(("r0.x10.jsonl", 0), ("r1.x10.jsonl", 1)), {"r.x10": [0, 1]})

    def test_of_two_numbers_like_the_rank_the_last_is_it(self):
        self.assertEqual(groups_of(("1-a-0.jsonl", 0), ("1-a-1.jsonl", 1)), {"1-a": [0, 1]})

    def test_names_that_are_ranks_alone_give_the_first(self):
        self.assertEqual(groups_of(("0.jsonl", 0), ("1.jsonl", 1)), {"0": [0, 1]})

    def test_folders_by_rank_are_one_run(self):
        self.assertEqual(groups_of(("0/ddp.jsonl", 0), ("1/ddp.jsonl", 1)), {"ddp": [0, 1]})

    def test_same_names_in_two_folders_have_the_folder(self):
        self.assertEqual(groups_of(("old/ddp.rank0.jsonl", 0), ("new/ddp.rank0.jsonl", 0),
                                   ("new/ddp.rank1.jsonl", 1)),
                         {"old/ddp": [0], "new/ddp": [0, 1]})

    def test_same_names_in_folders_by_rank_have_the_folder_around_them(self):
        self.assertEqual(groups_of(("a/0/l.jsonl", 0), ("a/1/l.jsonl", 1), ("b/0/l.jsonl", 0),
                                   ("b/1/l.jsonl", 1)), {"a/l": [0, 1], "b/l": [0, 1]})

    def test_same_names_in_folders_of_one_name_have_their_path(self):
        self.assertEqual(groups_of(("a/x/l.jsonl", 0), ("b/x/l.jsonl", 0)),
                         {"x/l": [0], "b/x/l.jsonl": [0]})

    def test_log_alone_keeps_its_name(self):
        self.assertEqual(groups_of(("run-0.jsonl", 0)), {"run-0": [0]})

    def test_log_alone_of_a_rank_is_named_without_it(self):
        self.assertEqual(groups_of(("run.rank0.jsonl", 0)), {"run": [0]})

    def test_name_without_rank_is_its_own_run(self):
        self.assertEqual(groups_of(("fast.jsonl", 0), ("slow.jsonl", 0)),
                         {"fast": [0], "slow": [0]})


class MakeRun(unittest.TestCase):
    def test_two_logs_of_one_rank_name_both_and_the_way_out(self):
        with self.assertRaises(Failure) as raised:
            make_run("r", [log("a", 1), log("b", 1)])
        self.assertEqual(str(raised.exception),
                         "'a' and 'b' are both of rank 1 of run r; if they are of two runs, say "
                         "so: --run NAME=FILE,FILE")
        self.assertEqual(raised.exception.exit_code, 2)

    def test_name_that_is_no_utf8_is_replaced(self):
        self.assertEqual(make_run(os.fsdecode(b"r\xff"), [log("a", 0)]).name, "r\ufffd")


class SetupName(unittest.TestCase):
    def test_number_of_ranks_is_taken_away(self):
        for name in ("ddp-4", "ddp-w4", "4ranks-ddp", "ddp_4nodes", "ddp.W4"):
            self.assertEqual(setup_name(name, 4), "ddp", name)
        self.assertEqual(setup_name("a-4-b", 4), "a-b")

    def test_other_numbers_stay(self):
        self.assertEqual(setup_name("ddp-8", 4), "ddp-8")
        self.assertEqual(setup_name("4", 4), "4")


class Notes(unittest.TestCase):
    def notes(self, *logs):
        return notes_of([make_run("r", list(logs))])

    def test_whole_run_has_none(self):
        self.assertEqual(self.notes(log("a", 0), log("b", 1)), [])

    def test_missing_ranks_are_named(self):
        self.assertEqual(self.notes(log("a", 1), log("b", 3)),
                         ["Run r has no log of rank 0, 2; its figures are of the other ranks "
                          "only."])

    def test_many_missing_ranks_are_counted(self):
        self.assertEqual(self.notes(log("a", 60000)),
                         ["Run r has no log of 60000 ranks; its figures are of the other ranks "
                          "only."])

    def test_ranks_that_end_apart_are_named(self):
        self.assertEqual(self.notes(log("a", 0, 5), log("b", 1, 3)),
                         ["Run r: the log of rank 1 ends with step 2, that of rank 0 with step 4, "
                          "so a worker was lost, or the run still goes on."])

    def test_of_several_ranks_that_end_together_the_lowest_is_the_first_and_the_highest_the_last(self):
        for steps, first, last in (((5, 3, 3, 5), 1, 3), ((3, 5, 5, 3), 0, 2)):
            (note,) = self.notes(*(log(f"{rank}", rank, count) for rank, count in enumerate(steps)))
            self.assertIn(f"the log of rank {first} ends with step 2, that of rank {last} with step 4",
                          note)

    def test_each_run_has_all_its_notes(self):
        runs = [make_run(name, [log(f"{name}0", 0, 5), log(f"{name}2", 2, 3)]) for name in "ab"]
        self.assertEqual([(note.split(":")[0].split(" has")[0], "no log of rank 1" in note)
                          for note in notes_of(runs)],
                         [("Run a", True), ("Run a", False), ("Run b", True), ("Run b", False)])

    def test_ten_missing_ranks_are_named_and_eleven_are_counted(self):
        for highest, which in ((10, "rank 0, 1, 2, 3, 4, 5, 6, 7, 8, 9;"), (11, "11 ranks;")):
            self.assertIn(f"no log of {which}", self.notes(log("a", highest))[0])

    def test_log_that_begins_later_ends_with_its_last_step(self):
        self.assertEqual(self.notes(log("a", 0, 5), log("b", 1, 2, first=3)), [])
        self.assertEqual(self.notes(log("a", 0, 3), log("b", 1, 3, first=4)),
                         ["Run r: the log of rank 0 ends with step 2, that of rank 1 with step 6, "
                          "so a worker was lost, or the run still goes on."])


if __name__ == "__main__":
    unittest.main()
