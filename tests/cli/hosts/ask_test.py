"""cli/hosts/ask.py: the same program on all hosts, and what becomes of the answers."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.hosts.ask import PROBE, ask_all, await_all, python_there
from cli.runs.failure import EXIT_USAGE, Failure


class FakeProcess:
    def __init__(self, out="{}", err="", status=0):
        self.out, self.err, self.status = out.encode(), err.encode(), status
        self.end = f"ended with exit code {status}"

    @property
    def ended(self):
        return self.status is not None

    @property
    def failed(self):
        return self.status not in (0, None)


class FakeLink:
    def __init__(self, name, lost=""):
        self.name, self.lost = name, lost


class Processes:
    """Notes what was asked, and gives the processes in turn."""

    def __init__(self, *processes):
        self.left = list(processes)
        self.commands = []

    def add(self, command):
        self.commands.append(command)
        return self.left.pop(0)


def ask(processes, links, questions):
    return ask_all(processes, links, questions, lambda ready, deadline: ready(), 5)


class Ask(unittest.TestCase):
    def assert_refused(self, message, processes, links):
        with self.assertRaises(Failure) as told:
            ask(Processes(*processes), links, {})
        self.assertEqual((str(told.exception), told.exception.exit_code), (message, EXIT_USAGE))

    def test_answers_come_in_the_order_of_the_hosts(self):
        processes = Processes(FakeProcess('{"a": 1}'), FakeProcess('{"a": 2}'))
        self.assertEqual(ask(processes, [FakeLink("h"), FakeLink("i")], {}), [{"a": 1}, {"a": 2}])

    def test_one_question_is_for_all_and_several_for_one_each(self):
        links = [FakeLink("h"), FakeLink("i")]
        for questions, expected in (({"q": 1}, [{"q": 1}] * 2),
                                    ([{"q": 1}, {"q": 2}], [{"q": 1}, {"q": 2}])):
            processes = Processes(FakeProcess(), FakeProcess())
            ask(processes, links, questions)
            self.assertEqual([json.loads(command.argv[-1]) for command in processes.commands],
                             expected)
            self.assertEqual([command.link for command in processes.commands], links)

    def test_all_that_did_not_answer_are_named_with_what_they_said(self):
        self.assert_refused(
            "host h: ended with exit code 3: no python\nhost k: no answer within 5 s\n"
            "host l: ended with exit code 4\nhost m: was silent",
            [FakeProcess(err="a\n  no python \n\n", status=3), FakeProcess(),
             FakeProcess(status=None), FakeProcess(status=4), FakeProcess(status=75)],
            [FakeLink("h"), FakeLink("i"), FakeLink("k"), FakeLink("l"),
             FakeLink("m", "host m: was silent")])

    def test_it_waits_for_all_until_the_deadline(self):
        waited = []

        def wait(ready, deadline):
            waited.append((ready(), deadline))
        self.assertEqual(await_all([], wait, 0), [])
        self.assertEqual(waited[0][0], True)

    def test_script_travels_as_text_and_gets_its_words(self):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as script:
            script.write("print('ä')")
            script.flush()
            self.assertEqual(python_there(script.name, "a", "b"),
                             ["python3", "-I", "-S", "-c", "print('ä')", "a", "b"])

    def test_probe_is_small_enough_for_a_word_of_a_command(self):
        self.assertLess(len(PROBE.read_bytes()), 128 << 10)  # MAX_ARG_STRLEN


if __name__ == "__main__":
    unittest.main()
