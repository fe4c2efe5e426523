"""cli/launch/losses.py: what is made of the survivors' summaries."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch import losses


def recovery(generation, lost, seconds, **changes):
    return {"generation": generation, "first_step": 7, "lost_ranks": lost,
            "carriers": [{"ranks": [0, 2], "adopted": [2]}], "seconds_lost": seconds,
            "seconds_lost_by_phase": {"computing": seconds / 2, "waiting": seconds / 4,
                                      "connecting": seconds / 4}, **changes}


def summary(*recoveries):
    return {"failures": {"recoveries": list(recoveries)}}


class Losses(unittest.TestCase):
    def test_nobody_lost_no_table(self):
        self.assertEqual(losses.table([summary(), {}, {"failures": {"recoveries": None}}]), [])

    def test_each_survivor_tells_of_it_the_slowest_counts(self):
        self.assertEqual(
            losses.table([summary(recovery(2, [2], 0.25)), summary(recovery(2, [2], 0.5))]),
            ["",
             "    lost  at step  carried on by the worker of  s lost  computing  waiting  connecting",
             "  rank 2        7                   ranks 0, 2   0.500      0.250    0.125       0.125",
             "s lost, by the worker that lost most = computing (the interrupted step, with the "
             "wait for the lost worker) + waiting (for the new view) + connecting (until it computes again)"])

    def test_one_line_for_each_view_in_their_order(self):
        rows = losses.rows_of([summary(recovery(2, [1], 1), recovery(3, [0, 3], 1)),
                               summary(recovery(2, [1], 1))])
        self.assertEqual([row["lost"] for row in rows], ["rank 1", "ranks 0, 3"])

    def test_survivor_that_missed_a_view_counts_no_loss_twice(self):
        rows = losses.rows_of([summary(recovery(3, [1, 2], 3)),
                               summary(recovery(2, [1], 1), recovery(3, [2], 1))])
        self.assertEqual([(row["lost"], row["seconds_lost"]) for row in rows],
                         [("rank 1", 1), ("rank 2", 3)])

    def test_carriers_are_those_of_the_loss_that_is_named(self):
        missed = recovery(3, [2, 3], 3, carriers=[{"ranks": [0, 2]}, {"ranks": [1, 3]}])
        row, = [row for row in losses.rows_of([summary(missed), summary(recovery(3, [2], 1))])]
        self.assertEqual((row["lost"], row["carriers"], row["seconds_lost"]),
                         ("rank 2", "ranks 0, 2", 3))

    def test_several_carriers_are_all_named(self):
        carriers = [{"ranks": [0, 2]}, {"ranks": [1, 3]}]
        row, = losses.rows_of([summary(recovery(2, [2, 3], 1, carriers=carriers))])
        self.assertEqual(row["carriers"], "ranks 0, 2; ranks 1, 3")

    def test_view_in_which_nobody_was_lost_is_of_a_pause(self):
        row, = losses.rows_of([summary(recovery(2, [], 1, carriers=[]))])
        self.assertEqual((row["lost"], row["carriers"]), ("none: a pause", ""))

    def test_fields_of_other_form_are_no_error(self):
        losses.table([summary({"generation": "x", "lost_ranks": 3, "carriers": [4]}, 5),
                      summary({"generation": "x", "lost_ranks": ["\x1b"], "carriers": None})])


if __name__ == "__main__":
    unittest.main()
