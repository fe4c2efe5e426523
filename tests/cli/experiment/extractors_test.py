"""cli/experiment/extractors.py: which weights extractors begin with."""
import hashlib
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import FakeRunner, conduct_with, option, request_of
from cli.experiment import data_parallel, devices, extractors, factors
from cli.experiment.results import Trained
from cli.experiment.study import Setting
from cli.experiment.work import SECONDS_TO_START
from cli.runs.failure import EXIT_USAGE, Failure

MEMORY = 1 << 40
WEIGHTS = b"weights"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


class Weights(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.dir = self.folder / "weights"
        self.dir.mkdir()
        extractors.sha256_of.cache_clear()

    def setting(self, scale="tiny", **more):
        return Setting(request_of(self.folder / "out", "data-parallel", **more),
                       data_parallel.SCALES[scale], 2, MEMORY)

    def put(self, *names):
        for name in names:
            (self.dir / name).write_bytes(WEIGHTS)

    def put_all(self):
        self.put(*(f"{model}.pth" for model in factors.models_of(self.setting())))

    def refused(self, call, *words):
        with self.assertRaises(Failure) as caught:
            call()
        self.assertEqual(caught.exception.exit_code, EXIT_USAGE)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_file_is_named_after_the_model_or_as_torchvision_does(self):
        for name in ("vgg16.safetensors", "vgg16.pth", "vgg16.pt", f"vgg16-{SHA256[:8]}.pth"):
            self.put(name, "vgg11.pth", "vgg16_bn-6c64b313.pth", "vgg16.txt")
            self.assertEqual(extractors.file_of(self.dir, "vgg16"), str(self.dir / name))
            (self.dir / name).unlink()
        self.put(f"alexnet-owt-{SHA256[:8]}.pth")
        self.assertIn("alexnet-owt", extractors.file_of(self.dir, "alexnet"))

    def test_missing_and_several_files_are_refused(self):
        def call():
            return extractors.file_of(self.dir, "vgg16")
        self.refused(call, "has no weights of vgg16", "deploy/fetch-weights DIR")
        self.put("vgg16.pth", "vgg16.safetensors")
        self.refused(call, "which has vgg16.pth and vgg16.safetensors")

    def test_file_with_another_digest_than_its_name_says_is_refused(self):
        self.put("vgg16-397923af.pth")
        self.refused(lambda: extractors.file_of(self.dir, "vgg16"), f"has SHA-256 {SHA256}",
                     "begins with 397923af")

    def argv_by_run(self, setting):
        return {work.name: work.run(setting).ranks[0] for work in factors.runs(setting)}

    def test_each_training_begins_with_its_models_file(self):
        self.put_all()
        argv = self.argv_by_run(self.setting(weights=str(self.dir)))
        self.assertEqual({option(words, "--weights") for words in argv.values()},
                         {str(path) for path in self.dir.iterdir()})
        self.assertFalse([name for name in argv if name.startswith("pretrain")])

    def test_other_content_of_a_file_is_another_run(self):
        self.put_all()
        setting = self.setting(weights=str(self.dir))
        point = factors.base(setting)
        first = factors.run_of(setting, point).run(setting)
        (self.dir / "alexnet.pth").write_bytes(b"other")
        extractors.sha256_of.cache_clear()
        self.assertEqual(first.inputs, (SHA256,))
        self.assertNotEqual(factors.run_of(setting, point).run(setting).inputs, first.inputs)

    def test_extractors_are_trained_first_with_another_classifier(self):
        argv = self.argv_by_run(self.setting(pretrain=7))
        first = argv["pretrain-vgg16"]
        self.assertEqual((option(first, "--iterations"), option(first, "--freeze-features")),
                         ("7", ""))
        widths = {option(words, "--hidden") for name, words in argv.items()
                  if not name.startswith("pretrain")}
        self.assertNotIn(option(first, "--hidden"), widths)
        saved = option(first, "--save-weights")
        self.assertEqual(saved, str(self.folder / "out/vgg16-7.safetensors"))
        self.assertEqual(option(argv["vgg16-2048-batch-5-devices-2"], "--weights"), saved)

    def test_training_of_an_extractor_is_a_part_of_its_scale_and_expected_to_take_its_work(self):
        setting = self.setting(pretrain=7)
        (first,) = extractors.pretrainings(setting, ["vgg16"])
        part = (setting.scale["image"] / devices.FULL_SIZE) ** 2
        forward = 16 * devices.WORK["vgg16"] * part / devices.WORK_PER_SECOND / 2
        self.assertAlmostEqual(first.seconds(setting), SECONDS_TO_START + 3 * 7 * forward)
        argv = first.run(setting).ranks[0]
        for name, value in (("--sync", "none"), ("--batch-size", "16"), ("--optimizer", "adam"),
                            ("--lr", "0.0001"), ("--augment", "false"),
                            ("--image-size", str(setting.scale["image"]))):
            self.assertEqual(option(argv, name), value)
        self.assertEqual(first.leaves, option(argv, "--save-weights"))

    def test_pretraining_that_is_given_is_longer_than_the_scales_and_weights_need_none(self):
        for more, expected in (({}, data_parallel.SCALES["tiny"]["pretrain"]), ({"pretrain": 7}, 7),
                               ({"pretrain": 7, "weights": "w"}, 0)):
            self.assertEqual(extractors.pretraining_iterations(self.setting(**more)), expected)

    def test_file_that_cannot_be_read_is_refused_and_one_that_is_not_there_has_no_digest(self):
        self.assertEqual(extractors.sha256_of(str(self.dir / "absent")), "")
        self.refused(lambda: extractors.sha256_of(str(self.dir)), "--weights: cannot read")
        large = self.dir / "large"
        large.write_bytes(bytes((1 << 20) + 1))
        self.assertEqual(extractors.sha256_of(str(large)),
                         hashlib.sha256(bytes((1 << 20) + 1)).hexdigest())

    def test_extractors_are_trained_by_all_cores(self):
        argv = self.argv_by_run(self.setting(pretrain=7))
        self.assertEqual((option(argv["pretrain-vgg16"], "--threads"),
                          option(argv["vgg16-2048-batch-5-devices-2"], "--threads")), ("2", "1"))

    def test_table_of_weights_has_the_last_loss_of_each_models_own_training(self):
        runs = {f"pretrain-{model}": Trained([{"records": [{"loss": 9.0}, {"loss": loss}],
                                               "summary": {}}])
                for model, loss in (("vgg16", 2.0), ("alexnet", 3.0))}
        (table,) = extractors.weights_table(self.setting(pretrain=7), runs, ["alexnet", "vgg16"])
        self.assertEqual([(row["model"], row["file"], row["loss"]) for row in table.rows],
                         [("alexnet", "alexnet-7.safetensors", 3.0),
                          ("vgg16", "vgg16-7.safetensors", 2.0)])
        self.assertEqual(extractors.weights_table(self.setting("full"), {}, ["vgg16"]), [])

    def test_note_says_where_the_weights_are_from(self):
        for more, said in (({"weights": str(self.dir)}, "the weights of --weights"),
                           ({"pretrain": 7}, "for 7 iterations of 16 images"),
                           ({"hostfile": "hosts"}, "have random weights")):
            self.assertIn(said, extractors.weights_note(self.setting(**more)))

    def test_full_scale_trains_nothing_first_unless_asked(self):
        self.assertFalse([name for name in self.argv_by_run(self.setting("full"))
                          if name.startswith("pretrain")])
        self.assertIn("pretrain-vgg16", self.argv_by_run(self.setting("full", pretrain=3)))

    def test_other_machines_have_no_such_files(self):
        for more in ({"weights": str(self.dir)}, {"pretrain": 3}):
            self.refused(lambda more=more: factors.runs(self.setting(hostfile="hosts", **more)),
                         f"--{next(iter(more))}: got it with ranks on other hosts")
        argv = self.argv_by_run(self.setting(hostfile="hosts"))
        self.assertFalse([words for words in argv.values() if "--weights" in words])

    def conduct(self, **more):
        runner = FakeRunner()
        conduct_with(runner, request_of(self.folder / "out", "data-parallel", **more))
        return len(runner.runs)

    def test_trained_first_again_if_its_weights_are_gone(self):
        count = self.conduct()
        self.assertEqual(self.conduct(), 0)
        (self.folder / "out/vgg16-1.safetensors").unlink()
        self.assertEqual(self.conduct(), 1)
        self.assertGreater(count, 5)

    def test_report_has_the_digests(self):
        self.put_all()
        self.conduct(weights=str(self.dir))
        self.assertIn(SHA256, (self.folder / "out/report.md").read_text())
        self.assertIn(SHA256, (self.folder / "out/weights.csv").read_text())


if __name__ == "__main__":
    unittest.main()
