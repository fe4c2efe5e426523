"""bench/peers: one rank of PyTorch's, with stand-ins for the other ranks."""
import contextlib
import gzip
import importlib.util
import io
import itertools
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

PEERS = pathlib.Path(__file__).resolve().parents[3] / "bench" / "peers"
if not importlib.util.find_spec("torch"):
    raise unittest.SkipTest("needs Debian's python3-torch")
sys.path.insert(0, str(PEERS))
import numpy
import torch


def loaded(name):
    """The script's functions; its last line, which runs it, is left out."""
    text = (PEERS / name).read_text(encoding="utf-8").removesuffix("\n\nmain()\n")
    module = types.ModuleType(name.removesuffix(".py"))
    exec(compile(text, name, "exec"), module.__dict__)  # noqa: S102 (it is ours)
    return module


training, collectives = loaded("gloo_training.py"), loaded("gloo_collectives.py")


class Images:
    """Of two pixels, which are the index of the image."""

    def __init__(self, count):
        self._count = count

    def __len__(self):
        return self._count

    def batch(self, indices):
        values = torch.from_numpy(numpy.asarray(indices)).float()
        return torch.stack([values, values], 1), torch.from_numpy(numpy.asarray(indices)) % 2


def options(**changes):
    return types.SimpleNamespace(**{
        "rank": 1, "world_size": 3, "batch_size": 2, "sampler_seed": 0, "mode": "alone",
        "model": "tiny", "lr": 0.0, "momentum": 0.9, "weight_decay": 0.0, "iterations": 5,
        "epochs": 0, "evaluate_every": None, "seed": 1, "compute_seconds": None, "hook": None,
        "bucket_mb": 25.0, "bucket_view": False, "broadcast_buffers": True, **changes})


class SentTest(unittest.TestCase):
    def test_bytes_are_those_of_a_ring(self):
        model = torch.nn.Linear(5, 3)  # 18 elements
        for hook, expected in ((None, 96), ("fp16", 48)):
            self.assertEqual(training.Sent(model, options(hook=hook)).of_iteration(), expected)

    def test_low_rank_is_counted_anew_in_each_iteration(self):
        sent = training.Sent(torch.nn.Linear(5, 3), options(hook=1, world_size=2))
        stats = iter([(1.0, 0, 0), (0.5, 18, 12), (0.4, 36, 16)])  # rate, raw, sent so far
        sent.low_rank = mock.Mock(compression_stats=lambda: next(stats))
        self.assertEqual([sent.of_iteration() for _ in range(3)], [72, 48, 16])


class BatchesTest(unittest.TestCase):
    def test_each_epoch_has_its_order_and_ranks_share_it(self):
        orders = []
        for rank in range(3):
            source = training.batches(options(rank=rank), Images(12))
            taken = [next(source) for _ in range(4)]
            self.assertEqual([epoch for epoch, _ in taken], [0, 0, 1, 1])
            orders.append([torch.cat([pixels[:, 0] for epoch, (pixels, _) in taken
                                      if epoch == one]).tolist() for one in (0, 1)])
        for epoch in (0, 1):
            self.assertEqual(sorted(sum((of_rank[epoch] for of_rank in orders), [])),
                             list(range(12)))
        self.assertNotEqual(orders[0][0], orders[0][1])


