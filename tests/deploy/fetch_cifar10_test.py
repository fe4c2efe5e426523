"""deploy/fetch-cifar10 with a stand-in for curl."""
import unittest

from stand_ins import DEPLOY, Scripts


class Cifar(Scripts):
    """deploy/fetch-cifar10 with a stand-in for curl, which fails with CODE after an answer ANSWER."""

    def setUp(self):
        super().setUp()
        self.script("bin/curl", 'while [ "$1" != --output ]; do shift; done\n'
                                'printf "more" >> "$2"; echo "$ANSWER some reason"; exit "$CODE"')
        self.part = self.folder / "data.tar.gz.part"

    def fetch(self, answer, code):
        self.part.write_text("part")
        return self.run_script(DEPLOY / "fetch-cifar10", "data", "--url", "http://m/a.tar.gz",
                               ANSWER=str(answer), CODE=str(code))

    def test_network_that_fails_is_try_again_and_keeps_the_part(self):
        for failed in (5, 6, 7, 18, 28, 35, 52, 55, 56):
            code, said = self.fetch("000", failed)
            self.assertEqual(code, 75, said)
            self.assertIn("fetch-cifar10: cannot reach http://m/a.tar.gz (some reason); run this again", said)
            self.assertEqual(self.part.read_text(), "partmore")

    def test_answer_of_the_server_is_told(self):
        for answer in (404, 500):
            code, said = self.fetch(answer, 22)
            self.assertEqual(code, 1)
            self.assertIn(f"fetch-cifar10: http://m/a.tar.gz: the server answered {answer}\n", said)
            self.assertTrue(self.part.exists())

    def test_part_with_which_the_server_cannot_go_on_is_removed(self):
        for answer, failed in ((416, 22), (200, 33), (0, 36)):
            code, said = self.fetch(answer, failed)
            self.assertEqual(code, 1)
            self.assertIn("the server cannot resume data.tar.gz.part, so it was removed; run this again", said)
            self.assertFalse(self.part.exists())

    def test_other_failures_have_their_code(self):
        code, said = self.fetch("000", 23)
        self.assertEqual(code, 1)
        self.assertIn("fetch-cifar10: cannot fetch http://m/a.tar.gz (some reason; curl's code 23)\n", said)


if __name__ == "__main__":
    unittest.main()
