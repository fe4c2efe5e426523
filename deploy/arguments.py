"""Arguments of the Python scripts of deploy/, tests/ and bench/. The docstring of a script is its help,
and the first indented lines in it are its usage, so that each is written once."""
import argparse
import difflib
import os
import re
import sys

EXIT_USAGE = 2


def usage_of(doc):
    """Returns the first indented lines."""
    found = re.search(r"^ +\S.*\n(?: +\S.*\n)*", doc + "\n", re.MULTILINE)
    return found[0]


def did_you_mean(word, names):
    """Returns "; did you mean --rounds?", or "" if `word` is not close to any of `names`."""
    near = difflib.get_close_matches(word, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


class Parser(argparse.ArgumentParser):
    """On wrong arguments, prints one sentence with the nearest option or choice, then the usage, and
    exits with 2."""

    def __init__(self, doc):
        super().__init__(prog=os.path.basename(sys.argv[0]), description=doc.strip(),
                         usage=argparse.SUPPRESS, allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)
        self._usage = usage_of(doc)

    def add_numbers(self, **defaults):
        """Adds an option for each, a number of its default's type: batch_size=16 is --batch-size."""
        for name, default in defaults.items():
            self.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)

    def parse_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else list(args)
        for word in words[:words.index("--") if "--" in words else None]:
            name = word.partition("=")[0]
            if re.match("--?[A-Za-z]", name) and name not in self._option_string_actions:
                self.error(f"unknown option {name}"
                           f"{did_you_mean(name, self._option_string_actions)}")
        return super().parse_args(words, namespace)

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"got '{value}', expected one of {', '.join(map(str, action.choices))}"
                        f"{did_you_mean(str(value), list(map(str, action.choices)))}")

    def error(self, message):
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\nUsage:\n{self._usage}")
