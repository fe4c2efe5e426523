"""cli/hosts/checks.py: what is wrong on hosts, in words."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.hosts import checks
from cli.hosts.checks import Host
from cli.hosts.places import filled, network_of
from cli.runs.failure import Failure
from cli.runs.hostfile import parse_hosts


def host(name, *interfaces, address=None, **facts):
    """`interfaces`: (name, address, bits)"""
    interfaces = interfaces or (("eth0", name, 24),)
    address = address or interfaces[0][1]
    return Host(name, address, {"interfaces": [[*interface, 1500] for interface in interfaces],
                                "held": [own for _, own, _ in interfaces], "from": {}, **facts})


def data(**files):
    return {"files": files, "count": len(files), "bytes": 0, "problem": "", "sum": str(files)}


class Network(unittest.TestCase):
    def assert_says(self, problems, *said):
        problems = list(problems)
        self.assertEqual(len(problems), len(said), problems)
        for problem, text in zip(problems, said):
            self.assertIn(text, problem)

    def test_address_of_another_is_pointed_out(self):
        self.assert_says(checks.holds_address([host("10.10.1.1"), host(
            "b", ("eth0", "10.10.1.2", 24), address="10.10.1.7")]),
            "host b: its name means 10.10.1.7 here, expected one of its own addresses, which are "
            "10.10.1.2 (eth0)")

    def test_name_in_another_network_says_the_right_address(self):
        hosts = [host("10.10.1.1"), host("10.10.1.2"),
                 host("c", ("eth0", "10.10.1.3", 24), ("eth1", "172.31.0.3", 16),
                      address="172.31.0.3")]
        self.assert_says(checks.other_network(hosts), "expected 10.10.1.3, for the other hosts are "
                         "in 10.10.1.0/24; write 10.10.1.3")

    def test_hosts_of_routed_networks_are_right(self):
        self.assert_says(checks.other_network([host("10.10.1.1"), host("10.10.2.1")]))

    def test_full_names_of_a_test_bed_mean_its_control_network(self):
        hosts = [host(f"node{i}.e.p.utah.cloudlab.us", ("eth0", f"128.110.1.{i}", 22),
                      ("eth1", f"10.10.1.{i}", 24)) for i in (1, 2)]
        self.assert_says(checks.control_network(hosts), "expected 10.10.1.1, for all hosts",
                         "expected 10.10.1.2, for all hosts")

    def test_private_addresses_beside_others_are_right(self):
        hosts = [host(f"10.10.1.{i}", ("eth1", f"10.10.1.{i}", 24), ("docker0", "172.17.0.1", 16))
                 for i in (1, 2)]
        self.assert_says(checks.control_network(hosts))

    def test_way_from_another_address_is_pointed_out(self):
        self.assert_says(checks.route([host("10.10.1.1", **{"from": {
            "10.10.1.1": "10.10.1.1", "10.10.1.2": "192.168.0.1", "10.10.1.3": ""}})]),
            "leaves for 10.10.1.2 from 192.168.0.1, expected 10.10.1.1", "no way to 10.10.1.3")


class Files(unittest.TestCase):
    def test_host_without_data_is_named(self):
        hosts = [host("a", ("e", "10.0.0.1", 8), data=data(x=[1, ""])),
                 host("b", ("e", "10.0.0.2", 8), data=data())]
        self.assertEqual(list(checks.data(hosts, "/d")), [
            "host b: '/d': no files in it, expected the 1 files that a has; copy them: "
            "deploy/provision --data /d"])

    def test_files_that_differ_are_named(self):
        same, other = data(x=[1, "s"], y=[2, "t"]), data(x=[1, "s"], y=[3, "u"])
        hosts = [host(name, ("e", "10.0.0.1", 8), data=found)
                 for name, found in (("a", same), ("b", other), ("c", same))]
        self.assertEqual(list(checks.data(hosts, "/d")), [
            "host b: '/d': y differ from those of a, expected the same; copy them: "
            "deploy/provision --data /d"])

    def test_nobody_has_data(self):
        self.assertEqual(len(list(checks.data([host("10.0.0.1", data=data())], "/d"))), 1)

    def test_other_version_is_named(self):
        hosts = [host("10.0.0.1", version="gradwire 1", version_problem=""),
                 host("10.0.0.2", version="", version_problem="no such file")]
        self.assertEqual([line.partition(", expected")[0]
                          for line in checks.version(hosts, "gradwire 2")],
                         ["host 10.0.0.1: got version 'gradwire 1'", "host 10.0.0.2: no such file"])


class Places(unittest.TestCase):
    def test_hosts_are_filled_in_order(self):
        lines = parse_hosts("a slots=2\nb\nc slots=3\n")
        self.assertEqual([(line.name, workers) for line, workers in filled(lines, 0, 4)],
                         [("a", range(0, 2)), ("b", range(2, 3)), ("c", range(3, 4))])
        self.assertEqual(len(filled(lines, 0, 2)), 1)
        self.assertEqual([workers for _, workers in filled(lines, 2, None)],
                         [range(0, 2), range(2, 4), range(4, 6)])

    def test_too_little_room_is_refused(self):
        with self.assertRaisesRegex(Failure, "got room for 1 workers, expected it for 2"):
            filled(parse_hosts("a\n"), 0, 2)

    def test_wrong_network_is_refused(self):
        with self.assertRaisesRegex(Failure, "--network: got 'lan', expected a network"):
            network_of("lan")


if __name__ == "__main__":
    unittest.main()
