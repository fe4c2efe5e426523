"""cli/doctor/doctor.py: what it asks, what it prints, and how it ends."""
import contextlib
import io
import ipaddress
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.doctor import doctor
from cli.doctor.ways import Way
from cli.hosts.checks import Host
from cli.runs.failure import EXIT_FAILED, Failure
from cli.runs.hostfile import parse_hosts
from cases import hosts_of, ways_of

REQUEST = {"program": "/bin/gradwire", "network": "", "data_dir": "", "port": 29400,
           "hostfile": "", "per_host": 0, "memory_gib": 1}
GIB = 1 << 30


def case_of(count, **changes):
    facts = {"version": "gradwire 1", "version_problem": "", "held": [], "from": {}, "cores": 4,
             "cpus": 4, "load": 0.5, "memory": 8 * GIB, "sharing": "host 4 GB", "free": GIB,
             "temporary": "/tmp", **changes}
    hosts = hosts_of(count, **facts)
    for host in hosts:
        host.facts["held"] = [host.address]
    ways = ways_of(count) if count > 1 else None
    return doctor.Case(REQUEST, "gradwire 1", hosts, [1] * count, [0] * count, ways)


def said(function, *args):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        function(*args)
    return printed.getvalue()


class Words(unittest.TestCase):
    def test_range_is_one_number_where_all_are_alike(self):
        for values, expected in (([2, 2.0004], "2 cores"), ([8, 2], "2 to 8 cores"),
                                 ([1500, 1500.2], "1500 cores"), ([0.5], "0.5 cores")):
            self.assertEqual(doctor.of_all(values, "cores"), expected)

    def test_addresses_have_their_interfaces_where_they_are_known(self):
        case = case_of(2)
        case.hosts[1].address = "10.9.9.9"
        self.assertEqual(doctor.say_addresses(case), "10.0.0.1 (eth0), 10.9.9.9")

    def test_ports_are_counted_over_all_ways(self):
        self.assertEqual(doctor.say_ports(case_of(3)), "12 connections between 3 hosts")

    def test_sharing_of_memory_is_said_once_where_all_hosts_are_alike(self):
        case = case_of(3)
        self.assertEqual(doctor.say_sharing(case),
                         "of memory, by the workers of one host: host 4 GB; in memory: no two ranks")
        case.hosts[1].facts["sharing"] = "off: memfd_create: not permitted"
        self.assertEqual(doctor.say_sharing(case),
                         "of memory, by the workers of one host: 10.0.0.1, 10.0.0.3: host 4 GB; "
                         "10.0.0.2: off: memfd_create: not permitted; in memory: no two ranks")

    def test_one_machine_alone_names_no_ranks(self):
        case = case_of(1)
        case.ways = None
        self.assertEqual(doctor.say_sharing(case),
                         "of memory, by the workers of one host: host 4 GB")

    def test_ranks_of_a_host_that_shares_memory_are_named(self):
        case = case_of(3)
        case.workers = [2, 3, 2]
        self.assertEqual(doctor.say_ranks(case), "in memory: ranks 0-1 on 10.0.0.1, "
                         "ranks 2-4 on 10.0.0.2, ranks 5-6 on 10.0.0.3")
        for sharing in ("off", "off: memfd_create: not permitted", "not known: gradwire env: no file"):
            case.hosts[1].facts["sharing"] = sharing
            self.assertEqual(doctor.say_ranks(case),
                             "in memory: ranks 0-1 on 10.0.0.1, ranks 5-6 on 10.0.0.3")

    def test_links_that_were_not_measured_are_no_zero(self):
        case = case_of(2)
        self.assertEqual(doctor.say_links(case), "0.8 Gbit/s, 0.1 ms one way")
        case.ways.speed = dict.fromkeys(case.ways.speed, 0)
        self.assertEqual(doctor.say_links(case), "not measured")
        case.ways.speed = {}
        self.assertEqual(doctor.say_links(case), "not measured")
        case = case_of(2)
        case.ways.seconds = dict.fromkeys(case.ways.seconds)
        self.assertEqual(doctor.say_links(case), "not measured")

    def test_data_are_told_with_their_sum(self):
        self.assertEqual(doctor.say_data(case_of(1)), "not looked at (--data-dir)")
        data = {"count": 2, "bytes": 7, "sum": "0123456789abcdef0123"}
        self.assertEqual(doctor.say_data(case_of(1, data=data)),
                         "2 files, 7 bytes, checksum 0123456789abcdef")


