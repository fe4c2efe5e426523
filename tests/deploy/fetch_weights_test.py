"""deploy/fetch-weights, without the network: what it would fetch, and what it refuses."""
import contextlib
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from unittest import mock

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
PROGRAM = DEPLOY / "fetch-weights"
RESNET = "resnet18-f37072fd.pth"
OLD_FILE = """
import sys, torch
torch.save({"a.weight": torch.ones(2, 3)}, sys.argv[1], _use_new_zipfile_serialization=False)
"""


def module():
    """The script's functions."""
    sys.path.insert(0, str(DEPLOY))
    loader = importlib.machinery.SourceFileLoader("fetch_weights", str(PROGRAM))
    loaded = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch_weights",
                                                                             loader))
    loader.exec_module(loaded)
    return loaded


class Other(http.server.BaseHTTPRequestHandler):
    """Answers each request with the same few bytes."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"other")

    def log_message(self, *_):
        pass


class FetchWeights(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "weights")

    def fetch(self, *options):
        self.ran = subprocess.run([PROGRAM, self.dir, *options], capture_output=True, text=True,
                                  check=False, env={"no_proxy": "127.0.0.1",
                                                    "PYTHONDONTWRITEBYTECODE": "1"})
        return self.ran.returncode

    def serve(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_dry_run_names_each_file_and_makes_nothing(self):
        self.assertEqual(self.fetch("--dry-run"), 0, self.ran.stderr)
        lines = self.ran.stdout.splitlines()
        self.assertEqual(len(lines), 5)
        self.assertIn(f"https://download.pytorch.org/models/{RESNET} -> {self.dir}/{RESNET}", lines)
        self.assertFalse(self.dir.exists())

    def test_dry_run_of_one_model_on_a_mirror(self):
        self.assertEqual(self.fetch("--dry-run", "--model", "resnet18", "--mirror", "http://m/"), 0)
        self.assertEqual(self.ran.stdout, f"http://m/{RESNET} -> {self.dir}/{RESNET}\n")

    def test_file_with_another_digest_is_removed(self):
        self.assertEqual(self.fetch("--model", "resnet18", "--mirror", self.serve()), 1)
        self.assertIn("got a file with another SHA-256, expected f37072fd", self.ran.stderr)
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_no_server_is_try_again(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            self.assertEqual(self.fetch("--model", "resnet18", "--mirror", url), 75)

    def test_model_that_was_saved_anew_is_not_fetched_again(self):
        self.dir.mkdir()
        (self.dir / "resnet18.pth").touch()
        self.assertEqual(self.fetch("--model", "resnet18", "--mirror", "http://127.0.0.1:1"), 0,
                         self.ran.stderr)

    def test_file_is_fetched_again_only_if_its_digest_is_another(self):
        self.dir.mkdir()
        with zipfile.ZipFile(self.dir / "new", "w") as archive:
            archive.writestr("a", "weights")
        content = (self.dir / "new").read_bytes()
        name = f"resnet18-{hashlib.sha256(content).hexdigest()[:8]}.pth"
        loaded = module()
        for there, fetches in ((content, 0), (content[:-1], 1), (None, 1)):
            (self.dir / name).unlink(missing_ok=True)
            if there is not None:
                (self.dir / name).write_bytes(there)
            fetch = mock.Mock(side_effect=lambda path, *_: path.write_bytes(content))
            with mock.patch.object(loaded, "FILES", {"resnet18": name}), \
                    mock.patch.object(loaded, "fetch", fetch):
                loaded.fetch_model("resnet18", self.dir, ["http://m"])
            self.assertEqual(fetch.call_count, fetches)
        part = self.dir / f"{name}.part"
        part.write_bytes(content)
        self.assertTrue(loaded.is_right(part))
        part.write_bytes(content[:-1])
        self.assertFalse(loaded.is_right(part))

    def test_only_a_file_of_an_old_torch_is_saved_anew(self):
        self.dir.mkdir()
        loaded, path = module(), self.dir / RESNET
        for write, calls in ((lambda: zipfile.ZipFile(path, "w").close(), []),
                             (lambda: path.write_bytes(b"old"), [mock.call(path, self.dir / "resnet18.pth")])):
            write()
            save = mock.Mock()
            with mock.patch.object(loaded, "is_right", lambda _: True), \
                    mock.patch.object(loaded, "save_anew", save):
                loaded.fetch_model("resnet18", self.dir, ["http://m"])
            self.assertEqual(save.call_args_list, calls)

    def test_all_models_are_fetched_unless_some_are_named(self):
        loaded = module()
        for options, models in (((), [*loaded.FILES]),
                                (("--model", "vgg16", "--model", "alexnet"), ["vgg16", "alexnet"])):
            fetch = mock.Mock()
            with mock.patch.object(loaded, "fetch_model", fetch), \
                    mock.patch.object(sys, "argv", ["fetch-weights", str(self.dir), *options]), \
                    contextlib.redirect_stderr(io.StringIO()):
                loaded.main()
            self.assertEqual([call.args for call in fetch.call_args_list],
                             [(model, self.dir, loaded.MIRRORS) for model in models])

    def test_file_that_cannot_be_saved_anew_is_an_error_and_stays(self):
        self.dir.mkdir()
        old = self.dir / RESNET
        old.write_bytes(b"no weights")
        failed = mock.Mock(returncode=1, stderr="Traceback\nModuleNotFoundError: No module 'torch'\n")
        with mock.patch.object(subprocess, "run", return_value=failed), \
                contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as end:
            module().save_anew(old, self.dir / "resnet18.pth")
        self.assertEqual(end.exception.code, 1)
        self.assertIn(f"{old} is a file of torch before 1.6 and cannot be saved anew "
                      "(ModuleNotFoundError: No module 'torch')", said.getvalue())
        self.assertEqual([path.name for path in self.dir.iterdir()], [RESNET])

    def test_unknown_model_is_refused(self):
        self.assertEqual(self.fetch("--model", "resnet81"), 2)
        self.assertIn("did you mean resnet18?", self.ran.stderr)

    def test_old_file_is_saved_anew(self):
        self.dir.mkdir()
        old, new = self.dir / RESNET, self.dir / "resnet18.pth"
        made = subprocess.run(["/usr/bin/python3", "-c", OLD_FILE, old], capture_output=True,
                              check=False)
        if made.returncode != 0:
            self.skipTest("Debian's python3-torch is not installed")
        self.assertFalse(zipfile.is_zipfile(old))
        module().save_anew(old, new)
        self.assertTrue(zipfile.is_zipfile(new))
        self.assertFalse(old.exists())


if __name__ == "__main__":
    unittest.main()