class EpochsTest(unittest.TestCase):
    """Each iteration takes as many seconds as its step's number, from 1."""

    def setUp(self):
        self.count = 0
        self.enterContext(mock.patch.dict(training.MODELS, tiny=lambda: torch.nn.Linear(2, 2)))
        self.enterContext(mock.patch.object(training, "train", self.train))
        self.enterContext(mock.patch.object(training, "Tests", lambda _: mock.Mock(run=self.result)))

    @staticmethod
    def train(a, _images, _model):
        of_epoch = 2  # 12 images, 3 ranks, batches of 2
        for step in range(a.iterations):
            yield {"step": step, "epoch": step // of_epoch, "iteration_seconds": step + 1.0}

    def result(self, _model):
        self.count += 1
        return self.count

    def test_epoch_is_the_sum_of_its_iterations_and_is_tested_at_its_end(self):
        lines, rows = training.train_epochs(options(evaluate_every=1), Images(12))
        self.assertEqual(len(lines), 5)
        self.assertEqual(rows, [{"epoch": 0, "seconds": 3.0, "test": 1},
                                {"epoch": 1, "seconds": 7.0, "test": 2},
                                {"epoch": 2, "seconds": 5.0, "test": 3}])  # cut short

    def test_epochs_count_in_place_of_iterations_also_where_shares_do_not_divide(self):
        lines, rows = training.train_epochs(options(epochs=2), Images(10))  # 4, 4 and 4 of 10
        self.assertEqual((len(lines), len(rows)), (4, 2))
        self.assertNotIn("test", rows[0])


class TestsTest(unittest.TestCase):
    def test_ranks_test_different_batches_of_all_images(self):
        seen, broadcast = [], []

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(1))

            def forward(self, pixels):
                assert not self.training
                seen.append(pixels[:, 0].tolist())
                return torch.tensor([[1.0, 0.0]] * len(pixels))  # says 0; half is right

        model = Model()
        sums = mock.Mock(side_effect=lambda values: values.mul_(2))  # others have as much
        with mock.patch.object(training, "Images", lambda _a, train: Images(10)), \
                mock.patch.object(torch.distributed, "broadcast",
                                  lambda buffer, root: broadcast.append((buffer is model.mean, root))), \
                mock.patch.object(torch.distributed, "all_reduce", sums):
            found = training.Tests(options(world_size=2)).run(model)
        self.assertEqual(seen, [[2, 3], [6, 7]])
        self.assertEqual(broadcast, [(True, 0)])
        self.assertTrue(model.training)
        self.assertAlmostEqual(found["accuracy"], 2 * 2 / 10)
        self.assertAlmostEqual(found["loss"], 2 * (2 * 0.3132617 + 2 * 1.3132617) / 10, places=5)


class CollectiveTest(unittest.TestCase):
    def of(self, op, rank, world_size=3):
        a = types.SimpleNamespace(op=op, rank=rank, world_size=world_size)
        return collectives.Collective(a, torch.zeros(6))

    def test_each_rank_checks_what_comes_out_there(self):
        whole, sums, parts = [(0, 6, 0)], [(0, 6, collectives.SUM)], [(0, 2, 0), (2, 4, 1), (4, 6, 2)]
        for op, expected in (("all-reduce", [sums] * 3), ("reduce", [sums, [], []]),
                             ("broadcast", [whole] * 3), ("send-recv", [[], [], whole]),
                             ("scatter", [[(0, 2, 0)], [(2, 4, 0)], [(4, 6, 0)]]),
                             ("all-gather", [parts] * 3), ("gather", [parts, [], []])):
            self.assertEqual([self.of(op, rank).expected() for rank in range(3)], expected, op)

    def test_all_that_is_sent_is_received(self):
        for op, sent in (("all-reduce", 96), ("all-gather", 48), ("broadcast", 48), ("reduce", 48),
                         ("gather", 16), ("scatter", 16), ("send-recv", 24)):
            moved = [self.of(op, rank).bytes_moved() for rank in range(3)]
            self.assertEqual([sum(one) for one in zip(*moved)], [sent, sent], op)
        self.assertEqual(self.of("send-recv", 0, 1).bytes_moved(), (0, 0))

    def test_terms_and_sums_in_a_wrong_place_or_of_another_step_are_wrong(self):
        first, second = (collectives.Pattern(rank, 2) for rank in range(2))
        positions, mine, other = numpy.arange(9), *(numpy.zeros(9, numpy.float32) for _ in range(2))
        first.fill(3, positions, mine)
        second.fill(3, positions, other)
        self.assertEqual(first.wrong(3, positions, mine + other, collectives.SUM), 0)
        self.assertEqual(first.wrong(3, positions, other, 1), 0)
        self.assertEqual(first.wrong(4, positions, other, 1), 9)
        self.assertEqual(first.wrong(3, positions, mine, 1), 9)
        mine[2] = numpy.nan
        self.assertEqual(first.wrong(3, positions, mine + other, collectives.SUM), 1)

    def test_fewest_steps_of_any_rank_are_agreed_on(self):
        loop = collectives.Loop(types.SimpleNamespace(op="all-reduce", rank=0, world_size=2, bytes=24))
        given = []

        def least(part, op):
            given.append((part.item(), op))
            part.mul_(0.5)  # the other rank is slower
        with mock.patch.object(torch.distributed, "all_reduce", least):
            self.assertEqual(loop.agree(20, 0.1, 1.0), 5)
            self.assertEqual(loop.agree(20, 0.1, float("inf")), 10)
            self.assertEqual(loop.agree(20, 100.0, 1.0), 1)
        self.assertEqual(given[1], (1.0, torch.distributed.ReduceOp.MIN))


