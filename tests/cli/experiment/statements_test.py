"""The statements of all experiments, `gradwire experiment claims`, and that each can be decided in
both ways, for which this runs the other tests of its folder."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import FakeRunner, conduct_with, no_images, request_of
from cli.experiment import experiment, study
from cli.experiment.experiment import EXPERIMENTS
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED
from cli.runs.failure import Failure
from cli.terminal.command import WrongUsage

HERE = pathlib.Path(__file__).resolve().parent
WITH_STATEMENTS = [one for one in EXPERIMENTS if one.statements]


def verdicts_of_tests():
    """Runs the tests of this folder. Returns {text of a claim: its verdicts}."""
    found = {}
    judge = study.judge

    def recording(text, source, *rest):
        claim = judge(text, source, *rest)
        found.setdefault(text, set()).add(claim.verdict)
        return claim
    modules = [file.stem for file in HERE.glob("*_test.py") if file != pathlib.Path(__file__)]
    with mock.patch.object(study, "judge", recording):
        suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    return found, [str(test) for test, _ in result.errors + result.failures]


class Verdicts(unittest.TestCase):
    def test_made_up_results_drive_each_statement_to_both_verdicts(self):
        found, failed = verdicts_of_tests()
        self.assertEqual(failed, [])
        constant = [f"{one.name}: {statement.key}: never {verdict}" for one in EXPERIMENTS
                    for statement in one.statements for verdict in (CONFIRMED, NOT_CONFIRMED)
                    if verdict not in found.get(statement.text, ())]
        self.assertEqual(constant, [])


class Statements(unittest.TestCase):
    def test_every_experiment_decides_each_of_its_statements_once_and_in_their_order(self):
        for one in WITH_STATEMENTS:
            with tempfile.TemporaryDirectory() as out, \
                    contextlib.redirect_stderr(io.StringIO()), \
                    contextlib.redirect_stdout(io.StringIO()):
                conduct_with(FakeRunner(), request_of(f"{out}/out", one.name), no_images)
                claims = json.loads(pathlib.Path(out, "out/results.json").read_text())["claims"]
            self.assertEqual([(claim["key"], claim["claim"]) for claim in claims],
                             [(row.key, row.text) for row in one.statements])

    def test_keys_are_words_and_texts_are_sentences_which_differ(self):
        for one in WITH_STATEMENTS:
            for row in one.statements:
                self.assertRegex(row.key, "^[a-z0-9]+(-[a-z0-9]+)*$")
                self.assertRegex(row.text, r"\w\.$")
                self.assertTrue(row.source and row.quantity and row.rule, row.key)
            self.assertEqual(len({row.key for row in one.statements}), len(one.statements))
        texts = [row.text for one in EXPERIMENTS for row in one.statements]
        self.assertEqual(len(texts), len(set(texts)))


class Listing(unittest.TestCase):
    def printed(self, *words, **more):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            experiment.main_with(request_of("out", words=["claims", *words], **more), None)
        return out.getvalue()

    def test_all_statements_of_all_experiments_are_listed(self):
        text = self.printed()
        for one in EXPERIMENTS:
            self.assertIn(f"{one.name}: {one.title}", text)
            for row in one.statements:
                self.assertIn(row.text, text)

    def test_one_name_lists_its_own_with_all_parts(self):
        text = self.printed("course")
        row = next(row for row in experiment_called("course").statements if row.needs)
        for part in (row.key, row.text, row.source, row.quantity, row.rule, row.needs):
            self.assertIn(part, text)
        self.assertNotIn("collectives", text)

    def test_json_has_the_same(self):
        (value,) = json.loads(self.printed("collectives", json=True))
        rows = experiment_called("collectives").statements
        self.assertEqual(value["experiment"], "collectives")
        self.assertEqual(value["claims"], [
            {"key": row.key, "text": row.text, "place": row.source, "quantity": row.quantity,
             "confirmed_if": row.rule, "needs": row.needs} for row in rows])

    def test_unknown_name_gets_the_nearest(self):
        with self.assertRaisesRegex(Failure, "^unknown experiment 'curse', .*did you mean course"):
            self.printed("curse")

    def test_json_is_for_claims_alone(self):
        for words in (["course"], []):
            with self.assertRaisesRegex(WrongUsage, "^--json is for 'claims', got "):
                experiment.main_with(request_of("out", words=words, json=True), None)


def experiment_called(name):
    return study.experiment_called(name, EXPERIMENTS)


if __name__ == "__main__":
    unittest.main()
