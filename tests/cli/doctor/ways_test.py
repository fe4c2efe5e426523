"""cli/doctor/ways.py and pair_probe.py: how ways between hosts are found out, on this machine."""
import json
import pathlib
import socket
import subprocess
import sys
import threading
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCES))
from cli.doctor import pair_probe, ways
from cli.doctor.ways import Way, Ways
from cases import hosts_of

HERE = "127.0.0.1"


def no_ways():
    return Ways({}, {}, {}, {}, {}, {})


class Peers(unittest.TestCase):
    def test_each_tries_all_others_with_packets_that_both_take(self):
        hosts = hosts_of(3)
        hosts[1].facts["interfaces"][0][3] = 9000
        hosts[2].facts["interfaces"][0][3] = 1400
        listening = [{"ports": [1], "udp": 2}, {"ports": [3], "udp": 4}, {"ports": [], "udp": 0}]
        self.assertEqual(ways.peers_of(1, hosts, listening), {
            0: {"address": "10.0.0.1", "ports": [1], "udp": 2, "bytes": 1500},
            2: {"address": "10.0.0.3", "ports": [], "udp": 0, "bytes": 1400}})

    def test_port_is_the_first_that_can_be_reached(self):
        found = no_ways()
        way = Way(0, 1)
        listening = [None, {"ports": [5, 6]}]
        for closed, expected in (({5: "", 6: ""}, 5), ({5: "refused", 6: ""}, 6),
                                 ({5: "refused", 6: "refused"}, None)):
            found.ports[way] = closed
            self.assertEqual(ways.open_port(found, way, listening), expected)


class FakeAsked:
    """In place of ask.py's: gives answers in turn."""
    answers = []
    orders = []

    def __init__(self, _processes, link, argv):
        self.orders.append((link, json.loads(argv[-1])))


class Measure(unittest.TestCase):
    """Between two hosts, named by their links 0 and 1."""

    def setUp(self):
        self.hosts = hosts_of(2)
        self.listening = [{"ports": [5]}, {"ports": [6]}]
        self.found = no_ways()
        self.found.ports = {Way(0, 1): {6: ""}, Way(1, 0): {5: ""}}
        FakeAsked.orders = []
        self.enterContext(mock.patch.object(ways, "Asked", FakeAsked))

    def measure(self, *answers):
        with mock.patch.object(ways, "await_all", return_value=answers):
            ways.measure(None, [0, 1], self.hosts, self.listening, [(0, 1)], self.found, None)

    def test_one_connection_tells_both_directions(self):
        self.measure({"seconds": 0.1, "out": 10, "in": 20, "problem": ""})
        self.assertEqual(FakeAsked.orders, [(0, {"address": "10.0.0.2", "port": 6})])
        self.assertEqual(self.found.speed, {Way(0, 1): 10, Way(1, 0): 20})
        self.assertEqual(self.found.seconds, {Way(0, 1): 0.1, Way(1, 0): 0.1})
        self.assertEqual(self.found.problems, {})

    def test_where_one_way_is_closed_the_other_is_taken(self):
        self.found.ports[Way(0, 1)] = {6: "refused"}
        self.measure({"seconds": 0.1, "out": 10, "in": 20, "problem": ""})
        self.assertEqual(FakeAsked.orders, [(1, {"address": "10.0.0.1", "port": 5})])
        self.assertEqual(self.found.speed, {Way(1, 0): 10, Way(0, 1): 20})

    def test_pair_that_is_closed_both_ways_is_left_out(self):
        self.found.ports = {Way(0, 1): {6: "refused"}, Way(1, 0): {5: "refused"}}
        self.measure()
        self.assertEqual((FakeAsked.orders, self.found.speed), ([], {}))

    def test_answers_are_of_the_pairs_that_were_asked(self):
        hosts, listening = hosts_of(6), [{"ports": [5]}] * 6
        self.found.ports = {Way(a, b): {5: "refused" if {a, b} == {0, 5} or (a, b) == (1, 4) else ""}
                            for a in range(6) for b in range(6) if a != b}
        answers = [{"seconds": place, "out": 10 * place, "in": 100 * place, "problem": f"{place}"}
                   for place in (1, 2)]
        with mock.patch.object(ways, "await_all", return_value=answers):
            ways.measure(None, range(6), hosts, listening, [(0, 5), (1, 4), (2, 3)], self.found, None)
        self.assertEqual([host for host, _ in FakeAsked.orders], [4, 2])
        self.assertEqual(self.found.speed, {Way(4, 1): 10, Way(1, 4): 100, Way(2, 3): 20,
                                            Way(3, 2): 200})
        self.assertEqual(self.found.seconds, {Way(4, 1): 1, Way(1, 4): 1, Way(2, 3): 2, Way(3, 2): 2})
        self.assertEqual(self.found.problems, {Way(4, 1): "1", Way(2, 3): "2"})

    def test_second_measurement_only_betters(self):
        for out, back in ((10, 20), (15, 5), (None, None)):
            self.measure({"seconds": 0.1, "out": out, "in": back, "problem": ""})
        self.assertEqual(self.found.speed, {Way(0, 1): 15, Way(1, 0): 20})

    def test_second_measurement_that_fails_leaves_the_latency_of_the_first(self):
        self.measure({"seconds": 0.1, "out": 10, "in": 20, "problem": ""})
        self.measure({"seconds": None, "out": None, "in": None, "problem": "timed out"})
        self.assertEqual(self.found.seconds, {Way(0, 1): 0.1, Way(1, 0): 0.1})
        self.assertEqual(self.found.problems, {Way(0, 1): "timed out"})

    def test_second_measurement_has_the_latency_of_its_own(self):
        for seconds in (0.1, 0.2):
            self.measure({"seconds": seconds, "out": 10, "in": 20, "problem": ""})
        self.assertEqual(self.found.seconds, {Way(0, 1): 0.2, Way(1, 0): 0.2})

    def test_what_stalls_is_kept(self):
        self.measure({"seconds": None, "out": None, "in": None, "problem": "timed out"})
        self.assertEqual(self.found.problems, {Way(0, 1): "timed out"})
        self.assertEqual(self.found.speed, {Way(0, 1): 0, Way(1, 0): 0})


