"""bench/peers: one rank of PyTorch's, with stand-ins for the other ranks."""
import importlib.util
import pathlib
import sys
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
