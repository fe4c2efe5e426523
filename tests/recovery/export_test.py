"""`gradwire checkpoint` reads what a run wrote, refuses damaged files, and overwrites nothing then."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
EARLIER, STEPS = 4, 6  # the run ends there, and goes on
SECONDS = 240
MEBIBYTE = 1 << 20


def run(*words):
    """Runs a program of ours, and returns it with its output."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("GRADWIRE_")}
    return subprocess.run([BIN / words[0], *map(str, words[1:])], text=True, capture_output=True,
                          timeout=SECONDS, env=environment)


def train(*options, launch=()):
    """Trains to the end."""
    done = run("gradwire", "launch", "--metrics", "off", *launch, "--", "--dataset", "synthetic",
               "--threads", "1", *options)
    assert done.returncode == 0, done.stdout + done.stderr


def tensors(path):
    """{key: (shape, bytes)} of a safetensors file."""
    content = path.read_bytes()
    values = 8 + int.from_bytes(content[:8], "little")
    return {key: (entry["shape"], content[values:][slice(*entry["data_offsets"])])
            for key, entry in json.loads(content[8:values]).items()}


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="gradwire-export-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.made = pathlib.Path(cls.folder.name, "made")
        for steps in (EARLIER, STEPS):  # a run writes a checkpoint at its end
            train("--model", "lenet", "--batch-size", "4", "--iterations", steps,
                  launch=("--workers", "2", "--run-dir", cls.made))

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="gradwire-export-")
        self.addCleanup(temporary.cleanup)
        self.place = pathlib.Path(temporary.name)
        self.run_dir = self.place / "run"
        shutil.copytree(self.made, self.run_dir)
        self.newest = self.run_dir / f"step-{STEPS:012}"

    def checkpoint(self, *words, code=0):
        """Runs `gradwire checkpoint`, and returns its output and errors."""
        done = run("gradwire", "checkpoint", *words)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        if code != 0:
            self.assertRegex(done.stderr, r"\Agradwire checkpoint")
        return done.stdout, done.stderr

    def manifest(self, run_dir, step):
        return json.loads((pathlib.Path(run_dir) / f"step-{step:012}" / "manifest.json").read_text())

    def test_list_shows_each_checkpoint_newest_first(self):
        listed = json.loads(self.checkpoint("list", self.run_dir, "--json")[0])
        self.assertEqual([one["step"] for one in listed], [6, 4])
        self.assertTrue(all(one["sound"] for one in listed))
        self.assertEqual([one["finished"] for one in listed], [True, True])
        self.assertEqual({one["world_size"] for one in listed}, {2})
        text = self.checkpoint("list", self.run_dir)[0]
        self.assertEqual(len(text.splitlines()), 3)
        self.assertIn("sound, finished", text)

    def test_weights_takes_the_export(self):
        for name in ("model.safetensors", "model.pt"):
            exported, saved = self.place / name, self.place / "saved.safetensors"
            self.checkpoint("export", self.run_dir, EARLIER, "--to", exported)
            # Steps of this size change no weight.
            run_dir = self.place / f"of-{name}"
            train("--model", "lenet", "--batch-size", "4", "--iterations", "1", "--lr",
                  "1e-30", "--nesterov", "true", "--weights", exported, "--save-weights", saved,
                  launch=("--workers", "2", "--run-dir", run_dir))
            manifest = self.manifest(run_dir, 1)
            # Else a worker with other weights could join.
            self.assertRegex(manifest["settings"]["SHA-256 of weights"], r"\A[0-9a-f]{64}\Z")
            self.assertEqual(manifest["optimizer"]["groups"][0]["options"],
                             {"lr": 1e-30, "momentum": 0.9, "weight_decay": 1e-4, "nesterov": 1})
            self.checkpoint("export", self.run_dir, EARLIER, "--to", self.place / "again.safetensors")
            self.assertEqual(tensors(saved), tensors(self.place / "again.safetensors"))
            self.checkpoint("export", self.run_dir, STEPS, "--to", self.place / "later.safetensors")
            self.assertNotEqual(tensors(saved), tensors(self.place / "later.safetensors"))

    def test_any_byte_of_any_file_is_verified(self):
        for path in sorted(self.newest.iterdir()):
            whole = path.read_bytes()
            for at in (0, 7, 8, len(whole) // 2, len(whole) - 1):
                changed = bytearray(whole)
                changed[at] ^= 0x10
                path.write_bytes(changed)
                errors = "".join(self.checkpoint("verify", self.run_dir, STEPS, code=2))
                self.assertIn(path.name, errors)
            path.write_bytes(whole)
        self.checkpoint("verify", self.run_dir)

    def test_damaged_checkpoint_is_skipped_by_name(self):
        next(self.newest.glob("model-*")).unlink()
        out = self.place / "model.pt"
        errors = self.checkpoint("export", self.run_dir, "--to", out)[1]
        self.assertIn(self.newest.name, errors)
        self.assertIn("exported step 4", errors)
        out.write_text("old")
        self.checkpoint("export", self.run_dir, STEPS, "--to", out, code=2)
        self.assertEqual(out.read_text(), "old")

    def test_damage_is_of_its_own_checkpoint_alone(self):
        next(self.newest.glob("model-*")).unlink()
        listed = json.loads(self.checkpoint("list", self.run_dir, "--json")[0])
        self.assertEqual([(one["step"], one["sound"], bool(one["why"])) for one in listed],
                         [(STEPS, False, True), (EARLIER, True, False)])
        errors = self.checkpoint("verify", self.run_dir, code=2)[1]
        self.assertIn(": 1 of 2 damaged", errors)
        self.assertEqual(len(self.checkpoint("verify", self.run_dir, EARLIER)[0].splitlines()), 2)
        out = self.place / "model.pt"
        done, errors = self.checkpoint("export", self.run_dir, EARLIER, "--to", out, "--json")
        self.assertEqual(json.loads(done), {"step": EARLIER, "to": str(out), "optimizer_to": ""})
        self.assertEqual(errors, "")

    def test_other_formats_say_what_to_do(self):
        manifest = self.newest / "manifest.json"
        text = manifest.read_text()
        for number, advice in ((2, "use that version or a newer one"), (0, "--weights")):
            manifest.write_text(text.replace('"format": 1', f'"format": {number}'))
            output = self.checkpoint("verify", self.run_dir, STEPS, code=2)[0]
            self.assertIn(f"got format {number} of version", output)
            self.assertIn(advice, output)

    def test_wrong_words_are_named(self):
        out = self.place / "model.pt"
        for words, message in (
                (("list",), "expected DIR"),
                (("list", self.place / "none"), "cannot read"),
                (("verify", self.run_dir, "5"), "got step 5, expected one of 6, 4"),
                (("verify", self.place), "has no checkpoint"),
                (("verify", self.run_dir, "x"), "got 'x', expected a whole number"),
                (("export", self.run_dir), "expected --to FILE"),
                (("export", self.place, "--to", out), "has no checkpoint"),
                (("export", self.run_dir, "--to", self.place / "model.txt"), "ends in .safetensors"),
                (("export", self.run_dir, "--optimizer-to", self.place / "o.safetensors"), ".pt"),
                (("export", self.run_dir, "--to", out, "--optimizer-to", out), "another file"),
                (("export", self.run_dir, "--to", out, "--optimizer-to", f"{self.place}/./model.pt"),
                 "another file"),
                (("export", self.run_dir, "--to", self.place / "none/model.pt"), "cannot write"),
                (("exprot", self.run_dir), "did you mean export")):
            with self.subTest(words=words[0], message=message):
                self.assertIn(message, self.checkpoint(*words, code=2)[1])
        self.assertFalse(out.exists())

    def test_optimizer_without_state_has_its_groups(self):
        out, model = self.place / "optimizer.pt", self.place / "model.pt"
        for options, code in ((("--momentum", "0"), 0), (("--sync", "local-sgd:2"), 2),
                              (("--compress", "top-k:0.1"), 2)):
            with self.subTest(options), tempfile.TemporaryDirectory(dir=self.place) as run_dir:
                train("--model", "lenet", "--batch-size", "4", "--iterations", "4", *options,
                      launch=("--workers", "2", "--run-dir", run_dir))
                model.write_text("old")
                errors = self.checkpoint("export", run_dir, "--to", model, "--optimizer-to", out,
                                         code=code)[1]
                self.assertEqual("each rank has its own" in errors, code == 2, errors)
                self.assertEqual(model.read_bytes() == b"old", code == 2)
                if "0" in options:
                    optimizer = self.manifest(run_dir, 4)["optimizer"]
        self.assertEqual(optimizer["name"], "sgd")
        self.assertEqual([group["options"] for group in optimizer["groups"]],
                         [{"lr": 0.1, "momentum": 0, "weight_decay": 1e-4, "nesterov": 0}])
        with zipfile.ZipFile(out) as archive:
            self.assertEqual(archive.namelist(), ["archive/data.pkl", "archive/version"])
            self.assertIn(b"param_groups", archive.read("archive/data.pkl"))

    def test_full_disk_is_an_error(self):
        full = self.place / "full.pt"
        full.symlink_to("/dev/full")
        self.assertIn("no space left", self.checkpoint("export", self.run_dir, "--to", full, code=2)[1])


# Saves a model of torchvision; loads the file of a run that took it, and compares.
SAVE = """
import sys, torch, torchvision
torch.manual_seed(5)
model = getattr(torchvision.models, sys.argv[1])(num_classes=10)
torch.save(model.state_dict(), sys.argv[2])
"""
COMPARE = """
import sys, torch, torchvision
model = getattr(torchvision.models, sys.argv[1])(num_classes=10)
before = torch.load(sys.argv[2])
model.load_state_dict(torch.load(sys.argv[3]), strict=True)
print(*(name for name, value in model.named_parameters()
        if ((value != before[name]) & (before[name] != 0)).any()))
"""


class TorchvisionTest(unittest.TestCase):
    """A state dict of torchvision trains here, and torchvision takes the result."""

    def python(self, script, *words):
        done = subprocess.run(["/usr/bin/python3", "-c", script, *map(str, words)], text=True,
                              capture_output=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_weights_of_torchvision(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import torchvision"],
                          capture_output=True).returncode != 0:
            self.skipTest("no torchvision (apt-get install python3-torchvision)")
        for model in ("resnet18", "squeezenet1_0"):
            with self.subTest(model), tempfile.TemporaryDirectory() as folder:
                theirs, ours = pathlib.Path(folder, "theirs.pth"), pathlib.Path(folder, "ours.pt")
                self.python(SAVE, model, theirs)
                for lr in ("1e-30", "0.01"):
                    train("--model", model, "--image-size", "64", "--batch-size", "2",
                          "--iterations", "2", "--lr", lr, "--weights", theirs, "--save-weights",
                          ours, launch=("--workers", "2"))
                    changed = self.python(COMPARE, model, theirs, ours)
                    # Steps of the first size change no value but zeros.
                    self.assertEqual(changed != [], lr == "0.01", changed)


class MemoryTest(unittest.TestCase):
    """A checkpoint of 1.1 GB."""

    def test_verify_and_export_hold_a_part_only(self):
        with tempfile.TemporaryDirectory(prefix="gradwire-export-") as folder:
            run_dir = pathlib.Path(folder, "run")
            train("--model", "vgg16", "--batch-size", "1", "--iterations", "1",
                  launch=("--workers", "1", "--run-dir", run_dir))
            words = (("verify", run_dir),
                     ("export", run_dir, "--to", f"{folder}/model.pt", "--optimizer-to",
                      f"{folder}/optimizer.pt"),
                     ("export", run_dir, "--to", f"{folder}/model.safetensors"))
            for each in words:
                most = self.peak([BIN / "gradwire", "checkpoint", *each])
                print(f"{each[0]}: {most / MEBIBYTE:.0f} MiB", file=sys.stderr)
                self.assertLess(most, 256 * MEBIBYTE)
            size = sum(path.stat().st_size for path in run_dir.rglob("*.safetensors"))
            self.assertGreater(size, 1e9)

    def peak(self, argv):
        """Bytes of memory that a program needs."""
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        self.assertIsInstance(used, resource.struct_rusage)
        return used.ru_maxrss * 1024


class CoordinatorMemoryTest(unittest.TestCase):
    """A checkpoint of 74 MB, in two files, from four workers."""

    def test_needs_two_files_at_most(self):
        with tempfile.TemporaryDirectory(prefix="gradwire-memory-") as folder:
            run_dir = pathlib.Path(folder, "run")
            keeps = self.peak("--run-dir", run_dir, "--checkpoint-every", 3)
            added = keeps - self.peak()
            largest = max(path.stat().st_size for path in run_dir.rglob("*.safetensors"))
            print(f"{added / largest:.2f} files", file=sys.stderr)
            self.assertGreater(largest, 36e6)
            self.assertLess(added, 2 * largest)

    def peak(self, *options):
        """Bytes of memory of a run's coordinator."""
        with subprocess.Popen([BIN / "gradwire", "launch", "--workers", "4", "--metrics", "off",
                               *map(str, options), "--", "--dataset", "synthetic", "--threads", "1",
                               "--batch-size", "2", "--iterations", "7"],
                              stdout=subprocess.DEVNULL) as launch:
            most = 0
            while launch.poll() is None:
                most = max(most, self.memory_of_coordinator(launch.pid))
                time.sleep(0.02)
            self.assertEqual(launch.returncode, 0)
        self.assertGreater(most, 0)
        return most

    def memory_of_coordinator(self, launcher):
        """The largest resident set so far, of the launcher's child; 0 if there is none."""
        try:
            for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
                status = pathlib.Path(f"/proc/{child}/status").read_text()
                if "gradwire-coord" in status:
                    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status)[1])
        except (OSError, TypeError):  # it is ending
            pass
        return 0


if __name__ == "__main__":
    unittest.main()
