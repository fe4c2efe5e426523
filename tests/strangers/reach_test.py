"""Where the programs listen, and where they refuse to."""
import pathlib
import re
import subprocess
import unittest

import strangers

PUBLIC = "8.8.8.8:29400"  # no host that runs tests has it


def listening_at(port):
    """Addresses, as the kernel has them in hexadecimal, at which somebody listens on a port."""
    lines = [line for name in ("tcp", "tcp6")
             for line in pathlib.Path("/proc/net", name).read_text().splitlines()]
    return re.findall(rf"^ *\d+: ([0-9A-F]+):{port:04X} \S+ 0A ", "\n".join(lines), re.MULTILINE)


class ReachTest(strangers.StrangersTest):
    def run_program(self, name, *options):
        return subprocess.run([strangers.BIN / name, *options], capture_output=True, text=True,
                              timeout=60, check=False)

    def test_nobody_listens_where_anybody_could_connect(self):
        for program, *options in (
                ["gradwire-coordinator", "--listen", PUBLIC],
                ["gradwire-coordinator", "--listen", "127.0.0.1:0", "--metrics", PUBLIC],
                ["gradwire-worker", "--listen", PUBLIC], ["gradwire-worker", "--metrics", PUBLIC],
                ["gradwire", "launch", "--listen", PUBLIC],
                ["gradwire", "launch", "--", "--listen", PUBLIC]):
            ended = self.run_program(program, *options)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(f": got {PUBLIC}: any host could reach that address", ended.stderr)
            self.assertIn("expected TLS (--tls-cert, --tls-key, --tls-ca)", ended.stderr)

    def test_who_is_told_so_tries_it(self):
        ended = self.run_program("gradwire-coordinator", "--metrics", "off", "--listen", PUBLIC,
                                 "--insecure")
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn(f"cannot listen on {PUBLIC}: cannot assign requested address", ended.stderr)

    def test_worker_listens_only_towards_its_coordinator(self):
        coordinator = self.coordinator(1)
        worker = self.worker(coordinator, 0, "--sync", "all-reduce", "--iterations", "3000")
        coordinator.wait_for_step(1)
        host, port = coordinator.status()["ranks"][0]["address"].split(":")
        self.assertEqual((host, listening_at(int(port))), ("127.0.0.1", ["0100007F"]))
        self.assert_done([worker, coordinator])

    def test_worker_with_a_name_for_others_listens_everywhere(self):
        coordinator = self.coordinator(1)
        worker = self.worker(coordinator, 0, "--sync", "all-reduce", "--iterations", "3000",
                             "--advertise", "localhost")
        coordinator.wait_for_step(1)
        host, port = coordinator.status()["ranks"][0]["address"].split(":")
        self.assertEqual(host, "localhost")
        self.assertIn(listening_at(int(port)), (["0" * 32], ["0" * 8]))
        self.assert_done([worker, coordinator])


if __name__ == "__main__":
    unittest.main()