class CollectivesProgramTest(unittest.TestCase):
    """The whole program as rank 0 of two, whose other rank sends nothing: a broadcast leaves the
    bucket as it is."""

    def printed(self, *words):
        self.happened = []
        argv = ["gloo_collectives.py", "--rank", "0", "--world-size", "2", "--master", "x:1", *words]
        with mock.patch.object(sys, "argv", argv), \
                mock.patch.object(collectives.rendezvous, "join", lambda _: None), \
                mock.patch.object(torch.distributed, "broadcast",
                                  lambda *_: self.happened.append("broadcast")), \
                mock.patch.object(torch.distributed, "all_reduce", lambda *_, **__: None), \
                mock.patch.object(torch.distributed, "barrier",
                                  lambda: self.happened.append("barrier")), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            collectives.main()
        return json.loads(out.getvalue())

    def test_report_counts_the_measured_iterations_and_all(self):
        report = self.printed("--op", "broadcast", "--bytes", "8000", "--warmup", "3",
                              "--iterations", "5")
        self.assertEqual(len(report["seconds"]), 5)
        self.assertEqual(report["iterations_in_all"], 2 + 3 + 5 + 1)
        self.assertEqual((report["bytes_sent"], report["bytes_received"]), (5 * 8000, 0))
        # Whole in all but the measured ones, in which 1024 of 2000 elements are checked.
        self.assertEqual(report["checked"], 6 * 2000 + 5 * 1024)
        self.assertEqual((report["rank"], report["bytes"], report["wrong"]), (0, 8000, 0))
        self.assertEqual(self.happened, ["barrier", "broadcast"] * 11 + ["barrier"])

    def test_seconds_bound_the_measured_iterations_and_a_quarter_of_them_the_warmup(self):
        asked = []
        with mock.patch.object(collectives.Loop, "agree", lambda _, *of: asked.append(of) or 1):
            report = self.printed("--op", "broadcast", "--bytes", "8", "--seconds", "2")
        self.assertEqual([(count, limit) for count, _, limit in asked], [(20, 0.5), (50, 2.0)])
        self.assertEqual(report["iterations_in_all"], 5)

    def test_result_that_is_wrong_is_counted(self):
        def spoil(bucket, _root):
            bucket[1] += 1
        self.happened = []
        loop = collectives.Loop(types.SimpleNamespace(op="broadcast", rank=1, world_size=2, bytes=24))
        loop.pattern.rank = 0  # the bucket has rank 0's values
        with mock.patch.object(torch.distributed, "broadcast", spoil), \
                mock.patch.object(torch.distributed, "barrier", lambda: None):
            for _ in range(2):
                loop.run(loop.all)
        self.assertEqual((loop.wrong, loop.checked, loop.step), (2, 12, 2))


class TrainTest(unittest.TestCase):
    def lines(self, **changes):
        """Trains for two steps on the same two images. Each look at the clock takes a second, and the
        caller looks twice between the steps."""
        clock = itertools.count()
        self.model = torch.nn.Linear(2, 2)
        with mock.patch.object(training, "time",
                               types.SimpleNamespace(perf_counter=lambda: next(clock))), \
                mock.patch.object(torch.optim, "SGD", wraps=torch.optim.SGD) as self.sgd:
            lines = []
            for line in training.train(options(rank=0, world_size=1, iterations=2, **changes),
                                       Images(2), self.model):
                lines.append(line)
                next(clock), next(clock)
        return lines

    def test_times_are_those_of_the_iteration_and_of_its_exchange(self):
        for mode, phases, seconds in (("alone", None, 1), ("all-reduce", 1, 3)):
            with mock.patch.dict(training.SYNCS, {"all-reduce": lambda *_: None}):
                lines = self.lines(mode=mode)
            for step, line in enumerate(lines):
                self.assertEqual((line["step"], line["epoch"], line["rank"]), (step, step, 0))
                self.assertEqual(line["iteration_seconds"], seconds)
                self.assertEqual(line.get("phase_seconds"), phases and {"exposed_communication": phases})

    def test_optimizer_has_the_options_and_takes_the_mean_of_this_step(self):
        before, gradients = [], []

        def sync(parameters, _a):
            before.append(parameters[0].detach().clone())
            gradients.append(parameters[0].grad.clone())
            parameters[0].grad.fill_(1.0)
        with mock.patch.dict(training.SYNCS, {"all-reduce": sync}):
            self.lines(mode="all-reduce", lr=0.5, momentum=0.0, weight_decay=0.0)
            self.assertTrue(torch.allclose(before[0] - before[1], torch.full((2, 2), 0.5)))
            gradients.clear()
            self.lines(mode="all-reduce", lr=0.0, momentum=0.25, weight_decay=0.125)
        self.assertTrue(torch.allclose(*gradients))  # the second is not added to the first
        self.assertEqual(self.sgd.call_args.kwargs, {"lr": 0.0, "momentum": 0.25, "weight_decay": 0.125})


