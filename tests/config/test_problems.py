"""A mistake in a configuration is shown with its file, line and key, and the nearest valid name."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config_files import MINIMAL, fill_folder, save
from raising import refused
from run_data import TABLE_SOURCES, write_table_run
from unskew import ConfigError, DataError
from unskew.cli.app import run_command
from unskew.config.run_config import make_config, read_config


@pytest.fixture
def folder(tmp_path):
    return fill_folder(tmp_path)


def problems_in(folder, text):
    with pytest.raises(ConfigError) as raised:
        read_config(save(folder, text))
    return raised.value


def test_interactions_are_a_word_or_a_file_that_must_exist(folder):
    margins = "margins.age = { a = 1, b = 1 }\nmargins.sex = { f = 1, m = 1 }"
    for word in ("within", "pool"):
        lines = [f'interactions = "{word}"', *margins.split("\n")]
        assert read_config(save(folder, run(target=lines))).target.interactions == word
    lines = ['interactions = "nowhere.csv"', *margins.split("\n")]
    assert "nowhere.csv" in str(problems_in(folder, run(target=lines)))


def run(**sections):
    """A configuration whose lines can be counted: [sources] in 1, its keys from 2 on; then each
    further section.
    """
    lines = ["[sources]", *sections.pop("sources", ['manifest = "scans.csv"'])]
    bias = sections.pop("bias", ['family = "strata"'])
    for name, keys in (sections | {"bias": bias}).items():
        lines += [f"[{name}]", *keys]
    return "\n".join(lines)


# What is written, the line and the key of the problem, and the names and values that the message
# must carry.
MISTAKES = {
    "unknown key": (
        run(sources=['manifst = "scans.csv"', 'manifest = "scans.csv"']),
        2,
        "sources.manifst",
        ["no such key", "Did you mean 'manifest'?"],
    ),
    "key of another section": (
        run(solve=["seed = 1"]),
        4,
        "solve.seed",
        ["no such key", "seed is a key of [engine]"],
    ),
    "key before the first section": (
        'manifest = "scans.csv"\n' + run(),
        1,
        "manifest",
        ["[sources]"],
    ),
    "unknown section": (
        run(tarket=['uniform = "label"']),
        3,
        "tarket",
        ["Did you mean 'target'?"],
    ),
    "section that is a value": (
        "engine = 4\n" + run(),
        1,
        "engine",
        ["got 4 (a whole number)"],
    ),
    "list of sections": (
        run() + "\n[[report]]",
        5,
        "report",
        ["a list"],
    ),
    "text for a number": (
        run(engine=["", 'jobs = "four"']),
        5,
        "engine.jobs",
        ["above 0", 'got "four" (text)'],
    ),
    "truth value for a number": (
        run(engine=["seed = true"]),
        4,
        "engine.seed",
        ["got true (a truth value)"],
    ),
    "fraction for a whole number": (
        run(engine=["seed = 1.5"]),
        4,
        "engine.seed",
        ["got 1.5 (a number)"],
    ),
    "text for a truth value": (
        run(sources=['manifest = "scans.csv"', 'images = "no"']),
        3,
        "sources.images",
        ['"no" (text)'],
    ),
    "share above 1": (
        run(sources=['manifest = "scans.csv"', "tolerance = 1.5"]),
        3,
        "sources.tolerance",
        ["got 1.5"],
    ),
    "not a number": (run(solve=["tol = nan"]), 4, "solve.tol", ["got nan"]),
    "zero jobs": (run(engine=["jobs = 0"]), 4, "engine.jobs", ["got 0"]),
    "unknown word": (
        run(solve=['method = "newtn"']),
        4,
        "solve.method",
        ['expected "newton", "fixed_point" or "sgd"', "Did you mean 'newton'?"],
    ),
    "empty text": (
        run(sources=['manifest = ""']),
        2,
        "sources.manifest",
        ['got "" (text)'],
    ),
    "inner list": (
        run(target=['uniform = ["label", 3]']),
        4,
        "target.uniform",
        ['got ["label", 3]'],
    ),
    "inner table": (
        run(target=['uniform = ["age", "size"]', "bins.age = [0, 40]", 'bins.size = [0, "big"]']),
        6,
        "target.bins.size[1]",
        ['"big" (text)'],
    ),
    "rule for a level": (
        run(target=["margins.label = {fox = 1, hare = 1}", 'outside.label = { empty = "kep" }']),
        5,
        "target.outside.label",
        ['"keep" or "drop"', "kep"],
    ),
    "two kinds of sources": (
        run(sources=['manifest = "scans.csv"', 'folders = { a = "north" }']),
        3,
        "sources.folders",
        ["exactly one of", "manifest and folders"],
    ),
    "no kind of source": (
        run(sources=['label = "species"']),
        1,
        "sources",
        ["exactly one of folders, manifest", "label"],
    ),
    "two kinds of target": (
        run(target=['uniform = "label"', 'source = "north"']),
        5,
        "target.source",
        ["uniform and source"],
    ),
    "no kind of target": (
        run(target=['unit = "group"']),
        3,
        "target",
        ["exactly one of uniform, margins"],
    ),
    "option of another kind": (
        run(target=['uniform = "label"', "holdout = 0.5"]),
        5,
        "target.holdout",
        ["does not go with uniform"],
    ),
    "folders without names": (
        run(sources=['folders = ["north", "south"]']),
        2,
        "sources.folders",
        ["a list"],
    ),
    "wrong regular expression": (
        run(sources=['manifest = "scans.csv"', 'group = { regex = "(" }']),
        3,
        "sources.group",
        ["regular expression"],
    ),
    "expression without parentheses": (
        run(sources=['manifest = "scans.csv"', 'group = { regex = "sku" }']),
        3,
        "sources.group",
        ["parentheses"],
    ),
    "misspelt expression": (
        run(sources=['manifest = "scans.csv"', 'group = { regx = "(a)" }']),
        3,
        "sources.group",
        ["regx"],
    ),
    "missing file": (
        run(sources=['manifest = "scan.csv"']),
        2,
        "sources.manifest",
        ["a file that exists", 'got "scan.csv"', "Did you mean 'scans.csv'?"],
    ),
    "missing folder": (
        run(sources=["folders.x = 'north'", 'folders.y = "soth"']),
        3,
        "sources.folders.y",
        ["Did you mean 'south'?"],
    ),
    "file for a folder": (
        run(sources=['folders = { a = "scans.csv" }']),
        2,
        "sources.folders.a",
        ["is a file"],
    ),
    "folder for a file": (
        run(sources=['manifest = "north"']),
        2,
        "sources.manifest",
        ["is a folder"],
    ),
    "missing folder above": (
        run(sources=['manifest = "data/scans.csv"']),
        2,
        "sources.manifest",
        ["no folder"],
    ),
    "name too long": (
        run(sources=[f'manifest = "{"x" * 5000}"']),
        2,
        "sources.manifest",
        [],
    ),
    "name with a zero": (
        run(sources=['manifest = "x\\u0000y"']),
        2,
        "sources.manifest",
        [],
    ),
    "missing survey": (
        run(target=['margins.label = { file = "surveys.csv" }']),
        4,
        "target.margins.label.file",
        ["Did you mean 'survey.csv'?"],
    ),
    "missing registry": (
        run(target=['table = "x.csv"']),
        4,
        "target.table",
        ["x.csv"],
    ),
    "missing sample": (
        run(target=['sample = "phone/"']),
        4,
        "target.sample",
        ["Did you mean 'phones'?"],
    ),
    "file for a cache": (
        run(represent=['cache = "scans.csv"']),
        4,
        "represent.cache",
        ["is a file"],
    ),
    "missing starting folder": (
        'folder = "nowhere"\n' + run(),
        1,
        "folder",
        ["no folder"],
    ),
    "starting folder that is a number": (
        "folder = 3\n" + run(),
        1,
        "folder",
        ["got 3"],
    ),
    "masses that do not sum to one": (
        run(target=["margins.label = { fox = 0.5, hare = 0.6 }"]),
        4,
        "target.margins.label",
        ["1.1"],
    ),
    "bins of no attribute": (
        run(target=['uniform = "age"', "bins.agee = [0, 40]"]),
        5,
        "target.bins.agee",
        ["Did you mean 'age'?"],
    ),
    "bins that fall": (
        run(target=['uniform = "age"', "bins.age = [40, 0]"]),
        5,
        "target.bins.age",
        ["40"],
    ),
    "level in and out": (
        run(target=["margins.label = {fox = 1}", 'outside.label = { fox = "keep" }']),
        5,
        "target.outside.label",
        ["fox"],
    ),
    "margins that are a list": (
        run(target=["margins = [1, 2]"]),
        4,
        "target.margins",
        ["got [1, 2] (a list)"],
    ),
    "margin that is a number": (
        run(target=["margins.label = 3"]),
        4,
        "target.margins.label",
        ["label"],
    ),
    "unknown family": (
        run(bias=['family = "stratta"']),
        4,
        "bias.family",
        ["'strata'", 'got "stratta" (text)', "Did you mean 'strata'?"],
    ),
    "no family": (run(bias=['by = "label"']), 3, "bias.family", ["'soft_box'"]),
    "family that is a number": (
        run(bias=["family = 3"]),
        4,
        "bias.family",
        ["got 3 (a whole number)"],
    ),
    "unknown setting of a family": (
        run(bias=['family = "tilt"', 'feature = ["x"]', 'features = ["x"]']),
        5,
        "bias.feature",
        ["Did you mean 'features'?"],
    ),
    "missing setting of a family": (
        run(bias=['family = "tilt"']),
        3,
        "bias.features",
        ["missing"],
    ),
    "text for a list of features": (
        run(bias=['family = "tilt"', 'features = "x"']),
        5,
        "bias.features",
        ['got "x" (text)'],
    ),
    "text for a setting": (
        run(bias=['family = "box"', 'features = ["x"]', 'quantile = "0.1"']),
        6,
        "bias.quantile",
        ["0.5", '"0.1" (text)'],
    ),
    "setting out of range": (
        run(bias=['family = "box"', 'features = ["x"]', "quantile = 0.7"]),
        6,
        "bias.quantile",
        ["0.5", "got 0.7"],
    ),
    "wrong folds": (
        run(bias=['family = "propensity"', 'features = ["x"]', "folds = 1"]),
        6,
        "bias.folds",
        ["2"],
    ),
    "product without factors": (
        run(bias=['family = "product"']),
        3,
        "bias.factors",
        ["is missing", "[[bias.factors]]"],
    ),
    "wrong factor": (
        run(
            bias=[
                'family = "product"',
                "[[bias.factors]]",
                'family = "strata"',
                "[[bias.factors]]",
                'family = "tlt"',
            ]
        ),
        8,
        "bias.factors[1].family",
        ["Did you mean 'tilt'?"],
    ),
    "setting of a product": (
        run(bias=['family = "product"', "ridge = 1", 'factors = [{ family = "strata" }]']),
        5,
        "bias.ridge",
        ["factors"],
    ),
    "option of another source": (
        run(sources=['folders = { a = "north" }', 'root = "north"']),
        3,
        "sources.root",
        ["folders", "label"],
    ),
    "file names of arrays": (
        run(sources=['arrays = "scans.csv"', 'group = { regex = "(a)" }']),
        3,
        "sources.group",
        ["arrays"],
    ),
    "no labels of a table": (
        run(sources=['manifest = "scans.csv"', "label = false"]),
        3,
        "sources.label",
        ["got false"],
    ),
    "unknown feature": (
        run(represent=['features = ["brightnes", "contrast"]']),
        4,
        "represent.features[0]",
        ["Did you mean 'brightness'?", "module:function"],
    ),
    "unknown feature with settings": (
        run(represent=['features = [{ name = "borderhsv", width = 2 }]']),
        4,
        "represent.features[0].name",
        ["Did you mean 'border_hsv'?"],
    ),
    "unknown setting of a feature": (
        run(represent=['features = ["size", { name = "border_hsv", widht = 2 }]']),
        4,
        "represent.features[1].widht",
        ["Did you mean 'width'?"],
    ),
    "text for a setting of a feature": (
        run(represent=['features = [{ name = "border_hsv", width = "2" }]']),
        4,
        "represent.features[0].width",
        ['got "2" (text)'],
    ),
    "setting of a feature out of range": (
        run(represent=['features = [{ name = "border_hsv", width = 0 }]']),
        4,
        "represent.features[0].width",
        ["1", "got 0"],
    ),
    "feature without a name": (
        run(represent=["features = [{ width = 2 }]"]),
        4,
        "represent.features[0].name",
        ["border_hsv"],
    ),
    "feature twice": (
        run(represent=['features = ["size", "size"]']),
        4,
        "represent.features[1]",
        ["size"],
    ),
    "missing network": (
        run(represent=['features = [{ name = "embedding", model = "net.onnx" }]']),
        4,
        "represent.features[0].model",
        ["net.onnx"],
    ),
    "unknown preset": (
        run(learn=['preset = "quick"']),
        4,
        "learn.preset",
        ['"fast", "finetune", "article" or "probe"', "quick"],
    ),
    "no epochs": (run(learn=["epochs = 0"]), 4, "learn.epochs", ["above 0", "got 0"]),
    "epochs of a probe": (
        run(learn=['preset = "probe"', "epochs = 3"]),
        5,
        "learn.epochs",
        ["probe"],
    ),
    "squares of a probe": (
        run(learn=["size = 64", 'preset = "probe"']),
        4,
        "learn.size",
        ["pixels", "probe"],
    ),
    "penalty of a network": (run(learn=["ridge = 0.1"]), 4, "learn.ridge", ["probe"]),
    "penalty of a network on features": (
        run(learn=['preset = "probe"', 'model = "nets:small"', "epochs = 3", "ridge = 0.1"]),
        7,
        "learn.ridge",
        ["probe"],
    ),
    "all for validation": (
        run(learn=["validation = 1.0"]),
        4,
        "learn.validation",
        ["1.0"],
    ),
    "columns that are no list": (
        run(report=['outcomes = "age"']),
        4,
        "report.outcomes",
        ['got "age" (text)'],
    ),
    "a bias model to be chosen without images of the target": (
        run(bias=['family = "auto"']),
        4,
        "bias.family",
        ["target.sample", "target.source"],
    ),
    "a setting of a bias model that is to be chosen": (
        run(target=['source = "north"'], bias=['family = "auto"', "ridge = 3"]),
        7,
        "bias.ridge",
        ["leave this key out"],
    ),
    "feature that is a number": (
        run(represent=["features = [", '  "mean_hsv",', "  3,", "]"]),
        6,
        "represent.features[1]",
        ["got 3"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_shown_with_its_line_and_key(folder, name):
    text, line, key, pieces = MISTAKES[name]
    error = problems_in(folder, text)
    assert [(each["line"], each["key"]) for each in error.problems] == [(line, key)]
    message = str(error)
    assert message.startswith(f"{folder / 'run.toml'}:{line}: {key}: ")
    for piece in pieces:
        assert piece in message
    # The line itself follows, with carets under the key.
    shown, carets = message.split("\n")[1:3]
    assert shown.startswith(f"  {line} | {text.splitlines()[line - 1][:100]}"[:110])
    assert re.fullmatch(r" +\| *\^+", carets)


def test_missing_sections_are_named_together(folder):
    error = problems_in(folder, "# nothing\n")
    assert [each["key"] for each in error.problems] == ["sources", "bias"]
    assert "folders, manifest, arrays, cifar, huggingface, parquet" in str(error)


def test_all_problems_are_shown_at_once_from_top_to_bottom(folder):
    text = "\n".join(
        [
            "[engine]",
            'jobs = "four"',
            "sed = 1",
            "[bias]",
            'family = "box"',
            "quantile = 2",
            'featurs = ["x"]',
            "[target]",
            'unit = "grop"',
            "[sources]",
            'folders = { north = "nrth", south = "south", east = 3 }',
            "[report]",
            'privacy = "none"',
        ]
    )
    error = problems_in(folder, text)
    assert [(each["line"], each["key"]) for each in error.problems] == [
        (2, "engine.jobs"),
        (3, "engine.sed"),
        (4, "bias.features"),
        (7, "bias.featurs"),
        (8, "target"),
        (9, "target.unit"),
        (11, "sources.folders.north"),
        (11, "sources.folders.east"),
        (13, "report.privacy"),
    ]
    assert str(error).startswith(f"{folder / 'run.toml'}: 9 problems\n\n")
    assert str(error).count("^") > 9


SYNTAX = {
    "no value": ("[sources]\nmanifest =\n", 2, 11, "Invalid value", "quotes"),
    "no quotes": (
        "[sources]\nmanifest = scans.csv\n",
        2,
        12,
        "Invalid value",
        "quotes",
    ),
    "no end of text": ('[sources]\nmanifest = "scans.csv\n', 2, 22, "Illegal character", ""),
    "twice": (
        '[sources]\nmanifest = "a"\nmanifest = "b"\n',
        3,
        15,
        "Cannot overwrite a value",
        "only once",
    ),
    "section twice": ("[sources]\n[sources]\n", 2, 9, "Cannot declare", "only once"),
    "path of Windows": (
        '[sources]\nmanifest = "C:\\data\\scans.csv"\n',
        2,
        17,
        "Unescaped",
        "single quotes",
    ),
    "end of file": ('[sources]\nmanifest = ["a",', 2, 17, "", ""),
    "no closing bracket": ("[sources\nmanifest = 1", 1, 9, "Expected ']'", ""),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_what_is_no_toml_is_shown_with_a_caret(folder, name):
    text, line, column, what, hint = SYNTAX[name]
    message = str(problems_in(folder, text))
    first, shown, carets = message.split("\n")
    assert first.startswith(
        f"{folder / 'run.toml'}:{line}: not valid TOML in column {column}: {what}"
    )
    assert hint in first
    assert shown == f"  {line} | {text.splitlines()[line - 1]}"
    assert carets.index("^") - shown.index("|") - 2 == column - 1


def test_text_that_is_not_utf_8(folder):
    (folder / "run.toml").write_bytes(b"# a\n# caf\xe9\n")
    with refused(ConfigError, path=str(folder / "run.toml"), line=2):
        read_config(folder / "run.toml")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a=", "}")])
def test_text_nested_too_deep(folder, opening, closing):
    depth = 20_000
    with pytest.raises(ConfigError):
        read_config(save(folder, f"x = {opening * depth}1{closing * depth}"))


def test_a_configuration_that_is_not_there(folder):
    save(folder, MINIMAL)
    with pytest.raises(
        ConfigError, match=r"no configuration .*runn\.toml.* Did you mean 'run\.toml'"
    ):
        read_config(folder / "runn.toml")
    with refused(ConfigError, path=str(folder / "nowhere" / "run.toml")):
        read_config(folder / "nowhere" / "run.toml")
    with refused(ConfigError, path=str(folder)):
        read_config(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_configuration_that_may_not_be_read(folder):
    path = save(folder, MINIMAL)
    path.chmod(0)
    with refused(ConfigError, path=str(path)):
        read_config(path)


def test_settings_that_are_not_in_a_file_have_no_lines(folder):
    with pytest.raises(
        ConfigError, match=r"^sources\.manifst: there is no such key.*Did you mean"
    ) as raised:
        make_config(
            {"sources": {"manifest": "scans.csv", "manifst": 1}, "bias": {"family": "strata"}},
            folder,
        )
    assert raised.value.problems[0]["line"] is None


def test_nothing_in_a_message_moves_the_cursor_of_a_terminal(folder):
    text = run(
        sources=[
            'manifest = "scans.csv"',
            '"\\u001b[2J" = 1',
            "x = '\t\x1b'".replace("\x1b", "\u202e"),
        ]
    )
    message = str(problems_in(folder, text))
    assert all(each.isprintable() or each == "\n" for each in message)


def test_a_long_line_is_shown_around_its_key(folder):
    text = run(
        sources=[
            "folders = { "
            + ", ".join(f's{number} = "north"' for number in range(200))
            + ", last = 3 }"
        ]
    )
    message = str(problems_in(folder, text))
    shown, carets = message.split("\n")[1:3]
    assert len(shown) < 130
    assert shown[carets.index("^") :].startswith("last")


def test_a_fault_inside_a_table_of_the_target_waits_until_it_is_read(folder):
    """The settings are right; it is the data that are not."""
    for content in (b"label,many\nfox,3\n", b"", b"a,b\n\xff\xfe,1\n"):
        (folder / "survey.csv").write_bytes(content)
        config = read_config(save(folder, run(target=['margins.label = "survey.csv"'])))
        with pytest.raises(DataError, match=r"survey\.csv"):
            config.read_target()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["label", "strata", "product", "scans.csv"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "file", "n", "by", "rows", "mass", "regex", "family"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


KEYS = [
    "manifest",
    "folders",
    "group",
    "label",
    "uniform",
    "margins",
    "table",
    "sample",
    "bins",
    "outside",
    "unit",
    "family",
    "by",
    "factors",
    "features",
]


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "sources",
                "represent",
                "target",
                "bias",
                "solve",
                "learn",
                "report",
                "engine",
                "folder",
                "other",
            ]
        ),
        VALUES | st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
        max_size=5,
    )
)
def test_any_settings_are_read_or_are_a_configuration_error(tmp_path_factory, settings):
    folder = tmp_path_factory.getbasetemp()
    try:
        make_config(settings, folder)
    except ConfigError as error:
        assert error.problems  # noqa: PT017  (the error is one of two right outcomes)


def test_what_a_missing_key_expects_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table_run(tmp_path)
    table.write_text(TABLE_SOURCES + '\n[bias]\nfamily = "known"\n')
    assert run_command(["check", str(table)]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert "{source: column | function | number}" in first
    assert "``" not in first
    assert len(first) < 250


def test_thousands_of_mistakes_take_no_longer_than_a_hundred(folder):
    """A line of 3,000 mistakes took minutes; a number of 5,000 digits was a bug."""
    features = "[" + '"sharpnes", ' * 3000 + "]"
    error = problems_in(folder, run(represent=[f"features = {features}"]))
    assert len(error.problems) == 100
    assert "100 problems or more" in str(error)
    assert "5000 digits" in str(problems_in(folder, run(engine=["seed = " + "9" * 5000])))
