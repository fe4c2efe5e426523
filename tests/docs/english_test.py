"""Pages, help, messages and comments: no construction that makes a reader read a sentence twice.

The patterns are those that a program can find; each has what to write in its place. They look at
prose: not at code blocks, code spans, addresses of links and titles in quotes.
"""
import ast
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]

# Where a sentence begins: a paragraph, an item, a cell, or after a full stop and the like.
START = r"(?:^|(?<=[.!?] )|(?<=[.!?]\*\* )|(?<=\| )|(?<=[-*] )|(?<=\d\. ))"
# (expression, what to write)
CONSTRUCTIONS = [(re.compile(expression, re.MULTILINE), advice) for expression, advice in [
    (START + r"What (?!to\b|it\b|you\b|comes out\b)[a-z][^.?!|\n]*\.", "name the subject"),
    (START + r"Who (?!to\b)[a-z][^.?!|\n]*\.", "name the subject: 'A worker that …'"),
    (START + r"Whoever\b", "name the subject"),
    (START + r"Of (?:it|them|these|those|this|others|a|the|what|whom|each)\b(?! (?:course)\b)",
     "name the subject; no sentence starts with 'Of'"),
    (START + r"Where (?!to\b|is\b|are\b|it\b|does\b|do\b)[a-z][^.?!|\n]*, ", "'If …' is a condition"),
    (START + r"That (?:a|an|the|what) [^.?!|\n]*\.", "name the subject; put the verb early"),
    (r"\bbut for\b", "except"),
    (r"\bis to be had\b|\b(?:are|not|can) to be had\b|\bcan be had\b", "is available"),
    (r"\btells of\b|\btell of\b|\btold of\b", "reports"),
    (r"\bhears of\b|\bhear of\b|\bheard of\b", "receives, learns of"),
    (r"\b[Nn]obody\b|\b[Nn]o one\b", "no worker, no process"),
    (r"\b[Ss]omebody\b|\b[Ee]verybody\b|\b[Aa]nybody\b", "a worker, all workers, any process"),
    (r"\b(?:for|in|of|after) so (?:many|long|much)\b|\bso many\b(?! that\b)", "that many, that long"),
    (r"\bturns over\b|\bturned over\b", "flips"),
    (r"\bin front of\b(?! a (?:proxy|server)\b)", "before"),
    (r"\b[Tt]here is nothing\b", "say what there is"),
    (r"\bas (?:it was )?before\b|\b[Tt]he first design\b", "the changelog has history"),
    (r"\bis not worth anything\b", "is obsolete, is useless"),
    (r"\bof which there (?:is|are)\b", "split the sentence"),
    (r", for (?:it|they|he|there|nobody|nothing) [a-z]+", "because"),
    (r", for (?:these|those|that|its|their|the|no|each|a|both|all)(?: [a-z]+){0,3} (?:is|are|has|have|was|"
     r"were|needs?|does|do|can|could|would|must|may|come|comes)\b", "because"),
    (r"\bit is for all\b", "split the sentence"),
    (r"\blets? in(?: only)? who\b|\bis lost who\b|\bto whom it\b", "name the subject"),
    (r"\bnormalis|\boptimis|\bquantis|\bsynchronis|\bbehaviour|\bneighbour|\bcolour(?!`)", "American spelling"),
    (r"\bbackends\b", "back ends"),
]]
FENCE = re.compile(r"^[ ]*(```|~~~).*?^[ ]*\1[^\n]*$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*(?:\n|\Z)|\n(?= {4}))+")
ITEM_TEXT = re.compile(r"^(?:[-*]|\d+\.) ", re.MULTILINE)
SPAN = re.compile(r"`[^`\n]+(?:\n[^`\n|]+)?`")  # may go on in the next line
ADDRESS = re.compile(r"\]\([^)\s]+\)|https?://\S+")
QUOTED = re.compile(r"[\"“][^\"”]*[\"”]")


def blank(match):
    """The same number of lines, without text."""
    return re.sub(r"[^\n]", " ", match.group())


def placeholder(match):
    """Stands for what a reader takes for a word."""
    return re.sub(r"[^\n]", "x", match.group())


def prose(text):
    """The text without code, addresses and quotations; lines stay where they are."""
    text = FENCE.sub(blank, text)
    text = INDENTED.sub(lambda match: blank(match) if not in_list(text, match.start()) else
                        match.group(), text)
    text = SPAN.sub(placeholder, text)
    text = ADDRESS.sub(lambda match: "]" + " " * (len(match.group()) - 1), text)
    return QUOTED.sub(placeholder, text)


def in_list(text, start):
    """Whether an indented block goes on with a list's item: the nearest line that is not indented
    begins one."""
    before = [line for line in text[:start].splitlines() if line and not line.startswith(" ")]
    return bool(before) and bool(ITEM_TEXT.match(before[-1])) and not text[start:].startswith(" " * 6)


def findings(text):
    """(line, words, what to write) of each construction in a page. A sentence may begin on one line
    and go on in the next."""
    plain = prose(text)
    # A line that goes on is joined to the one before: the same length, so that places stay.
    joined = re.sub(r"(?<=[^\n|])\n(?=[^\n|#\-*>\d ]|\d+[^.\d])", " ", plain)
    joined = re.sub(r"(?<=[^\n|])\n(?= {2,3}\S)", " ", joined)
    found = []
    for expression, advice in CONSTRUCTIONS:
        for match in expression.finditer(joined):
            line = plain.count("\n", 0, match.start()) + 1
            found.append((line, " ".join(match.group().split())[:60], advice))
    return sorted(found)


