"""cli/launch/bottleneck.py: what it names, and what it advises."""
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE))
from cli.launch.bottleneck import bottleneck

UNKNOWN = "Bottleneck: not known, because no rank ran two iterations (the first one warms up)."


def rank(number, data=0, exposed=0, optimizer=0, iteration=0.1, **more):
    """Forward and backward take what the others leave."""
    return {"rank": number, "sync": "gather-scatter", "backend": "coordinator", "wire": "fp32",
            "iteration_seconds": {"mean": iteration},
            "phase_seconds": {"data": data, "forward": 0.02,
                              "backward": iteration - data - exposed - optimizer - 0.02,
                              "communication": exposed, "exposed_communication": exposed,
                              "optimizer": optimizer}, **more}


def carries(ranks, mean, adopted=()):
    """Of a summary: its worker carries these ranks at the end, and so many on average."""
    recoveries = [{"adopted": list(adopted)}] if adopted else []
    return {"ranks_of_worker": {"mean": mean, "last": ranks},
            "failures": {"recoveries": recoveries}}


def judged(*ranks):
    return bottleneck(ranks, ["ddp", "parameter-server"], ["coordinator", "ring"], ["local-sgd"],
                      ["parameter-server"])


def exposed(**more):
    return judged(rank(0, exposed=0.06, optimizer=0.01, **more),
                  rank(1, exposed=0.06, optimizer=0.01, **more))


def errs(seconds):
    """Of a summary: the standard error of its own work."""
    return {"own_work_seconds": {"standard_error": seconds}}