class Explored:
    """In place of ask.py's Asked: what was asked of which host."""

    def __init__(self, _processes, link, argv):
        self.link, self.kind, self.order = link, argv[-2], json.loads(argv[-1])


class Explore(unittest.TestCase):
    """Among three hosts, of which the ways between the first two are slow."""

    def answer(self, asked, _wait, _seconds):
        self.rounds.append([(one.link, one.order["address"]) for one in asked
                            if one.kind == "measure"])
        return [self.tried(one) if one.kind == "try" else self.measured(one) for one in asked]

    def tried(self, asked):
        return [{"ports": {"5": ""}, "small": True, "large": peer["address"] != "10.0.0.3"}
                for peer in asked.order]

    def measured(self, asked):
        """The ways between the first two are fast from the round `fast_from` on."""
        is_slow = ({asked.link, asked.order["address"]} <= {0, 1, "10.0.0.1", "10.0.0.2"} and
                   len(self.rounds) < self.fast_from)
        return {"seconds": 1e-4, "out": 1e6 if is_slow else 1e8, "in": 2e6 if is_slow else 2e8,
                "problem": ""}

    def explore(self, fast_from=100):
        self.rounds, self.fast_from = [], fast_from
        listening = [{"ports": [5], "udp": 6}] * 3
        with mock.patch.object(ways, "Asked", Explored), \
                mock.patch.object(ways, "await_all", self.answer), \
                mock.patch.object(ways, "served", lambda *_: listening):
            return ways.explore(None, [0, 1, 2], hosts_of(3), 29400, None)

    def measured_pairs(self):
        return len([pair for pairs in self.rounds[1:] for pair in pairs])

    def test_all_ways_are_tried_and_slow_pairs_are_measured_again_each_alone(self):
        found = self.explore()
        every = {Way(start, end) for start in range(3) for end in range(3) if start != end}
        self.assertEqual((set(found.ports), set(found.small), set(found.speed)), (every,) * 3)
        self.assertEqual({way for way, arrives in found.large.items() if not arrives},
                         {Way(0, 2), Way(1, 2)})
        self.assertEqual((found.speed[Way(0, 1)], found.speed[Way(1, 0)]), (1e6, 2e6))
        self.assertEqual(self.measured_pairs(), 3 + ways.TIMES_AGAIN)
        self.assertEqual(self.rounds[-1], [(0, "10.0.0.2")])

    def test_pair_that_is_fast_when_it_is_measured_again_is_not_slow(self):
        rounds_before = 1 + 3  # the tries, and three pairs
        found = self.explore(fast_from=rounds_before + ways.TIMES_AGAIN)
        self.assertEqual((found.speed[Way(0, 1)], found.speed[Way(1, 0)]), (1e8, 2e8))
        self.explore(fast_from=rounds_before + 1)
        self.assertEqual(self.measured_pairs(), 3 + 1)

    def test_host_whose_server_has_ended_listens_nowhere(self):
        said = [mock.Mock(out=b'{"ports": [5], "udp": 6}\n', ended=False),
                mock.Mock(out=b"", ended=True)]
        processes, waited = mock.Mock(), []
        processes.add.side_effect = said
        self.assertEqual(ways.served(processes, ["a", "b"], 29400,
                                     lambda ready, _: waited.append(ready()), 10),
                         [{"ports": [5], "udp": 6}, {"ports": [], "udp": 0}])
        self.assertEqual(waited, [True])
        for call, link in zip(processes.add.call_args_list, "ab"):
            self.assertEqual((call.args[0].link, call.args[0].argv[-2:]),
                             (link, ["serve", '{"ports": [29400]}']))


