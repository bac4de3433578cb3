"""Every key of a TOML text is found on its line, whatever form the text has."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.config.toml_text import TomlPosition, locate_keys, nearest_position, parse_toml
from unskew.errors import ConfigError

KEYS = st.text("ab-_Z09.= #\"'[]{}\n\t\\é☃,", max_size=5)
SCALARS = st.one_of(
    st.integers(-99, 99),
    st.booleans(),
    st.floats(-1e3, 1e3, allow_nan=False),
    st.text("ab\"'\\#[]{}=,.\n é", max_size=12),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def paths_of(value, path=()):
    """Every key and element of a parsed document."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in items:
        yield (*path, key)
        yield from paths_of(each, (*path, key))


class Writer:
    """Writes a document in forms drawn at random, and notes the line of every key as it goes."""

    def __init__(self, draw):
        self.draw, self.text, self.line = draw, "", {}

    def put(self, text):
        self.text += text

    def note(self, path):
        self.line.setdefault(path, self.text.count("\n") + 1)

    def choose(self, *options):
        return self.draw(st.sampled_from(options))

    def key(self, key):
        bare = key and all(each in "abcdefghijklmnopqrstuvwxyzZ0123456789-_" for each in key)
        forms = [json.dumps(key)] + [key] * bool(bare) + [f"'{key}'"] * (not set(key) & set("'\n"))
        return self.choose(*forms)

    def gap(self):
        """What may stand between the elements of an array."""
        return self.choose("", " ", "\n", "  # a ] comment, = [x]\n\n\t")

    def string(self, text):
        forms = [json.dumps(text)]
        if not set(text) & set("'\n"):
            forms.append(f"'{text}'")
        if "'''" not in text and not text.endswith("'"):
            forms.append(f"'''\n{text}'''")
        forms.append('"""\n' + text.replace("\\", "\\\\").replace('"""', '""\\"') + '"""')
        return self.choose(*forms)

    def value(self, value, path):
        if isinstance(value, dict):
            self.put("{")
            for number, (key, each) in enumerate(value.items()):
                self.put(", " if number else " ")
                self.note((*path, key))
                self.put(f"{self.key(key)} = ")
                self.value(each, (*path, key))
            self.put(" }")
        elif isinstance(value, list):
            self.put("[")
            for number, each in enumerate(value):
                self.put(("," if number else "") + self.gap())
                self.note((*path, number))
                self.value(each, (*path, number))
            self.put((self.choose("", ",") if value else "") + self.gap() + "]")
        elif isinstance(value, str):
            self.put(self.string(value))
        else:
            self.put(json.dumps(value))

    def pair(self, path, dotted, value):
        """``a.b.c = value``, or, of a table, one such line for each of its entries."""
        if isinstance(value, dict) and value and self.choose(True, False):
            for key, each in value.items():
                self.pair(path, (*dotted, key), each)
            return
        for length in range(1, len(dotted) + 1):
            self.note((*path, *dotted[:length]))
        self.put(
            self.choose(".", " . ").join(self.key(key) for key in dotted) + self.choose("=", " = ")
        )
        self.value(value, (*path, *dotted))
        self.put(self.choose("", " # = [not.this]") + "\n" + self.choose("", "\n"))

    def header(self, path, opening="[", closing="]"):
        self.put(
            f"{opening}{'.'.join(self.key(key) for key in path if isinstance(key, str))}{closing}\n"
        )

    def table(self, path, table):
        later = []
        for key, each in table.items():
            is_tables = (
                isinstance(each, list)
                and each
                and all(isinstance(element, dict) for element in each)
            )
            if (isinstance(each, dict) or is_tables) and self.choose(True, False):
                later.append((key, each))
            else:
                self.pair(path, (key,), each)
        for key, each in later:
            below = (*path, key)
            if isinstance(each, dict):
                self.note(below)
                self.header(below)
                self.table(below, each)
                continue
            for number, element in enumerate(each):
                self.note(below)
                self.note((*below, number))
                self.header(below, "[[", "]]")
                self.table((*below, number), element)