class Questions(unittest.TestCase):
    def test_here_nobody_else_is_asked_for(self):
        asked = doctor.questions_of({**REQUEST, "data_dir": "/d"})
        self.assertEqual(asked, {"program": "/bin/gradwire", "sharing": True, "names": [], "holds": [],
                                 "towards": [], "folder": "/d", "sums": True})

    def test_hosts_are_asked_for_names_addresses_and_port(self):
        lines = parse_hosts("me@a\nb\n")
        asked = doctor.questions_of(REQUEST, lines, ["10.0.0.1", "10.0.0.2"])
        self.assertEqual((asked["names"], asked["holds"], asked["towards"], asked["port"]),
                         (["a", "b"], ["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.2"], 29400))

    def test_network_makes_names_unimportant(self):
        asked = doctor.questions_of({**REQUEST, "network": "10.0.0.0/8"}, parse_hosts("a\n"))
        self.assertEqual(asked["names"], [])


class Reports(unittest.TestCase):
    def test_line_is_what_was_found_or_each_problem(self):
        report = doctor.Report()
        text = said(report.say, "mtu", "1500 bytes", []) + said(
            report.say, "ports", "2 ports", iter(["one", "two"]))
        self.assertEqual(text, "ok      mtu        1500 bytes\nFAILED  ports      one\n"
                               "FAILED  ports      two\n")
        self.assertEqual(report.failed, ["ports"])

    def test_end_names_what_failed(self):
        report = doctor.Report()
        self.assertEqual(said(report.end), "A run would work.\n")
        said(report.say, "a", "", ["x"])
        said(report.say, "b", "", ["x", "y"])
        with self.assertRaisesRegex(Failure, "^2 of the checks failed: a, b$") as told:
            report.end()
        self.assertEqual(told.exception.exit_code, EXIT_FAILED)

    def test_one_machine_is_spared_what_is_about_several(self):
        lines = said(doctor.say_all, case_of(1), doctor.Report()).splitlines()
        self.assertEqual([line.split()[1] for line in lines],
                         ["version", "cpu", "threads", "load", "memory", "sharing", "disk", "data"])
        self.assertTrue(all(line.startswith("ok") for line in lines))

    def test_several_have_all_checks_and_their_links(self):
        text = said(doctor.say_all, case_of(2), doctor.Report())
        names = [line.split()[1] for line in text.splitlines() if not line.startswith(" ")]
        self.assertEqual(names, [name for name, *_ in doctor.CHECKS])
        self.assertNotIn("FAILED", text)
        self.assertIn("links      0.8 Gbit/s, 0.1 ms one way\n"
                      "                   10.0.0.1 → 10.0.0.2: 0.8 Gbit/s, 0.10 ms\n"
                      "                   10.0.0.2 → 10.0.0.1: 0.8 Gbit/s, 0.10 ms\n", text)

    def test_each_check_fails_of_what_is_its_own(self):
        wrong = {"version": {"version": "gradwire 0"}, "threads": {"cores": 0},
                 "memory": {"memory": 1}, "disk": {"free": 1},
                 "data": {"data": {"count": 0, "bytes": 0, "files": {}, "sum": "", "problem": ""}}}
        for name, changes in wrong.items():
            report = doctor.Report()
            said(doctor.say_all, case_of(1, **changes), report)
            self.assertEqual(report.failed, [name])

    def test_each_check_between_hosts_fails_of_what_is_its_own(self):
        def facts(place, **changes):
            return lambda case: case.hosts[place].facts.update(changes)

        def ways(name, value):
            return lambda case: getattr(case.ways, name).update({Way(0, 1): value})
        loopback, other = ["127.0.1.1"], [["eth0", "10.0.0.2", 16, 1500], ["e1", "10.0.0.9", 24, 1500]]
        for name, spoil in (
                ("names", facts(0, own=loopback)), ("addresses", facts(1, held=[])),
                ("addresses", facts(1, interfaces=other)),
                ("addresses", facts(1, **{"from": {"10.0.0.1": ""}})),
                ("mtu", facts(1, interfaces=[["eth0", "10.0.0.2", 24, 600]])),
                ("mtu", ways("large", False)), ("mtu", ways("problems", "timed out")),
                ("ports", facts(1, port_problem="address already in use")),
                ("ports", ways("ports", {29400: "refused"})), ("links", ways("speed", 1e6)),
                ("links", ways("seconds", 0.5)),
                ("clocks", lambda case: case.ahead.__setitem__(2, 5)), ("cpu", facts(1, flags=["avx"])),
                ("threads", facts(1, cores=0)),
                ("memory", lambda case: case.workers.__setitem__(1, 3))):
            case, report = case_of(3, memory=2.5 * GIB), doctor.Report()
            spoil(case)
            with self.subTest(name):
                said(doctor.say_all, case, report)
                self.assertEqual(report.failed, [name])

    def test_control_network_is_no_address_for_a_run(self):
        case, report = case_of(2), doctor.Report()
        for place, host in enumerate(case.hosts, 1):
            host.address = f"8.8.8.{place}"
            host.facts.update(held=[host.address], interfaces=[["eth0", host.address, 24, 1500],
                                                               ["e1", f"10.1.0.{place}", 24, 1500]])
        text = said(doctor.say_all, case, report)
        self.assertIn("host 10.0.0.1: its name means 8.8.8.1, in the control network", text)
        self.assertEqual(report.failed, ["addresses"])

    def test_what_was_found_has_its_unit(self):
        case = case_of(3, memory=8 * GIB, free=3 * GIB)
        case.ahead = [0, 0.001, -0.2]
        text = said(doctor.say_all, case, doctor.Report())
        for line in ("clocks     at most 200.0 ms off this one", "memory     8 GiB free",
                     "disk       3 GiB free for temporary files", "mtu        1500 bytes",
                     "threads    4 cores", "cpu        M"):
            self.assertIn(f"ok      {line}\n", text)
        text = said(doctor.say_all, case_of(2, model=""), doctor.Report())
        self.assertIn("ok      cpu        model not known\n", text)

    def test_memory_is_asked_for_in_gib(self):
        report = doctor.Report()
        said(doctor.say_all, case_of(1, memory=GIB // 2), report)
        self.assertEqual(report.failed, ["memory"])

    def test_load_above_the_cores_is_a_warning_and_no_failure(self):
        report = doctor.Report()
        text = said(doctor.say_all, case_of(2, load=7.52), report)
        self.assertEqual(text.count("WARNING load       host 10.0.0."), 2)
        self.assertIn("10.0.0.1: got a load of 7.5 in the last minute on 4 cores, expected at most "
                      "4; a run", text)
        self.assertEqual((report.failed, said(report.end)), ([], "A run would work.\n"))
        self.assertIn("ok      load       4 in the last minute\n",
                      said(doctor.say_all, case_of(1, load=4.0), doctor.Report()))

    def test_many_links_are_the_slowest_and_a_count(self):
        case = case_of(7)
        case.ways.speed[Way(5, 2)] = 2.5e7
        lines = said(doctor.say_pairs, case).splitlines()
        self.assertEqual(len(lines), doctor.SHOWN_PAIRS + 1)
        self.assertIn("10.0.0.6 → 10.0.0.3: 0.2 Gbit/s, 0.10 ms", "\n".join(lines))
        self.assertEqual(lines[-1].strip(), "... the other 14 are faster")

    def test_link_without_a_speed_is_not_listed(self):
        case = case_of(2)
        case.ways.speed[Way(0, 1)] = 0
        self.assertEqual(len(said(doctor.say_pairs, case).splitlines()), 1)


class FakeLink:
    def __init__(self, name, lost="", problem="", clock_ahead=None):
        self.name, self.lost, self.problem, self.clock_ahead = name, lost, problem, clock_ahead
        self.ready = not lost
        self.awaits_time = False
        self.beats = 0

    def beat(self):
        self.beats += 1


class Reach(unittest.TestCase):
    def hosts(self, *links, network=""):
        hosts = object.__new__(doctor.Hosts)
        hosts._request, hosts._jobs, hosts._check = REQUEST, None, lambda: None
        hosts._network = network and ipaddress.IPv4Network(network)
        hosts._places = [(line, range(1)) for line in parse_hosts(
            "".join(f"{link.name}\n" for link in links))]
        hosts._links = [*links]
        return hosts

    def test_goes_on_with_those_that_answer(self):
        report = doctor.Report()
        hosts = self.hosts(FakeLink("a"), FakeLink("b", lost="host b: was silent"),
                           FakeLink("c", problem="cannot write to '/tmp/x': full"))
        text = said(hosts.reach, report)
        self.assertEqual([link.name for link in hosts._links], ["a"])
        self.assertEqual([line.name for line, _ in hosts._places], ["a"])
        self.assertEqual(text.splitlines(), [
            "FAILED  ssh        host b: was silent, expected an answer; try: ssh b true",
            "FAILED  ssh        host c: cannot write to '/tmp/x': full, expected an answer; try: "
            "ssh c true"])

    def test_nobody_answers_is_no_case(self):
        report = doctor.Report()
        hosts = self.hosts(FakeLink("a", lost="host a: gone"))
        said(lambda: self.assertIsNone(hosts.look(report, "")))
        self.assertEqual(report.failed, ["ssh"])

    def test_case_has_the_workers_of_the_hosts_that_answer(self):
        hosts = self.hosts(FakeLink("a", lost="host a: gone"), FakeLink("b"))
        hosts._places = [(line, range(slots)) for (line, _), slots in zip(hosts._places, (5, 2))]
        with mock.patch.object(hosts, "_ask", return_value=[hosts_of(1)[0].facts]), \
                mock.patch.object(hosts, "_addresses", return_value=["10.0.0.1"]), \
                mock.patch.object(hosts, "_wait"), mock.patch.object(doctor, "explore"):
            cases = []
            said(lambda: cases.append(hosts.look(doctor.Report(), "")))
        self.assertEqual(cases[0].workers, [2])

    def test_name_without_an_address_is_told_and_the_others_are_looked_at(self):
        hosts = self.hosts(FakeLink("a..b"), FakeLink("127.0.0.1"))
        hosts._request = {**REQUEST, "hostfile": "hosts"}
        report, cases = doctor.Report(), []
        with mock.patch.object(hosts, "_ask", return_value=[hosts_of(1)[0].facts]) as asked, \
                mock.patch.object(hosts, "_wait"), mock.patch.object(doctor, "explore"):
            text = said(lambda: cases.append(hosts.look(report, "")))
        self.assertIn("FAILED  lookup     --hostfile: hosts: line 1: no address for 'a..b', expected "
                      "one; look at /etc/hosts here, or use --network\n", text)
        self.assertEqual([host.name for host in cases[0].hosts], ["127.0.0.1"])
        self.assertEqual(asked.call_args[0][0]["holds"], ["127.0.0.1"])
        self.assertEqual(report.failed, ["lookup"])

    def test_clock_is_asked_several_times_and_unknown_is_none_ahead(self):
        hosts = self.hosts(FakeLink("a", clock_ahead=2.5), FakeLink("b"))
        self.assertEqual(hosts._clocks(), [2.5, 0])
        self.assertEqual([link.beats for link in hosts._links], [doctor.BEATS] * 2)

    def test_host_without_an_address_in_the_network_ends_it(self):
        hosts = self.hosts(FakeLink("a"), FakeLink("b"), network="10.0.0.0/24")
        facts = [host.facts for host in hosts_of(2)]
        lines = parse_hosts("a\nb\n")
        with mock.patch.object(hosts, "_ask", return_value=facts):
            said(lambda: self.assertEqual(hosts._addresses(lines, doctor.Report()),
                                          ["10.0.0.1", "10.0.0.2"]))
        facts[1]["interfaces"] = [["eth0", "10.0.1.2", 24, 1500]]
        with mock.patch.object(hosts, "_ask", return_value=facts):
            told = io.StringIO()
            with contextlib.redirect_stdout(told), \
                    self.assertRaisesRegex(Failure, "^1 of the checks failed: network$"):
                hosts._addresses(lines, doctor.Report())
        self.assertEqual(told.getvalue(), "FAILED  network    host b: no address in 10.0.0.0/24, "
                         "expected one; look at 'ip address' there\n")


class Main(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.program = pathlib.Path(folder, "gradwire")
        self.program.write_text("#!/bin/sh\necho gradwire 9\n")
        self.program.chmod(0o700)
        self.request = {**REQUEST, "program": str(self.program), "memory_gib": 1e-6}

    def test_this_machine_alone_is_looked_at(self):
        text = said(doctor.main, self.request, lambda: None)
        self.assertTrue(text.startswith("ok      version    gradwire 9\n"), text)
        self.assertTrue(text.endswith("A run would work.\n"), text)

    def test_hosts_of_a_file_are_looked_at(self):
        with mock.patch.object(doctor, "Hosts") as hosts:
            hosts.return_value.look.return_value = case_of(2)
            text = said(doctor.main, {**self.request, "hostfile": "hosts"}, lambda: None)
        self.assertEqual(hosts.return_value.look.call_args[0][1], "gradwire 9")
        self.assertIn("connections between 2 hosts\n", text)

    def test_missing_data_fail(self):
        with self.assertRaisesRegex(Failure, "^1 of the checks failed: data$"):
            said(doctor.main, {**self.request, "data_dir": "/no/such"}, lambda: None)

    def test_case_holds_the_only_host(self):
        case = doctor.look_here(self.request, "gradwire 9")
        self.assertEqual((len(case.hosts), case.workers, case.ahead, case.ways),
                         (1, [1], [0], None))
        self.assertIsInstance(case.hosts[0], Host)


if __name__ == "__main__":
    unittest.main()
