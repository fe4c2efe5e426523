"""cli/hosts/checks.py: what is wrong on hosts, in words."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.hosts import checks
from cli.hosts.checks import Host
from cli.hosts.places import filled, network_of, read_places
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
        self.assert_says(checks.other_network(hosts), "expected 10.10.1.3, because the other hosts are "
                         "in 10.10.1.0/24; write 10.10.1.3")

    def test_hosts_of_routed_networks_are_right(self):
        self.assert_says(checks.other_network([host("10.10.1.1"), host("10.10.2.1")]))

    def test_full_names_of_a_test_bed_mean_its_control_network(self):
        hosts = [host(f"node{i}.e.p.utah.cloudlab.us", ("eth0", f"128.110.1.{i}", 22),
                      ("eth1", f"10.10.1.{i}", 24)) for i in (1, 2)]
        self.assert_says(checks.control_network(hosts), "expected 10.10.1.1, because all hosts",
                         "expected 10.10.1.2, because all hosts")

    def test_private_addresses_beside_others_are_right(self):
        hosts = [host(f"10.10.1.{i}", ("eth1", f"10.10.1.{i}", 24), ("docker0", "172.17.0.1", 16))
                 for i in (1, 2)]
        self.assert_says(checks.control_network(hosts))

    def test_way_from_another_address_is_pointed_out(self):
        self.assert_says(checks.route([host("10.10.1.1", **{"from": {
            "10.10.1.1": "10.10.1.1", "10.10.1.2": "192.168.0.1", "10.10.1.3": ""}})]),
            "reaches 10.10.1.2 from 192.168.0.1, expected 10.10.1.1", "no route to 10.10.1.3")

    def test_loopback_and_the_address_itself_are_no_way_to_look_at(self):
        self.assert_says(checks.route([host("10.10.1.1", **{"from": {
            "127.0.1.1": "127.0.0.1", "10.10.1.1": "10.10.1.1", "10.10.1.2": "10.10.1.1"}})]))

    def test_host_without_any_address_says_none(self):
        self.assert_says(checks.holds_address([host("b", ("lo", "127.0.0.1", 8),
                                                    address="10.10.1.7")]), "which are none;")

    def test_interface_that_is_not_known_counts_for_no_network(self):
        unknown = host("b", ("eth0", "10.10.1.2", 24), address="172.31.0.3")
        self.assert_says(checks.other_network([host("10.10.1.1"), unknown]))
        self.assert_says(checks.other_network([unknown]))

    def test_public_addresses_beside_a_private_network_are_pointed_out(self):
        hosts = [host(f"h{i}", ("eth0", f"8.8.8.{i}", 24), ("eth1", f"192.168.7.{i}", 24))
                 for i in (1, 2)]
        self.assert_says(checks.control_network(hosts), "expected 192.168.7.1", "use --network "
                         "192.168.7.0/24")
        self.assert_says(checks.control_network(hosts[:1]))  # one alone needs no network

    def test_private_network_that_one_host_lacks_is_no_better_one(self):
        hosts = [host("h1", ("eth0", "8.8.8.1", 24), ("eth1", "192.168.7.1", 24)),
                 host("h2", ("eth0", "8.8.8.2", 24))]
        self.assert_says(checks.control_network(hosts))

    def test_private_control_network_of_a_test_bed_is_pointed_out_too(self):
        hosts = [host(f"node{i}.e.p.utah.cloudlab.us", ("eth0", f"10.0.1.{i}", 24),
                      ("eth1", f"10.10.1.{i}", 24)) for i in (1, 2)]
        self.assert_says(checks.control_network(hosts), "use --network 10.10.1.0/24",
                         "use --network 10.10.1.0/24")

    def test_second_public_network_is_no_better_one(self):
        self.assert_says(checks.control_network(
            [host(f"h{i}", ("eth0", f"8.8.8.{i}", 24), ("eth1", f"9.9.9.{i}", 24)) for i in (1, 2)]))

    def test_networks_that_are_not_known_are_no_majority(self):
        unknown = [host(name, ("eth0", "10.10.1.2", 24), address="172.31.0.3") for name in "bc"]
        self.assert_says(checks.other_network([*unknown, host("10.10.1.1")]))

    def test_usual_is_the_most_frequent_and_of_equals_the_first(self):
        self.assertEqual(checks.usual([3, 1, 1, 2]), 1)
        self.assertEqual(checks.usual([2, 1, 1, 2]), 2)


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

    def test_files_that_one_host_has_too_many_or_too_few_are_named(self):
        same, more, less = data(x=[1, "s"], y=[2, "t"]), data(x=[1, "s"], y=[2, "t"], z=[1, "v"]), \
            data(x=[1, "s"])
        hosts = [host(name, ("e", "10.0.0.1", 8), data=found)
                 for name, found in (("a", same), ("b", more), ("c", same), ("d", less))]
        said = list(checks.data(hosts, "/d"))
        self.assertEqual([line.split(" differ from")[0] for line in said],
                         ["host b: '/d': z", "host d: '/d': y"])

    def test_nobody_has_data(self):
        self.assertEqual(len(list(checks.data([host("10.0.0.1", data=data())], "/d"))), 1)

    def test_other_version_is_named(self):
        hosts = [host("10.0.0.1", version="gradwire 1", version_problem=""),
                 host("10.0.0.2", version="", version_problem="no such file")]
        self.assertEqual([line.partition(", expected")[0]
                          for line in checks.version(hosts, "gradwire 2")],
                         ["host 10.0.0.1: got version 'gradwire 1'", "host 10.0.0.2: no such file"])


    def test_programs_that_are_missing_are_each_named(self):
        hosts = [host("10.0.0.1", missing=[]), host("10.0.0.2", missing=["/bin/a", "/bin/b"])]
        self.assertEqual([line.partition(" that")[0] for line in checks.programs(hosts)],
                         ["host 10.0.0.2: no '/bin/a'", "host 10.0.0.2: no '/bin/b'"])

    def test_little_room_is_told_in_mib(self):
        for free, said in ((checks.LEAST_FREE, []), (checks.LEAST_FREE - 1, [
                "host 10.0.0.1: got 15 MiB free in /t, expected 16 at least; make room there, or "
                "set TMPDIR there"])):
            self.assertEqual(list(checks.room_for_files(
                [host("10.0.0.1", free=free, temporary="/t")])), said)

    def test_more_files_than_are_shown_are_counted(self):
        same = data(**{name: [1, ""] for name in "vwxyz"})
        other = data(**{name: [2, ""] for name in "vwxyz"})
        hosts = [host(name, ("e", "10.0.0.1", 8), data=found)
                 for name, found in (("a", same), ("b", same), ("c", other))]
        (problem,) = checks.data(hosts, "/d")
        self.assertIn("'/d': v, w, x and 2 more differ from those of a", problem)

    def test_as_many_files_as_are_shown_are_followed_by_no_number(self):
        hosts = [host(name, ("e", "10.0.0.1", 8), data=data(**dict.fromkeys("xyz", [size, ""])))
                 for name, size in (("a", 1), ("b", 2))]
        (problem,) = checks.data(hosts, "/d")
        self.assertIn("host b: '/d': x, y, z differ from those of a", problem)

    def test_one_host_with_files_is_the_example_of_those_without(self):
        hosts = [host(name, ("e", "10.0.0.1", 8), data=found)
                 for name, found in (("a", data()), ("b", data()), ("c", data(x=[1, ""], y=[2, ""])))]
        self.assertEqual([line.partition(";")[0] for line in checks.data(hosts, "/d")],
                         [f"host {name}: '/d': no files in it, expected the 2 files that c has"
                          for name in "ab"])

    def test_folder_that_cannot_be_read_says_why(self):
        broken = {**data(), "problem": "permission denied"}
        hosts = [host("a", ("e", "10.0.0.1", 8), data=data(x=[1, ""])),
                 host("b", ("e", "10.0.0.2", 8), data=broken)]
        (problem,) = checks.data(hosts, "/d")
        self.assertIn("host b: '/d': permission denied, expected the 1 files that a has", problem)

    def test_folder_that_could_be_read_in_part_says_why_and_is_no_example(self):
        partly = {**data(x=[1, ""]), "problem": "permission denied"}
        whole = data(x=[1, ""], y=[2, ""])
        hosts = [host(name, ("e", "10.0.0.1", 8), data=found)
                 for name, found in (("a", partly), ("b", whole))]
        (problem,) = checks.data(hosts, "/d")
        self.assertIn("host a: '/d': permission denied, expected the 2 files that b has", problem)
        (problem,) = checks.data(hosts[:1], "/d")
        self.assertIn("host a: '/d': permission denied, expected a data set", problem)

    def test_data_that_nobody_asked_for_are_not_looked_at(self):
        self.assertEqual(list(checks.data([host("10.0.0.1")], "")), [])

    def test_file_that_is_missing_or_differs_is_named(self):
        hosts = [host(f"10.0.0.{place}", sizes={"/w": size})
                 for place, size in ((1, 9), (2, 9), (3, 7), (4, None))]
        self.assertEqual(list(checks.files(hosts)), [
            "host 10.0.0.3: '/w' has 7 bytes, expected 9 as on the others; copy it there",
            "host 10.0.0.4: no '/w', expected it on every host; copy it there"])

    def test_file_that_most_lack_is_right_where_it_is(self):
        hosts = [host(f"10.0.0.{place}", sizes={"/w": size})
                 for place, size in ((1, None), (2, None), (3, 9))]
        self.assertEqual([problem.partition(",")[0] for problem in checks.files(hosts)],
                         ["host 10.0.0.1: no '/w'", "host 10.0.0.2: no '/w'"])

    def test_file_that_nobody_has_is_named_for_all(self):
        hosts = [host(f"10.0.0.{place}", sizes={"/w": None}) for place in (1, 2)]
        self.assertEqual(len(list(checks.files(hosts))), 2)

    def test_same_version_everywhere_is_right(self):
        hosts = [host("10.0.0.1", version="gradwire 1", version_problem="")]
        self.assertEqual(list(checks.version(hosts, "gradwire 1")), [])


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

    def test_network_is_of_ipv4_with_any_address_in_it(self):
        self.assertIsNone(network_of(""))
        self.assertEqual(str(network_of("10.10.1.7/24")), "10.10.1.0/24")
        for text in ("fd00::/8", "10.10.1.0/33", "10.10.1"):
            with self.assertRaises(Failure):
                network_of(text)

    def test_failure_names_the_file_once(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("a\n")
            file.flush()
            for path, workers, said in ((file.name, 2, f"--hostfile: {file.name}: got room for 1"),
                                        ("/no/such", 1, "--hostfile: cannot read '/no/such'")):
                with self.assertRaisesRegex(Failure, f"^{said}"):
                    read_places(path, 0, workers)
            self.assertEqual([numbers for _, numbers in read_places(file.name, 3, None)],
                             [range(0, 3)])


if __name__ == "__main__":
    unittest.main()
