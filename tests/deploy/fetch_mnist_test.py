"""deploy/fetch-mnist, from a server on this machine."""
import contextlib
import functools
import hashlib
import http.server
import io
import pathlib
import resource
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "deploy/fetch-mnist"
NAMES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
         "t10k-labels-idx1-ubyte.gz"]


class Server(http.server.BaseHTTPRequestHandler):
    """Has `files`, and goes on where it is asked to; `asked`: (name, Range) of each request;
    `breaks`: off half-way, unless it goes on; `whole`: it always sends whole files."""

    def __init__(self, files, asked, breaks, whole, *args):
        self._files, self._asked, self._breaks, self._whole = files, asked, breaks, whole
        super().__init__(*args)

    def do_GET(self):
        name, wanted = self.path.lstrip("/"), self.headers["Range"]
        self._asked.append((name, wanted))
        content = self._files.get(name)
        if content is None:
            self.send_error(404)
            return
        goes_on = wanted and not self._whole
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if goes_on else 0
        if begin >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if goes_on else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin:len(content) // 2 if self._breaks and not begin else None])

    def log_message(self, *_):
        pass


def answer_nonsense(server):
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"nonsense\r\n\r\n")


class FetchMnist(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name, "data")
        self.files = {name: name.encode() * 100 for name in NAMES}
        self.sums = pathlib.Path(folder.name, "sums")
        self.sums.write_text("".join(f"{hashlib.md5(content).hexdigest()}  {name}\n"
                                     for name, content in self.files.items()))
        self.asked = []
        self.mirror = self.serve(self.files)

    def serve(self, files, breaks=False, whole=False):
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Server, files, self.asked, breaks, whole))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def fetch(self, *options, limit=-1):
        """Its exit code; what it said is in self.err. `limit`: bytes of a file."""
        ran = subprocess.run(
            [PROGRAM, self.dir, *options], capture_output=True, text=True, check=False,
            env={"no_proxy": "127.0.0.1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.err = ran.stderr
        return ran.returncode

    def fetch_from(self, *mirrors, limit=-1):
        return self.fetch("--sums", self.sums, *(word for mirror in mirrors
                                                 for word in ("--mirror", mirror)), limit=limit)

    def assert_complete(self):
        self.assertEqual({file.name: file.read_bytes() for file in self.dir.iterdir()},
                         self.files)

    def test_all_four_are_fetched(self):
        self.assertEqual(self.fetch_from(self.mirror), 0, self.err)
        self.assert_complete()
        self.assertIn(f"--dataset mnist --data-dir {self.dir}", self.err)

    def test_beginning_that_is_there_is_not_fetched_again(self):
        self.dir.mkdir()
        name = NAMES[0]
        (self.dir / f"{name}.part").write_bytes(self.files[name][:700])
        self.assertEqual(self.fetch_from(self.mirror), 0, self.err)
        self.assert_complete()
        self.assertEqual(self.asked[0], (name, "bytes=700-"))

    def test_server_that_sends_the_whole_file_replaces_the_beginning(self):
        self.dir.mkdir()
        name = NAMES[0]
        (self.dir / f"{name}.part").write_bytes(self.files[name][:700])
        self.assertEqual(self.fetch_from(self.serve(self.files, whole=True)), 0, self.err)
        self.assert_complete()
        self.assertEqual(self.asked[0], (name, "bytes=700-"))

    def test_broken_download_is_gone_on_with(self):
        breaks = self.serve(self.files, breaks=True)
        for _ in NAMES:
            self.assertEqual(self.fetch_from(breaks), 75)
            self.assertIn("the download broke off", self.err)
        self.assertEqual(self.fetch_from(breaks), 0, self.err)
        self.assert_complete()

    def test_mirror_without_a_scheme_is_refused(self):
        self.assertEqual(self.fetch_from("mirror.local/mnist"), 2)
        self.assertIn("--mirror: expected an address that begins with http:// or https://, got "
                      "mirror.local/mnist", self.err)

    def test_answer_that_is_no_http_is_try_again(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer_nonsense, args=(server,))
            thread.start()
            self.addCleanup(thread.join)
            self.assertEqual(self.fetch_from(f"http://127.0.0.1:{server.getsockname()[1]}"), 75)
        self.assertIn("cannot reach", self.err)
        self.assertNotIn("Traceback", self.err)

    def test_file_that_cannot_be_written_is_no_reason_to_try_again(self):
        self.assertEqual(self.fetch_from(self.mirror, limit=100), 1)
        self.assertIn(f"cannot write {self.dir}/{NAMES[0]}.part: file too large", self.err)

    def test_whole_part_needs_no_server(self):
        self.dir.mkdir()
        for name, content in self.files.items():
            (self.dir / f"{name}.part").write_bytes(content)
        self.assertEqual(self.fetch_from("http://127.0.0.1:1"), 0, self.err)
        self.assert_complete()

    def test_complete_folder_is_left_alone(self):
        self.fetch_from(self.mirror)
        self.asked.clear()
        self.assertEqual(self.fetch_from(self.mirror), 0, self.err)
        self.assertEqual(self.asked, [])

    def test_address_of_a_mirror_may_end_with_a_slash(self):
        self.assertEqual(self.fetch_from(f"{self.mirror}/"), 0, self.err)
        self.assert_complete()
        self.assertIn(f"Fetching {self.mirror}/{NAMES[0]}\n", self.err)

    def test_each_data_set_has_mirrors_and_sums_of_its_own(self):
        sys.path.insert(0, str(PROGRAM.parent))
        script = runpy.run_path(str(PROGRAM))
        self.assertEqual(len({*script["SUMS"].values(), *script["FASHION_SUMS"].values()}), 8)
        main = script["main"].__globals__
        for options, expected in (((), "MIRRORS"), (("--fashion",), "FASHION_MIRRORS")):
            fetch = mock.Mock()
            with mock.patch.dict(main, fetch=fetch), \
                    mock.patch.object(sys, "argv", ["fetch-mnist", str(self.dir), *options]), \
                    contextlib.redirect_stderr(io.StringIO()):
                main["main"]()
            self.assertEqual([call.args[1] for call in fetch.call_args_list], [script[expected]] * 4)

    def test_second_mirror_has_what_the_first_lacks(self):
        self.assertEqual(self.fetch_from(self.serve({}), self.mirror), 0, self.err)
        self.assert_complete()

    def test_second_mirror_has_all_where_the_first_does_not_answer(self):
        self.assertEqual(self.fetch_from("http://127.0.0.1:1", self.mirror), 0, self.err)
        self.assert_complete()

    def test_wrong_file_is_an_error_although_another_mirror_does_not_answer(self):
        self.assertEqual(self.fetch_from(self.serve({}), "http://127.0.0.1:1"), 1)
        self.assertIn("the server answered 404\n  cannot reach http://127.0.0.1:1/", self.err)

    def test_file_that_was_spoilt_since_is_fetched_again(self):
        self.fetch_from(self.mirror)
        self.asked.clear()
        (self.dir / NAMES[2]).write_bytes(b"other")
        self.assertEqual(self.fetch_from(self.mirror), 0, self.err)
        self.assertEqual(self.asked, [(NAMES[2], None)])
        self.assert_complete()

    def test_fashion_mnist_is_said_to_be_that(self):
        self.assertEqual(self.fetch("--fashion", "--sums", self.sums, "--mirror", self.mirror), 0,
                         self.err)
        self.assertIn(f"--dataset fashion-mnist --data-dir {self.dir}", self.err)

    def test_spoilt_file_fails_and_is_removed(self):
        spoilt = self.serve({**self.files, NAMES[1]: b"other"})
        self.assertEqual(self.fetch_from(spoilt), 1)
        self.assertIn("got a file with another MD5", self.err)
        self.assertEqual([file.name for file in self.dir.iterdir()], [NAMES[0]])

    def test_part_longer_than_the_file_is_begun_anew(self):
        self.dir.mkdir()
        (self.dir / f"{NAMES[0]}.part").write_bytes(b"x" * 100000)
        self.assertEqual(self.fetch_from(self.mirror, self.mirror), 0, self.err)
        self.assert_complete()

    def test_no_server_is_try_again(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            self.assertEqual(self.fetch_from(url), 75)
        self.assertIn(f"cannot reach {url}/{NAMES[0]}", self.err)

    def test_published_sums_are_asked_for(self):
        for options, md5 in (((), "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                             (("--fashion",), "8d4fb7e6c68d591d4c3dfef9ec88bf0d")):
            self.assertEqual(self.fetch("--mirror", self.mirror, *options), 1)
            self.assertIn(f"expected {md5}", self.err)

    def test_blank_lines_among_sums_are_skipped_and_others_are_refused(self):
        right = self.sums.read_text()
        self.sums.write_text("\n" + right.replace("\n", "\n\n").replace("  ", "\t", 1))
        self.assertEqual(self.fetch_from(self.mirror), 0, self.err)
        for wrong in (b"nonsense\n", b"\xff\n"):
            self.sums.write_bytes(wrong + right.encode())
            self.assertEqual(self.fetch_from(self.mirror), 2, self.err)
            self.assertIn(f"fetch-mnist: --sums: '{self.sums}' names ", self.err)

    def test_sums_of_other_files_are_refused(self):
        self.sums.write_text("0123  other.gz\n")
        self.assertEqual(self.fetch_from(self.mirror), 2)
        self.assertIn("names other.gz, expected train-images-idx3-ubyte.gz", self.err)

    def test_file_in_place_of_the_folder_is_refused(self):
        self.dir.touch()
        self.assertEqual(self.fetch_from(self.mirror), 2)
        self.assertIn(f"cannot make {self.dir}", self.err)


if __name__ == "__main__":
    unittest.main()
