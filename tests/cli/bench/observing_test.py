"""bench/observing.py: what it says of several rounds."""
import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import types
import unittest
from unittest import mock

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "observing.py"


def loaded():
    spec = importlib.util.spec_from_file_location("observing", BENCH)
    observing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(observing)
    return observing


class Observing(unittest.TestCase):
    def test_run_gives_the_median_of_each_rank_and_has_all_tools_or_none(self):
        observing, words, watched = loaded(), [], []

        def launch(command, **_):
            words.append([str(word) for word in command])
            pathlib.Path(command[command.index("--summary") + 1]).write_text(json.dumps(
                {"ranks": [{"iteration_seconds": {"p50": seconds}} for seconds in (0.5, 0.25)]}))

        @contextlib.contextmanager
        def watch(address, _folder):
            watched.append(address)
            yield
        options = types.SimpleNamespace(workers=2, batch_size=16, iterations=60)
        with mock.patch.object(subprocess, "run", launch), \
                mock.patch.object(observing, "watched", watch):
            for everything in (False, True):
                self.assertEqual(observing.train(options, everything), [0.5, 0.25])
        off, on = words
        self.assertEqual(off[off.index("--metrics") + 1], "off")
        self.assertFalse({"--trace", "--log-jsonl"} & set(off))
        at = on.index("--")
        self.assertEqual([on[on.index("--metrics") + 1]], watched)
        self.assertEqual(on[at + 1:at + 4], ["--metrics", "127.0.0.1:0", "--log-jsonl"])
        self.assertIn("--trace", on[:at])
        self.assertEqual(off[off.index("--dataset"):], on[on.index("--dataset"):])
        for name, value in (("--workers", "2"), ("--batch-size", "16"), ("--iterations", "60")):
            self.assertEqual(off[off.index(name) + 1], value)
        self.assertLess(off.index("--workers"), off.index("--"))

    def test_prometheus_and_the_page_see_the_coordinator_until_the_end(self):
        observing, seen = loaded(), []
        prometheus = mock.Mock()

        def viewer(address, over):
            seen.append(address)
            seen.append(over.wait(60))
        with mock.patch.object(subprocess, "Popen", return_value=prometheus) as started, \
                mock.patch.object(observing, "viewer", viewer), \
                observing.watched("127.0.0.1:7", pathlib.Path("/x")):
            self.assertFalse(prometheus.terminate.called)
        argv = started.call_args.args[0]
        self.assertEqual(argv[argv.index("--coordinator") + 1], "127.0.0.1:7")
        self.assertEqual(argv[argv.index("--scrape-interval") + 1], "1s")
        self.assertEqual(seen, ["127.0.0.1:7", True])
        self.assertEqual([call[0] for call in prometheus.method_calls], ["terminate", "wait"])

    def test_viewer_asks_for_both_pages_each_second_whether_they_answer_or_not(self):
        observing, asked = loaded(), []
        turns = iter((False, False, True))
        over = mock.Mock(wait=mock.Mock(side_effect=lambda _seconds: next(turns)))

        def urlopen(url, timeout):
            asked.append((url, timeout))
            raise OSError
        with mock.patch.object(observing.urllib.request, "urlopen", urlopen):
            observing.viewer("127.0.0.1:7", over)
        self.assertEqual(asked, [("http://127.0.0.1:7/status.json", 5),
                                 ("http://127.0.0.1:7/history.json?points=600", 5)] * 2)
        over.wait.assert_called_with(1)

    def test_last_line_has_the_medians_of_all_rounds(self):
        observing = loaded()
        taken = {False: iter(([1.0, 1.0], [2.0, 2.0], [6.0, 6.0])),
                 True: iter(([3.0, 3.0], [4.0, 4.0], [9.0, 9.0]))}
        with mock.patch.object(observing, "train", lambda _, everything: next(taken[everything])), \
                mock.patch("sys.argv", ["observing.py", "--rounds", "3"]), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            observing.main()
        lines = printed.getvalue().splitlines()
        self.assertEqual(lines[-1], "median: off 2.0000 s, on 4.0000 s, ratio 2.0000")
        self.assertEqual(lines[:3], ["round 1, everything on : 3.0000 s",
                                     "round 1, everything off: 1.0000 s",
                                     "round 2, everything off: 2.0000 s"])  # the order changes
        self.assertEqual(len(lines), 7)


if __name__ == "__main__":
    unittest.main()