class Probe(unittest.TestCase):
    """One that serves here, and what another finds out of it."""

    @classmethod
    def setUpClass(cls):
        with socket.create_server((HERE, 0)) as taken:
            cls.taken = taken.getsockname()[1]
            cls.server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c",
                 (SOURCES / "cli/doctor/pair_probe.py").read_text(),
                 "serve", json.dumps({"ports": [cls.taken]})],
                cwd="/", stdout=subprocess.PIPE)
            cls.addClassCleanup(cls.server.wait)
            cls.addClassCleanup(cls.server.kill)
            cls.addClassCleanup(cls.server.stdout.close)
            cls.listening = json.loads(cls.server.stdout.readline())

    def peer(self, **changes):
        return {"address": HERE, "ports": self.listening["ports"], "udp": self.listening["udp"],
                "bytes": 1500, **changes}

    def test_port_that_is_taken_is_passed_over(self):
        self.assertEqual(len(self.listening["ports"]), 1)
        self.assertNotIn(self.taken, self.listening["ports"])

    def test_open_ports_and_datagrams_are_found(self):
        found = pair_probe.try_one(self.peer(ports=[*self.listening["ports"], self.taken]))
        self.assertEqual(found, {"ports": {self.listening["ports"][0]: "",
                                           self.taken: "connection refused"},
                                 "small": True, "large": True})

    def test_datagram_larger_than_the_link_takes_is_lost(self):
        with mock.patch.object(pair_probe, "SECONDS_PER_TRY", 0.02):
            self.assertFalse(pair_probe.datagram_comes_back(HERE, self.listening["udp"], 70000))

    def test_all_peers_are_tried_at_once_and_told_in_order(self):
        closed = self.peer(ports=[self.taken])
        with mock.patch("builtins.print") as printed:
            pair_probe.try_all([closed, self.peer()])
        told = json.loads(printed.call_args[0][0])
        self.assertEqual([list(one["ports"].values()) for one in told],
                         [["connection refused"], [""]])

    def measured(self, port, address=HERE):
        with mock.patch("builtins.print") as printed:
            pair_probe.measure({"address": address, "port": port})
        return json.loads(printed.call_args[0][0])

    def test_latency_and_both_speeds_are_measured(self):
        with mock.patch.object(pair_probe, "SECONDS_TO_SEND", 0.02):
            found = self.measured(self.listening["ports"][0])
        self.assertEqual(found["problem"], "")
        for name in ("seconds", "out", "in"):
            self.assertGreater(found[name], 0)

    def test_latency_is_half_of_the_median_echo(self):
        connection = mock.MagicMock()
        times = [clock for echo in range(pair_probe.ECHOES)
                 for clock in (100.0, 109.0 if echo == 0 else 100.5)]
        with mock.patch.object(pair_probe, "connected", return_value=connection), \
                mock.patch.object(pair_probe.time, "monotonic", side_effect=times):
            self.assertEqual(pair_probe.seconds_one_way({}), 0.25)

    def test_speed_is_what_arrived_in_the_time_that_it_took(self):
        connection = mock.MagicMock()
        connection.__enter__.return_value.recv.side_effect = [
            pair_probe.COUNT.pack(1000), bytes(600), bytes(400), b""]
        with mock.patch.object(pair_probe, "connected", return_value=connection) as connected, \
                mock.patch.object(pair_probe, "send_for_a_while"), \
                mock.patch.object(pair_probe.time, "monotonic", side_effect=[10, 14, 20, 22]):
            self.assertEqual((pair_probe.speed_out({}), pair_probe.speed_in({})), (250, 500))
        self.assertEqual([call.args[1] for call in connected.call_args_list],
                         [pair_probe.SINK, pair_probe.SOURCE])

    def test_datagram_fills_its_packet_and_is_never_cut(self):
        asked = mock.MagicMock()
        asked.__enter__.return_value = asked
        asked.recv.side_effect = [OSError, b"", OSError, OSError, OSError]
        with mock.patch.object(pair_probe.socket, "socket", return_value=asked):
            self.assertTrue(pair_probe.datagram_comes_back(HERE, 7, 1500))
            self.assertFalse(pair_probe.datagram_comes_back(HERE, 7, 1500))
        self.assertEqual([(len(call.args[0]), call.args[1]) for call in asked.sendto.call_args_list],
                         [(1472, (HERE, 7))] * (2 + pair_probe.TRIES))
        asked.setsockopt.assert_called_with(socket.IPPROTO_IP, pair_probe.IP_MTU_DISCOVER,
                                            pair_probe.IP_PMTUDISC_PROBE)
        asked.settimeout.assert_called_with(pair_probe.SECONDS_PER_TRY)

    def test_large_datagrams_are_tried_only_if_small_ones_return(self):
        for answers, sizes in (([False], [100]), ([True, False], [100, 1500]), ([True, True], [100, 1500])):
            with mock.patch.object(pair_probe, "datagram_comes_back", side_effect=answers) as tried:
                found = pair_probe.try_one(self.peer(ports=[]))
            self.assertEqual((found["small"], found["large"]), (answers[0], answers[-1]))
            self.assertEqual([call.args[2] for call in tried.call_args_list], sizes)

    def test_peer_that_takes_and_says_nothing_is_a_problem(self):
        with socket.create_server((HERE, 0)) as silent:
            with mock.patch.object(pair_probe, "SECONDS_TO_STALL", 0.05):
                found = self.measured(silent.getsockname()[1])
        self.assertEqual((found["seconds"], found["problem"]), (None, "timed out"))

    def test_peer_that_ends_without_an_answer_is_a_problem(self):
        def take_all_and_close(listener):
            with listener.accept()[0] as connection:
                pair_probe.receive_all(connection)
        with socket.create_server((HERE, 0)) as listener:
            thread = threading.Thread(target=take_all_and_close, args=(listener,))
            thread.start()
            with mock.patch.object(pair_probe, "seconds_one_way", return_value=0.1), \
                    mock.patch.object(pair_probe, "SECONDS_TO_SEND", 0.02):
                found = self.measured(listener.getsockname()[1])
            thread.join()
        self.assertEqual((found["seconds"], found["out"]), (0.1, None))
        self.assertTrue(found["problem"])


if __name__ == "__main__":
    unittest.main()