class Bottleneck(unittest.TestCase):
    def test_no_rank_is_unknown(self):
        self.assertEqual(judged(), UNKNOWN)

    def test_one_iteration_is_unknown_and_says_why(self):
        self.assertEqual(judged({"rank": 0, "iteration_seconds": {"mean": None}}), UNKNOWN)

    def test_mostly_backward_is_computation(self):
        self.assertEqual(
            judged(rank(0, exposed=0.01, optimizer=0.01), rank(1, exposed=0.01, optimizer=0.01)),
            "Bottleneck: computation (forward and backward), 80.0 of 100.0 ms an iteration (80 %); "
            "try further hosts, faster ones, or more --threads if cores are idle.")

    def test_straggler_that_waits_longer_for_transfers_is_next(self):
        """Many small buckets: of 20 ms, all wait for 9 or more, and rank 1 works 3 ms longer."""
        said = judged(rank(0, exposed=0.012, iteration=0.02), rank(1, exposed=0.009, iteration=0.02),
                      rank(2, exposed=0.012, iteration=0.02))
        self.assertRegex(said, r"^Bottleneck: exposed communication, 11\.0 of 20\.0 ms .*; try .*\. Next: "
                               r"rank 1, whose own work takes 11\.0 ms an iteration, the others' 8\.0 ms")

    def test_straggler_that_waits_for_transfers_less_than_it_delays_is_named_alone(self):
        said = judged(rank(0, exposed=0.012, iteration=0.02), rank(1, exposed=0.0055, iteration=0.02),
                      rank(2, exposed=0.012, iteration=0.02))
        self.assertRegex(said, r"^Bottleneck: rank 1, ")

    def test_straggler_whose_time_is_in_no_phase(self):
        late = rank(1, exposed=0.01)
        late["phase_seconds"].update(backward=0.02)
        self.assertIn("(most of it in column other)", judged(rank(0, exposed=0.06), late))

    def test_one_rank_is_told_of_more_workers(self):
        self.assertIn("try more workers", judged(rank(0, optimizer=0.01)))

    def test_exposed_without_overlap_advises_ddp_half_bytes_batch_and_bandwidth(self):
        self.assertEqual(
            exposed(),
            "Bottleneck: exposed communication, 60.0 of 100.0 ms an iteration (60 %); try --sync "
            "ddp (transfers run beside backward), --wire bf16 (half the bytes) "
            "or --compress int8 (a quarter), a larger "
            "--batch-size or --accumulate or more bandwidth.")

    def test_exposed_with_ddp_and_half_bytes_advises_neither(self):
        sentence = exposed(sync="ddp", wire="bf16")
        self.assertNotIn("--sync", sentence)
        self.assertNotIn("--wire", sentence)

    def test_exposed_with_compression_advises_no_other(self):
        self.assertNotIn("--wire", exposed(sync="ddp", compress="int8"))

    def test_exposed_between_own_models_advises_a_longer_interval_or_delay(self):
        self.assertIn("try a larger H (--sync local-sgd:H) or --delay (",
                      exposed(sync="local-sgd:4"))

    def test_exposed_between_own_models_advises_half_bytes_and_no_codec(self):
        sentence = exposed(sync="local-sgd:4")
        self.assertIn("--wire bf16 (half the bytes)", sentence)
        self.assertNotIn("--compress", sentence)

    def test_exposed_towards_a_served_model_advises_staleness_and_no_other_wire(self):
        sentence = exposed(sync="parameter-server")
        self.assertIn("try a larger --staleness (fewer waits for slow ranks), or aggregators on "
                      "further hosts, a larger --batch-size", sentence)
        self.assertNotIn("--wire", sentence)

    def test_exposed_with_a_back_end_of_fp32_alone_advises_no_wire(self):
        self.assertNotIn("--wire", exposed(backend="gloo"))

    def test_exposed_on_idle_links_advises_no_bandwidth(self):
        sentence = exposed(link_share=0.2)
        self.assertIn("with the links at 20 % of their speed", sentence)
        self.assertNotIn("bandwidth", sentence)

    def test_exposed_on_full_links_advises_bandwidth(self):
        self.assertIn("more bandwidth", exposed(link_share=0.9))

    def test_exposed_with_one_remedy_left_names_that_alone(self):
        self.assertTrue(exposed(sync="ddp", wire="bf16", link_share=0.2).endswith(
            "; try a larger --batch-size or --accumulate."))

    def test_exposed_in_unknown_setup_says_if_not_used(self):
        self.assertIn("--sync ddp and --wire bf16 if they were not used",
                      exposed(sync=None, backend=None, wire=None))

    def test_wait_and_share_of_the_links_are_means_over_the_ranks(self):
        self.assertIn("47.0 of 100.0 ms an iteration (47 %), with the links at 30 % of their speed",
                      judged(rank(0, exposed=0.05, link_share=0.2),
                             rank(1, exposed=0.044, link_share=0.4)))

    def test_iteration_is_the_mean_over_the_ranks(self):
        self.assertIn("60.0 of 110.0 ms an iteration (55 %)",
                      judged(rank(0, exposed=0.06, iteration=0.1), rank(1, exposed=0.06, iteration=0.12,
                                                                        optimizer=0.02)))

    def test_waiting_for_data_is_named(self):
        self.assertIn("waiting for data, 400.0 of 500.0 ms",
                      judged(rank(0, data=0.4, iteration=0.5), rank(1, data=0.4, iteration=0.5)))

    def test_optimizer_is_named(self):
        self.assertIn("the optimizer, 50.0 of 100.0 ms",
                      judged(rank(0, exposed=0.01, optimizer=0.05)))

    def test_computation_comes_before_a_shorter_wait_which_is_next(self):
        sentence = judged(rank(0, optimizer=0.017))
        self.assertRegex(sentence, r"^Bottleneck: computation \(forward and backward\), 83\.0 of 100\.0 "
                                   r"ms an iteration \(83 %\); try .* idle\. Next: the optimizer, 17\.0 "
                                   r"of 100\.0 ms an iteration \(17 %\); try .*\.$")

    def test_wait_of_less_than_a_sixth_is_not_next(self):
        self.assertNotIn("Next", judged(rank(0, optimizer=0.016)))

    def test_longest_wait_is_alone(self):
        self.assertTrue(exposed().startswith("Bottleneck: exposed communication"))
        self.assertNotIn("Next", exposed())

    def test_advice_is_that_of_the_page(self):
        page = " ".join((SOURCE / "docs/tasks/slow-run.md").read_text().replace("`", "").split())
        for name in ("data", "optimizer"):
            sentence = judged(rank(0, **{name: 0.06}))
            self.assertIn(sentence.split("; try ")[1].removesuffix("."), page)
        self.assertIn(judged(rank(0), rank(1)).split("; try ")[1].removesuffix("."), page)

    def test_one_rank_that_works_longer_is_a_straggler_with_its_phase(self):
        self.assertEqual(
            judged(rank(0, exposed=0.05), rank(1, data=0.03), rank(2, exposed=0.05)),
            "Bottleneck: rank 1, whose own work takes 100.0 ms an iteration, the others' 50.0 ms "
            "(most of it waiting for data); look at what else its host does, or give it another.")

    def test_one_quick_rank_does_not_make_another_one_slow(self):
        # Own work of 20, 90, 90 and 95 ms: the median of the others is 90, their mean 67.
        sentence = judged(rank(0, exposed=0.08), rank(1, exposed=0.01), rank(2, exposed=0.01),
                          rank(3, exposed=0.005))
        self.assertRegex(sentence, "^Bottleneck: computation ")

    def test_own_work_of_the_others_is_their_median(self):
        sentence = judged(rank(0, exposed=0.07), rank(1, exposed=0.05), rank(2, exposed=0.045), rank(3))
        self.assertIn("rank 3, whose own work takes 100.0 ms an iteration, the others' 50.0 ms",
                      sentence)

    def test_worker_that_took_over_a_lost_rank_is_no_straggler_but_the_loss_is(self):
        # The worker of rank 0 carried rank 2 on in half of the iterations that count for it.
        self.assertEqual(
            judged(rank(0, exposed=0.02, **carries([0, 2], 1.5, adopted=[2])),
                   rank(1, exposed=0.05), rank(2, **carries([0, 2], 2, adopted=[2]))),
            "Bottleneck: the loss of a worker: since rank 2 was lost, the worker of ranks 0, 2 computes "
            "2 ranks one after the other, so its own work takes 100.0 ms an iteration, that of the "
            "others 50.0 ms; start the next run with all workers.")

    def test_all_ranks_of_several_losses_are_named(self):
        carrier = carries([0, 2, 3], 3)
        carrier["failures"]["recoveries"] = [{"adopted": [2]}, {"adopted": [3]}]
        sentence = judged(rank(0, exposed=0.02, **carrier), rank(1, exposed=0.07))
        self.assertIn("since ranks 2, 3 were lost, the worker of ranks 0, 2, 3 computes 3 ranks",
                      sentence)

    def test_worker_that_is_slow_for_each_rank_that_it_carries_is_a_straggler(self):
        sentence = judged(rank(0, exposed=0.075), rank(1, exposed=0.075),
                          rank(2, data=0.04, **carries([2, 3], 2)),
                          rank(3, data=0.04, **carries([2, 3], 2)))
        self.assertEqual(
            sentence,
            "Bottleneck: the worker of ranks 2, 3, whose own work takes 50.0 ms an iteration for each "
            "rank, the others' 25.0 ms (most of it waiting for data); look at what else its host does, "
            "or give it another.")

    def test_straggler_that_took_over_a_rank_late_has_times_for_each_that_it_carried(self):
        # 100 ms for 1.25 ranks on average, although it carries two at the end.
        late = carries([0, 2], 1.25, adopted=[2])
        self.assertIn("the worker of ranks 0, 2, whose own work takes 80.0 ms an iteration for each rank, "
                      "the others' 40.0 ms",
                      judged(rank(0, **late), rank(1, exposed=0.06), rank(2, **late)))

    def test_what_a_straggler_loses_counts_for_all_ranks_that_it_carries(self):
        # 8 ms for each rank, so 16 of 100 ms; the others wait for both.
        sentence = judged(rank(0, exposed=0.075), rank(1, exposed=0.075),
                          rank(2, exposed=0.034, **carries([2, 3], 2)),
                          rank(3, exposed=0.034, **carries([2, 3], 2)))
        self.assertIn("the worker of ranks 2, 3, whose own work takes 33.0 ms an iteration for each "
                      "rank, the others' 25.0 ms", sentence)

    def test_phases_of_a_straggler_are_compared_for_each_rank_that_is_carried(self):
        # Data take 15 ms longer for each rank, forward and backward 10 ms.
        sentence = judged(rank(0, exposed=0.075), rank(1, exposed=0.075),
                          rank(2, data=0.03, **carries([2, 3], 2)),
                          rank(3, data=0.03, **carries([2, 3], 2)))
        self.assertIn("(most of it waiting for data)", sentence)

    def test_phases_of_others_count_for_each_rank_that_they_carry(self):
        # For each rank, forward and backward take 16 ms longer than on average, data 10 ms.
        sentence = judged(rank(0, exposed=0.06, **carries([0, 1], 2)),
                          rank(1, exposed=0.06, **carries([0, 1], 2)), rank(2, data=0.015, exposed=0.04))
        self.assertIn("(most of it forward and backward)", sentence)

    def test_straggler_with_one_rank_beside_workers_with_several_has_times_for_each_rank(self):
        sentence = judged(rank(0, exposed=0.06, **carries([0, 1], 2)),
                          rank(1, exposed=0.06, **carries([0, 1], 2)), rank(2, exposed=0.04))
        self.assertIn("the worker of rank 2, whose own work takes 60.0 ms an iteration for each rank, "
                      "the others' 20.0 ms", sentence)

    def test_carrier_of_a_lost_rank_that_others_do_not_wait_for_is_not_blamed(self):
        self.assertIn("exposed communication",
                      judged(rank(0, exposed=0.06, **carries([0, 2], 2, adopted=[2])),
                             rank(1, exposed=0.065), rank(2, exposed=0.06, **carries([0, 2], 2))))

    def test_delay_by_a_carrier_is_towards_the_median_of_the_others(self):
        # The delay is 100 - 50 ms; towards rank 1 alone it would be less than the wait of rank 0.
        sentence = judged(rank(0, exposed=0.045, iteration=0.145, **carries([0, 4], 2)),
                          rank(1, exposed=0.04), rank(2, exposed=0.05), rank(3, exposed=0.052))
        self.assertTrue(sentence.startswith("Bottleneck: an uneven deal of ranks: the worker of ranks"),
                        sentence)
        self.assertIn("100.0 ms an iteration, that of the others 50.0 ms; try as many ranks", sentence)

    def test_uneven_deal_from_the_beginning_is_no_loss(self):
        sentence = judged(rank(0, **carries([0, 1], 2)), rank(1, **carries([0, 1], 2)),
                          rank(2, exposed=0.05))
        self.assertIn("an uneven deal of ranks: the worker of ranks 0, 1 computes 2 ranks one after",
                      sentence)
        self.assertNotIn("lost", sentence)

    def test_ranks_of_one_worker_are_not_compared_with_each_other(self):
        self.assertIn("computation", judged(rank(0, **carries([0, 1], 2)),
                                            rank(1, **carries([0, 1], 2))))

    def test_slightly_slower_rank_is_no_straggler(self):
        self.assertIn("exposed communication", judged(rank(0, exposed=0.05),
                                                      rank(1, exposed=0.045)))

    def test_rank_that_is_slower_by_chance_perhaps_is_no_straggler(self):
        # 15 ms longer; two standard errors of the difference are 2 * hypot(8, 2) = 16.5 ms.
        ranks = [rank(0, exposed=0.035), rank(1, exposed=0.035), rank(2, exposed=0.02)]
        others, slow = errs(0.004 / 2 ** 0.5), errs(0.008)
        self.assertNotIn("rank 2", judged(ranks[0] | others, ranks[1] | others, ranks[2] | slow))
        others, slow = errs(0.002), errs(0.006)
        self.assertIn("rank 2", judged(ranks[0] | others, ranks[1] | others, ranks[2] | slow))

    def test_one_worker_alone_has_nobody_to_differ_from_by_chance(self):
        ranks = [rank(0) | errs(0.004), rank(1) | errs(0.004)]
        self.assertIn("try more workers", judged(ranks[0]))
        self.assertIn("computation", judged(*(one | carries([0, 1], 2) for one in ranks)))

    def test_single_timed_iteration_blames_no_rank(self):
        ranks = [rank(0, exposed=0.05), rank(1, exposed=0.05), rank(2)]
        self.assertIn("rank 2", judged(*ranks))  # of a summary that does not say
        self.assertNotIn("rank 2", judged(*(one | errs(None) for one in ranks)))

    def test_rank_without_times_is_left_out(self):
        self.assertIn("exposed communication", judged(rank(0, exposed=0.06),
                                                      {"rank": 1, "iteration_seconds": {}}))


if __name__ == "__main__":
    unittest.main()