# Texts of the programs. Help and messages are literals of several words.
SOURCES = [path for folder in ("common", "coordinator", "worker", "library", "include", "programs", "examples",
                               "bench", "cli", "proto", "deploy")
           for path in sorted((SOURCE / folder).rglob("*"))
           if path.suffix in (".cc", ".h", ".inc", ".proto", ".py")]
LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Of a line of comments; drawings, lists of names and code are indented.
COMMENT = re.compile(r"//+ ?(?! )([^\n]*)")
COMMENTS = re.compile(r"(?:^[ \t]*//[^\n]*\n)+|//[^\n]*", re.MULTILINE)
NAME = re.compile(r"\b[\w/]+\.(?:inc|h|cc|py)\b|--[a-z][\w-]*")  # of a file or an option


def literals(text):
    """(line, text) of each literal of C++ that has several words; neighbors are one."""
    code = re.sub(r"//[^\n]*", blank, text)
    for match in LITERALS.finditer(code):
        joined = "".join(LITERAL.findall(match.group())).replace(r"\n", "\n")
        if " " in joined.strip():
            yield code.count("\n", 0, match.start()) + 1, joined


def comments(text):
    """(line, text) of each block of comments of C++."""
    for match in COMMENTS.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, " ".join(COMMENT.findall(match.group()))


def strings(text):
    """(line, text) of each string of Python that has several words."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def texts_of(path):
    text = path.read_text()
    if path.suffix == ".py":
        return list(strings(text))
    return [*literals(text), *comments(text)]


def findings_of_sources(texts):
    """Findings in (line, text) pairs, whose lines are joined."""
    found = []
    for line, text in texts:
        text = NAME.sub(placeholder, re.sub(r"'[^'\n]*'", placeholder, text))
        text = re.sub(r"(?<=[^\n])\n(?=[^\n])", " ", QUOTED.sub(placeholder, SPAN.sub(placeholder, text)))
        found += [(line, match.group()[:60], advice) for expression, advice in CONSTRUCTIONS
                  for match in expression.finditer(text)]
    return found


def page_name(page):
    return str(page.relative_to(SOURCE))


class EnglishTest(unittest.TestCase):
    def test_sentences_are_read_once(self):
        wrong = [f"{page_name(page)}:{line}: '{words}': {advice}" for page in PAGES
                 for line, words, advice in findings(page.read_text())]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_sentences_of_programs_are_read_once(self):
        self.assertGreater(len(SOURCES), 400)
        wrong = [f"{page_name(path)}:{line}: '{words}': {advice}" for path in SOURCES
                 for line, words, advice in findings_of_sources(texts_of(path))]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_bad_help_messages_and_comments_are_found(self):
        for texts in (literals('Add("x",\n    "all of it but "\n    "for rounding");\n'),
                      comments("int x;\n// All of it but\n// for rounding.\n"),
                      comments("int x;  // nobody waits\n"),
                      strings('x = f"no: {y} is to be had"\n')):
            self.assertEqual(len(findings_of_sources(texts)), 1)
        self.assertEqual(findings_of_sources(literals('// "nobody else"\nf("backends");\n')), [])

    def test_bad_sentences_are_found_with_their_line(self):
        for sentence in ("What is late is waited for by the others.",
                         "Who was silent for longer is lost.",
                         "Of it, half is sent.",
                         "Where a loss would end the run, all leases are equal.",
                         "That a stream broke counts only then.",
                         "All agree but for rounding.",
                         "No such back end is to be had.",
                         "The page tells of losses.",
                         "A worker hears of the view.",
                         "It is nobody's computation.",
                         "It waits for so long.",
                         "A bit turns over.",
                         "It is sent in front of the step.",
                         "There is nothing to do.",
                         "It is copied, for it is summed in place."):
            with self.subTest(sentence):
                page = f"# Page\n\nThe run ends.\n{sentence}\n"
                self.assertIn(4, [line for line, _, _ in findings(page)])

    def test_words_that_a_line_break_divides_are_found(self):
        self.assertEqual([line for line, _, _ in findings("The run ends. All agree but\nfor rounding.\n")
                          ], [1])

    def test_sentences_that_start_within_a_line_a_cell_or_an_item_are_found(self):
        for text in ("The run ends. What is late is waited for.\n",
                     "The run ends. Not so\nwith stop. Who is silent is lost.\n",
                     "| cell | What is late is waited for. |\n",
                     "- Who is silent is lost.\n",
                     "- **Loss.** Who is silent is lost.\n"):
            with self.subTest(text):
                self.assertEqual(len(findings(text)), 1)

    def test_code_and_quotations_are_left_alone(self):
        text = ("Run this:\n\n    # What is late is waited for.\n    but for\n\n"
                "```\nnobody\n```\n\nThe option `but for` is no option; \"nobody\" is quoted.\n")
        self.assertEqual(findings(text), [])


if __name__ == "__main__":
    unittest.main()