@settings(max_examples=75)
@given(st.dictionaries(KEYS, VALUES, max_size=5), st.data())
def test_every_key_of_any_document_is_found_on_its_line(document, data):
    writer = Writer(data.draw)
    writer.table((), document)
    parsed = tomllib.loads(writer.text)
    places = locate_keys(writer.text)
    assert set(places) == set(paths_of(parsed))
    assert {path: place.line for path, place in places.items()} == writer.line


@settings(max_examples=25)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.data())
def test_the_line_ends_of_windows_change_nothing(document, data):
    writer = Writer(data.draw)
    writer.table((), document)
    assert locate_keys(writer.text.replace("\n", "\r\n")) == locate_keys(writer.text)


EVERY_FORM = '''\
# a comment = 1
title = "x # no comment"   # a comment
a.b.c = 1
a.b.d = { e = [1, { f = "}" }], "g.h" = 'i' }

[sources]   # [not] a table
"folders" = { north = "n", 'south pole' = "s" }
text = """
[fake]
key = "value" \\""" still """
literal = \'\'\'
x = 1\'\'\'
when = 1979-05-27 07:32:00
list = [
  1, # one
  # ] not the end
  [2, 3],
  "four",
]

[target.margins]
label.cat = 0.5
[target]
unit = "group"

[[bias.factors]]
family = "strata"
[bias.factors.bins]
age = [0, 40]
[[bias.factors]]
family = "tilt"
'''


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("title",), (2, 1)),
        (("a",), (3, 1)),
        (("a", "b", "c"), (3, 5)),
        (("a", "b", "d", "e", 1, "f"), (4, 21)),
        (("a", "b", "d", "g.h"), (4, 33)),
        (("sources",), (6, 1)),
        (("sources", "folders", "south pole"), (7, 28)),
        (("sources", "text"), (8, 1)),
        (("sources", "literal"), (11, 1)),
        (("sources", "when"), (13, 1)),
        (("sources", "list", 1), (17, 3)),
        (("sources", "list", 1, 0), (17, 4)),
        (("sources", "list", 2), (18, 3)),
        (("target", "margins"), (21, 1)),
        (("target", "margins", "label", "cat"), (22, 7)),
        (("target",), (23, 1)),
        (("bias",), (26, 1)),
        (("bias", "factors"), (26, 1)),
        (("bias", "factors", 0, "family"), (27, 1)),
        (("bias", "factors", 0, "bins", "age"), (29, 1)),
        (("bias", "factors", 1), (30, 1)),
        (("bias", "factors", 1, "family"), (31, 1)),
    ],
)
def test_every_form_of_toml_is_read(path, place):
    places = locate_keys(EVERY_FORM)
    assert places[path] == place
    assert set(places) == set(paths_of(tomllib.loads(EVERY_FORM)))


def test_what_the_text_lacks_is_placed_at_the_table_above_it():
    places = locate_keys('[target]\nunit = "group"')
    assert nearest_position(places, ("target", "margins", "label")) == TomlPosition(1, 1)
    assert nearest_position(places, ("bias",)) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# only a comment",
        "[a]",
        "a = 1",
        "a = []",
        "a = {}",
        'a = """"""',
        "a = ''''''",
    ],
)
def test_short_texts(text):
    assert set(locate_keys(text)) == set(paths_of(tomllib.loads(text)))


def test_a_key_of_thousands_of_parts_is_refused_and_not_waited_for() -> None:
    """Python's parser takes hours for a megabyte of them."""
    for key in ("a." * 200_000 + "a", '"a".' * 200_000 + "a", "a . " * 200_000 + "a"):
        for text in (f"{key} = 1", f"[{key}]", f"x = {{ {key} = 1 }}"):
            with pytest.raises(ConfigError):
                parse_toml(text, "run.toml")
    fine = 'a.b = "' + "c." * 500 + '"\nx = [' + "0.5, " * 500 + "]"
    assert parse_toml(fine, "run.toml")["x"] == [0.5] * 500
