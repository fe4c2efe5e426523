"""cli/doctor/checks.py and ways.py: what stands in the way, in words."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.doctor import checks
from cli.doctor.ways import Way, rounds_of
from cases import hosts_of, ways_of


class WaysTest(unittest.TestCase):
    def test_every_pair_meets_once_and_nobody_twice_in_a_round(self):
        for count in (2, 3, 4, 7):
            rounds = list(rounds_of(count))
            met = [frozenset(pair) for pairs in rounds for pair in pairs]
            self.assertEqual((len(met), len(set(met))), (count * (count - 1) // 2,) * 2)
            for pairs in rounds:
                busy = [place for pair in pairs for place in pair]
                self.assertEqual(len(busy), len(set(busy)))

    def test_good_ways_have_no_problem(self):
        for check in (checks.ports, checks.mtu, checks.slow_links, checks.latency, checks.stalled):
            self.assertEqual(list(check(hosts_of(3), ways_of(3))), [])

    def test_slow_host_is_named_rather_than_its_links(self):
        slow = {pair: 1e7 for pair in ((0, 1), (1, 0), (1, 2), (2, 1))}
        (problem,) = checks.slow_links(hosts_of(3), ways_of(3, speed=slow))
        self.assertIn("host 10.0.0.2: all its links are slow: got at most 0.08 Gbit/s, expected "
                      "about 0.8 Gbit/s", problem)

    def test_links_that_were_not_measured_are_not_slow(self):
        for count, places in ((2, {0, 1}), (3, {2})):
            unknown = {(a, b): 0 for a in range(count) for b in range(count)
                       if a != b and {a, b} & places}
            self.assertEqual(list(checks.slow_links(hosts_of(count), ways_of(count, speed=unknown))),
                             [])
        none = ways_of(2)
        none.speed.clear()
        self.assertEqual(list(checks.slow_links(hosts_of(2), none)), [])

    def test_slow_link_is_named_with_its_direction(self):
        (problem,) = checks.slow_links(hosts_of(2), ways_of(2, speed={(1, 0): 1e7}))
        self.assertIn("10.0.0.2 → 10.0.0.1: got 0.08 Gbit/s", problem)

    def test_link_is_slow_below_a_quarter_of_the_usual_speed(self):
        for speed, count in ((0.26e8, 0), (0.24e8, 1)):
            found = checks.slow_links(hosts_of(2), ways_of(2, speed={(1, 0): speed}))
            self.assertEqual(len(list(found)), count, speed)
        for speed, words in ((0.26e8, []), (0.24e8, ["host 10.0.0.2"])):
            slow = {pair: speed for pair in ((0, 1), (1, 0), (1, 2), (2, 1))}
            found = checks.slow_links(hosts_of(3), ways_of(3, speed=slow))
            self.assertEqual([problem.partition(":")[0] for problem in found], words)

    def test_lost_large_packets_are_pointed_out_where_small_ones_arrive(self):
        (problem,) = checks.mtu(hosts_of(2), ways_of(2, large={(0, 1): False}))
        self.assertIn("10.0.0.1 → 10.0.0.2: packets of 1500 bytes are lost", problem)
        none = ways_of(2, large={(0, 1): False}, small={(0, 1): False})
        self.assertEqual(list(checks.mtu(hosts_of(2), none)), [])

    def test_latency_far_above_the_usual_is_named(self):
        (problem,) = checks.latency(hosts_of(3), ways_of(3, seconds={(0, 2): 0.05}))
        self.assertIn("10.0.0.1 → 10.0.0.3: got 50.0 ms", problem)
        # The usual is 10 ms, so ten times as much is a fault, and seven times is none.
        usual = {(a, b): 0.01 for a in range(3) for b in range(3) if a != b}
        for seconds, count in ((0.07, 0), (0.12, 1)):
            found = checks.latency(hosts_of(3), ways_of(3, seconds={**usual, (0, 2): seconds}))
            self.assertEqual(len(list(found)), count, seconds)

    def test_latency_that_was_not_measured_is_no_problem(self):
        unknown = ways_of(2, seconds={(0, 1): None, (1, 0): None})
        self.assertEqual(list(checks.latency(hosts_of(2), unknown)), [])

    def test_latency_of_a_pair_is_told_once(self):
        both = ways_of(3, seconds={(0, 2): 0.05, (2, 0): 0.05})
        self.assertEqual(len(list(checks.latency(hosts_of(3), both))), 1)

    def test_closed_port_says_whether_the_other_way_is_open(self):
        closed = {29400: "no answer within 2 s", 5: ""}
        (problem,) = checks.ports(hosts_of(2), ways_of(2, ports={(0, 1): closed}))
        self.assertIn("10.0.0.1 → 10.0.0.2: port 29400: no answer within 2 s", problem)
        self.assertIn("(the other way is open); look at the firewall of 10.0.0.2", problem)
        both = checks.ports(hosts_of(2), ways_of(2, ports={(0, 1): closed, (1, 0): closed}))
        self.assertEqual(["(the other way is closed, too)" in problem for problem in both],
                         [True, True])


    def test_all_closed_ports_are_named(self):
        closed = {29400: "connection refused", 5: "no answer within 2 s", 6: ""}
        (problem,) = checks.ports(hosts_of(2), ways_of(2, ports={(1, 0): closed}))
        self.assertIn("10.0.0.2 → 10.0.0.1: port 29400 and 5: connection refused", problem)

    def test_way_on_which_data_stall_is_named(self):
        ways = ways_of(2)
        ways.problems[Way(1, 0)] = "timed out"
        (problem,) = checks.stalled(hosts_of(2), ways)
        self.assertIn("10.0.0.2 → 10.0.0.1: connects, but data do not arrive: timed out", problem)

    def test_mtu_that_differs_is_told_against_that_of_most_and_of_equals_the_larger(self):
        for sizes, problem in (((1500, 1500, 9000), "10.0.0.3: got MTU 9000 of eth0, expected 1500"),
                               ((9000, 1500, 9000), "10.0.0.2: got MTU 1500 of eth0, expected 9000"),
                               ((1500, 9000), "10.0.0.1: got MTU 1500 of eth0, expected 9000")):
            hosts = hosts_of(len(sizes))
            for host, size in zip(hosts, sizes):
                host.facts["interfaces"][0][3] = size
            (said,) = checks.mtu(hosts, ways_of(len(sizes)))
            self.assertIn(problem, said)

    def test_interface_that_is_not_known_has_the_usual_mtu(self):
        hosts = hosts_of(2)
        hosts[1].address = "10.0.9.9"
        self.assertEqual(list(checks.mtu(hosts, ways_of(2))), [])
        hosts[0].facts["interfaces"][0][3] = 9000
        (problem,) = checks.mtu(hosts, ways_of(2))
        self.assertIn("host 10.0.0.2: got MTU 1500 of its interface, expected 9000", problem)

    def test_packets_are_as_large_as_both_ends_take(self):
        hosts = hosts_of(2)
        hosts[0].facts["interfaces"][0][3] = 9000
        *_, lost = checks.mtu(hosts, ways_of(2, large={(0, 1): False}))
        self.assertIn("packets of 1500 bytes are lost", lost)


class OfHosts(unittest.TestCase):
    def test_clock_off_is_told_against_most_clocks(self):
        hosts = hosts_of(3)
        (problem,) = checks.clocks(hosts, [0, 5, 0])
        self.assertIn("host 10.0.0.2: its clock is 5.0 s ahead", problem)
        self.assertEqual(list(checks.clocks(hosts, [9, 9, 9])), [])  # this one is off
        for ahead, count in ((0.49, 0), (-0.49, 0), (0.51, 1), (-0.51, 1)):
            self.assertEqual(len(list(checks.clocks(hosts, [0, ahead, 0]))), count, ahead)

    def test_clock_of_one_host_is_compared_with_this_machines(self):
        (problem,) = checks.clocks(hosts_of(1), [-1.5])
        self.assertIn("host 10.0.0.1: its clock is 1.5 s behind", problem)

    def test_hosts_that_are_off_alike_are_told_where_they_are_no_majority(self):
        self.assertEqual(len(list(checks.clocks(hosts_of(3), [0, 5, 5]))), 2)
        self.assertEqual(list(checks.clocks(hosts_of(2), [0.4, -0.4])), [])

    def test_instruction_sets_that_are_lacking_are_named(self):
        hosts = hosts_of(3, flags=["avx", "avx2", "other"])
        hosts[1].facts["flags"] = ["avx"]
        (problem,) = checks.instruction_sets(hosts)
        self.assertIn("host 10.0.0.2: got instruction set of M, which lacks avx2", problem)

    def test_own_name_on_loopback_counts_where_there_are_others(self):
        self.assertEqual(list(checks.names(hosts_of(1, own=["127.0.1.1"]))), [])
        self.assertEqual(len(list(checks.names(hosts_of(2, own=["127.0.1.1"])))), 2)

    def test_name_that_means_another_address_on_a_host_is_named(self):
        hosts = hosts_of(3)
        for host, name in zip(hosts, "abc"):
            host.name = name
            host.facts["means"] = {other: [f"10.0.0.{place}"] for place, other in
                                   enumerate("abc", 1)}
        self.assertEqual(list(checks.names(hosts)), [])
        hosts[2].facts["means"]["b"] = ["10.0.0.9", "10.0.0.8"]
        (problem,) = checks.names(hosts)
        self.assertIn("host c: 'b' means 10.0.0.9, 10.0.0.8 there, expected 10.0.0.2 as here",
                      problem)

    def test_names_that_are_addresses_own_or_not_known_are_passed_over(self):
        hosts = hosts_of(3)
        hosts[0].name, hosts[2].name = "a", "c"
        hosts[0].facts.update(host="a", means={"a": ["127.0.1.1"], "10.0.0.2": ["10.0.0.8"],
                                               "c": ["10.0.0.9"]})
        (problem,) = checks.names(hosts)
        self.assertIn("host a: 'c' means 10.0.0.9 there, expected 10.0.0.3 as here", problem)

    def test_port_must_be_free_where_a_coordinator_may_be(self):
        hosts = hosts_of(3, port_problem="address already in use")
        problems = list(checks.taken_port(hosts, 29400))
        self.assertEqual([problem.partition(",")[0] for problem in problems],
                         [f"host 10.0.0.{place}: port 29400: address already in use"
                          for place in (1, 2)])

    def test_instruction_sets_beside_those_of_the_others_are_named(self):
        hosts = hosts_of(3, flags=["avx", "avx2"])
        hosts[2].facts["flags"] = ["avx", "avx512f"]
        (problem,) = checks.instruction_sets(hosts)
        self.assertIn("host 10.0.0.3: got instruction set of M, which lacks avx2 and has avx512f "
                      "beside, expected that of the others", problem)

    def test_load_is_compared_with_all_cores_of_the_machine(self):
        hosts = hosts_of(2, load=5.0, cores=2, cpus=8)
        self.assertEqual(list(checks.load(hosts)), [])
        hosts[1].facts.update(load=8.5)
        (problem,) = checks.load(hosts)
        self.assertIn("host 10.0.0.2: got a load of 8.5 in the last minute on 8 cores", problem)
        (problem,) = checks.load(hosts_of(1, load=1.5, cpus=1))
        self.assertIn("on 1 core, expected at most 1;", problem)

    def test_memory_and_cores_are_for_all_workers_of_a_host(self):
        hosts = hosts_of(2, memory=3 << 30, cores=2)
        (problem,) = checks.memory(hosts, [2, 4], 1 << 30)
        self.assertIn("host 10.0.0.2: got 3 GiB of free memory, expected 4 GiB for 4 workers",
                      problem)
        (problem,) = checks.memory(hosts_of(1, memory=3 << 30), [1], 5 << 30)
        self.assertIn("expected 5 GiB for 1 worker;", problem)
        (problem,) = checks.threads(hosts, [2, 4])
        self.assertIn("got 2 cores for 4 workers", problem)


if __name__ == "__main__":
    unittest.main()