class WrapTest(unittest.TestCase):
    def wrapped(self, **changes):
        self.sent = types.SimpleNamespace(low_rank=None)
        with mock.patch.object(training, "DistributedDataParallel") as self.ddp:
            return training.wrap("model", options(**changes), self.sent)

    def test_buckets_views_and_buffers_are_those_of_the_options(self):
        self.assertEqual(self.wrapped(mode="all-reduce"), "model")
        for changes in ({"bucket_mb": 1.0}, {"bucket_view": True}, {"broadcast_buffers": False}):
            made = self.wrapped(mode="ddp", **changes)
            whole = {"bucket_mb": 25.0, "bucket_view": False, "broadcast_buffers": True, **changes}
            self.assertEqual(self.ddp.call_args, mock.call(
                "model", bucket_cap_mb=whole["bucket_mb"],
                gradient_as_bucket_view=whole["bucket_view"],
                broadcast_buffers=whole["broadcast_buffers"]))
            self.assertFalse(made.register_comm_hook.called)
            self.assertIsNone(self.sent.low_rank)

    def test_hooks_compress(self):
        made = self.wrapped(mode="ddp", hook="fp16")
        made.register_comm_hook.assert_called_once_with(
            None, training.default_hooks.fp16_compress_hook)
        with mock.patch.object(torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", 0):
            made = self.wrapped(mode="ddp", hook=4, bucket_mb=8.0)
            self.assertEqual(torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, 8 * 2**20)
        made.register_comm_hook.assert_called_once_with(
            self.sent.low_rank, training.powerSGD_hook.powerSGD_hook)
        self.assertEqual((self.sent.low_rank.matrix_approximation_rank,
                          self.sent.low_rank.start_powerSGD_iter), (4, 2))


class TrainingProgramTest(unittest.TestCase):
    def parsed(self, *words):
        argv = ["gloo_training.py", "--rank", "1", "--world-size", "2", "--master", "x:1", *words]
        with mock.patch.object(sys, "argv", argv):
            return training.parse()

    def test_defaults_are_those_of_gradwire_worker(self):
        a = self.parsed()
        self.assertEqual((a.batch_size, a.iterations, a.lr, a.momentum, a.weight_decay, a.seed,
                          a.sampler_seed, a.bucket_mb, a.broadcast_buffers, a.bucket_view),
                         (64, 15, 0.1, 0.9, 1e-4, 744, 0, 25.0, True, False))
        self.assertFalse(self.parsed("--no-broadcast-buffers").broadcast_buffers)
        self.assertEqual(self.parsed("--compute-seconds", "1,2.5").compute_seconds, (1.0, 2.5))

    def test_hook_is_fp16_or_a_rank(self):
        self.assertEqual([self.parsed("--hook", text).hook for text in ("fp16", "powersgd:12")],
                         ["fp16", 12])
        for text in ("powersgd:0", "powersgd", "fp32"):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                self.parsed("--hook", text)
            self.assertIn(f"got '{text}', expected fp16 or powersgd:RANK", said.getvalue())

    def test_prints_a_line_for_each_iteration_and_the_epochs(self):
        argv = ["gloo_training.py", "--rank", "1", "--world-size", "2", "--master", "x:1",
                "--threads", "3", "--blas", "/x/libblas.so.3"]
        with mock.patch.object(sys, "argv", argv), \
                mock.patch.object(training.compute, "check_blas") as checked, \
                mock.patch.object(training.compute, "use_threads") as threads, \
                mock.patch.object(training.rendezvous, "join") as joined, \
                mock.patch.object(training, "Images"), \
                mock.patch.object(training, "train_epochs",
                                  return_value=([{"step": 0}, {"step": 1}], [{"epoch": 0}])), \
                mock.patch.object(torch.distributed, "barrier"), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            training.main()
        self.assertEqual((checked.call_args.args, threads.call_args.args), (("/x/libblas.so.3",), (3,)))
        self.assertEqual(joined.call_args.args[0].rank, 1)
        lines = out.getvalue().split("\n", 2)
        self.assertEqual([*map(json.loads, lines)], [{"step": 0}, {"step": 1}, {"epochs": [{"epoch": 0}]}])

    def test_weights_are_those_of_the_seed_and_sleeps_those_of_the_option(self):
        weights = []

        def train(_a, _images, model):
            weights.append(model.weight.detach().clone())
            return []
        with mock.patch.dict(training.MODELS, tiny=lambda: torch.nn.Linear(2, 2)), \
                mock.patch.object(training, "train", train), \
                mock.patch.object(training.emulation, "Emulated",
                                  side_effect=lambda model, *_: model) as emulated:
            for seed in (1, 2, 1):
                training.train_epochs(options(seed=seed), Images(12))
            self.assertFalse(emulated.called)
            training.train_epochs(options(compute_seconds=(1.0, 2.0), batch_size=4), Images(12))
        self.assertTrue(torch.equal(weights[0], weights[2]))
        self.assertFalse(torch.equal(weights[0], weights[1]))
        _, sample, *how = emulated.call_args.args
        self.assertEqual((len(sample), how), (1, [(1.0, 2.0), 4]))


class ComputeTest(unittest.TestCase):
    def test_openblas_gets_the_number_of_threads_too(self):
        import compute
        with mock.patch.object(compute.ctypes, "CDLL") as loaded_blas, \
                mock.patch.object(torch, "set_num_threads") as threads:
            compute.use_threads(3)
        loaded_blas.return_value.openblas_set_num_threads.assert_called_once_with(3)
        threads.assert_called_once_with(3)

    def test_other_blas_ends_the_process(self):
        import compute
        lines = [line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
        compute.check_blas(next(words[-1] for words in lines if words[-1].endswith(".so.6")))
        with self.assertRaisesRegex(SystemExit, "does not compute on /x/libblas.so.3, as gradwire-worker"):
            compute.check_blas("/x/libblas.so.3")


class ImagesTest(unittest.TestCase):
    def setUp(self):
        import images
        self.images = images
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def of(self, dataset, train=True):
        return self.images.Images(types.SimpleNamespace(dataset=dataset, data_dir=str(self.folder)), train)

    def test_cifar10_has_five_files_to_train_on_and_one_to_test(self):
        for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
            pixels = bytes([255] * 1024 + [0] * 1024 + [51] * 1024)  # red, green, blue
            (self.folder / f"{name}.bin").write_bytes(bytes([number]) + pixels)
        training_images, test_images = self.of("cifar10"), self.of("cifar10", train=False)
        self.assertEqual((len(training_images), len(test_images)), (5, 1))
        pixels, labels = training_images.batch(numpy.array([3, 1]))
        self.assertEqual(labels.tolist(), [3, 1])
        self.assertEqual(test_images.batch(numpy.array([0]))[1].tolist(), [5])
        self.assertEqual(tuple(pixels.shape), (2, 3, 32, 32))
        for channel, (value, mean, std) in enumerate(((1.0, 125.3, 63.0), (0.0, 123.0, 62.1),
                                                      (0.2, 113.9, 66.7))):
            self.assertAlmostEqual(pixels[0, channel, 5, 7].item(), (255 * value - mean) / std, places=5)

    def test_fashion_mnist_is_framed_and_has_three_equal_channels(self):
        for part, label in (("train", 4), ("t10k", 9)):
            (self.folder / f"{part}-images-idx3-ubyte").write_bytes(bytes(16) + bytes([255] * 784))
            with gzip.open(self.folder / f"{part}-labels-idx1-ubyte.gz", "wb") as file:
                file.write(bytes(8) + bytes([label]))
        self.assertEqual(self.of("fashion-mnist", train=False).batch(numpy.array([0]))[1].tolist(), [9])
        pixels, labels = self.of("fashion-mnist").batch(numpy.array([0]))
        self.assertEqual((labels.tolist(), tuple(pixels.shape)), ([4], (1, 3, 32, 32)))
        inside = torch.full((3, 28, 28), (1 - 0.2860) / 0.3530)
        self.assertTrue(torch.allclose(pixels[0, :, 2:30, 2:30], inside))
        self.assertAlmostEqual(pixels[0, 2, 1, 15].item(), -0.2860 / 0.3530, places=5)

    def test_synthetic_test_images_are_others_with_labels_of_ten_classes(self):
        self.enterContext(mock.patch.object(self.images, "SYNTHETIC_SAMPLES", 40))
        training_images, again, test_images = (self.of("synthetic", train) for train in (True, True, False))
        everything = numpy.arange(40)
        pixels, labels = training_images.batch(everything)
        self.assertTrue(torch.equal(pixels, again.batch(everything)[0]))
        self.assertFalse(torch.equal(pixels, test_images.batch(everything)[0]))
        self.assertEqual((labels.min().item(), labels.max().item()), (0, 9))


class ModelsTest(unittest.TestCase):
    def test_parameters_are_those_of_gradwire_worker(self):
        import models
        for name, count in (("vgg11", 9231114), ("mlp", 394634)):
            made = models.MODELS[name]()
            self.assertEqual(sum(parameter.numel() for parameter in made.parameters()), count)
            self.assertEqual(tuple(made(torch.zeros(2, 3, 32, 32)).shape), (2, 10))


class RendezvousTest(unittest.TestCase):
    def test_rank_joins_over_the_interface_that_leads_to_the_master(self):
        import rendezvous
        for given, expected in ({}, "lo"), ({"GLOO_SOCKET_IFNAME": "eth7"}, "eth7"):
            environment = {key: value for key, value in os.environ.items() if key != "GLOO_SOCKET_IFNAME"}
            with mock.patch.dict(os.environ, {**environment, **given}, clear=True), \
                    mock.patch.object(torch.distributed, "init_process_group") as joined:
                rendezvous.join(options(rank=2, world_size=5, master="127.0.0.1:7"))
                self.assertEqual(os.environ["GLOO_SOCKET_IFNAME"], expected)
            self.assertEqual(joined.call_args.args, ("gloo",))
            how = joined.call_args.kwargs
            self.assertEqual((how["init_method"], how["rank"], how["world_size"]),
                             ("tcp://127.0.0.1:7", 2, 5))
            self.assertEqual(how["timeout"].total_seconds(), 300)


class SyncTest(unittest.TestCase):
    def setUp(self):
        self.parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
        for number, parameter in enumerate(self.parameters, 1):
            parameter.grad = torch.full((2,), float(number))

    def test_rank_0_scatters_the_mean_of_what_it_gathered(self):
        def gather(mine, gradients, dst):
            self.assertEqual(dst, 0)
            for rank, gradient in enumerate(gradients):
                gradient.copy_(mine * (rank + 1))

        def scatter(out, means, src):
            self.assertEqual((len(means), src), (3, 0))
            out.copy_(means[1])
        with mock.patch.object(torch.distributed, "gather", gather), \
                mock.patch.object(torch.distributed, "scatter", scatter):
            training.gather_scatter(self.parameters, options(rank=0))
        self.assertEqual([parameter.grad.tolist() for parameter in self.parameters],
                         [[2.0] * 2, [4.0] * 2])

    def test_sum_of_all_ranks_is_divided_by_their_number(self):
        with mock.patch.object(torch.distributed, "all_reduce", lambda sums: sums.mul_(6)):
            training.all_reduce(self.parameters, options())
        self.assertEqual([parameter.grad.tolist() for parameter in self.parameters],
                         [[2.0] * 2, [4.0] * 2])


class EmulationTest(unittest.TestCase):
    def test_layers_sleep_in_proportion_to_their_work_and_give_gradients(self):
        import emulation
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.Flatten(),
                                    torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
        slept = []
        with mock.patch.object(emulation.PacedSleep, "sleep",
                               lambda _self, seconds: slept.append(round(seconds, 6))):
            made = emulation.Emulated(model, torch.zeros(1, 1, 2, 2), (3.2, 6.4), 4)
            scores = made(torch.zeros(2, 1, 2, 2))
            scores.sum().backward()
        self.assertEqual(tuple(scores.shape), (2, 3))
        # 8 multiply-adds of the convolution, none, 24; half of the 4 samples.
        self.assertEqual(slept, [0.4, 0.0, 1.2, 2.4, 0.0, 0.8])
        self.assertTrue(all(parameter.grad.abs().max() > 0 for parameter in model.parameters()))
        self.assertTrue(model.training)

    def test_sleep_that_was_too_long_shortens_the_next(self):
        import emulation
        now, wanted = [0.0], []

        def sleep(seconds):
            wanted.append(round(seconds, 6))
            now[0] += seconds + 0.5
        clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
        with mock.patch.object(emulation, "time", clock):
            paced = emulation.PacedSleep()
            for seconds in (2.0, 2.0, 0.25, 2.0):
                paced.sleep(seconds)
        self.assertEqual(wanted, [2.0, 1.5, 0.0, 1.25])


if __name__ == "__main__":
    unittest.main()
