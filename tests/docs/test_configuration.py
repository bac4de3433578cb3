"""docs/configuration.md and the schema agree: every key, what it takes, its default and its
meaning.
"""

import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from config_files import fill_folder, save
from run_data import CAMERA_TRAPS
from unskew import ConfigError
from unskew.bias.schema import families
from unskew.config.families import _hints, parameter_words, toml_type, type_words
from unskew.config.run_config import make_config, read_config
from unskew.config.sections import SECTIONS, SOURCE_KINDS, TARGET_KINDS
from unskew.config.toml_text import toml_value
from unskew.represent.user_functions import REPRESENTATIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(
    encoding="utf-8"
)


def row(key, takes, default, meaning):
    shown = "–" if default is None else f"`{toml_value(default)}`"
    return f"| `{key}` | {takes} | {shown} | {meaning} |"


def _sentence(words):
    """As Markdown within a table, beginning with a capital letter unless that letter is a
    symbol.
    """
    text = words.replace("``", "`").replace(" | ", " or ")
    return text[0].upper() + text[1:] if text[0].isascii() else text


def rows_of_section(name):
    return [
        row(key, field.title, field.default, field.description)
        for key, field in SECTIONS[name].model_fields.items()
    ]


def rows_of_family(name):
    model, words = families()[name], parameter_words(families()[name])
    rows = []
    for field in fields(model):
        takes = type_words(toml_type(_hints(model).get(field.name)))
        default = None if field.default is MISSING else field.default
        rows.append(
            row(
                field.name,
                takes + (" (needed)" if field.default is MISSING else ""),
                default,
                _sentence(words[field.name]),
            )
        )
    return rows


def part(heading):
    """The text below a heading, up to the next."""
    return re.split(r"\n##+ ", PAGE.split(f"{heading}\n", 1)[1])[0]


@pytest.mark.parametrize("name", list(SECTIONS))
def test_the_page_has_every_key_of_a_section(name):
    assert re.findall(r"^\| `.*", part(f"## [{name}]"), re.MULTILINE) == rows_of_section(name)


@pytest.mark.parametrize("name", [name for name in families() if name != "product"])
def test_the_page_has_every_setting_of_a_family(name):
    assert re.findall(r"^\| `.*", part(f"### {name}"), re.MULTILINE) == rows_of_family(name)


def test_the_page_says_what_goes_with_what():
    for kinds in (SOURCE_KINDS, TARGET_KINDS):
        for kind, keys in kinds.items():
            listed = re.search(rf"^- With `{kind}`: (.*)\.$", PAGE, re.MULTILINE)
            assert re.findall(r"`(\w+)`", listed[1]) == list(keys)


def test_the_page_names_every_representation():
    assert not [name for name in REPRESENTATIONS if f"`{name}`" not in part("## [represent]")]


@pytest.mark.parametrize("text", re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
def test_the_examples_of_the_page_are_valid(tmp_path, text):
    """Parts of a configuration are completed with the rest of one."""
    fill_folder(tmp_path)
    rest = {"sources": {"manifest": "scans.csv"}, "bias": {"family": "strata"}}
    make_config(rest | tomllib.loads(text), tmp_path, check_paths=False)


def test_the_error_that_the_page_shows_is_the_one_that_comes(tmp_path, monkeypatch):
    fill_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    save(tmp_path, CAMERA_TRAPS.replace("source =", "sorce =").replace("survey.csv", "surveys.csv"))
    with pytest.raises(ConfigError) as raised:
        read_config("run.toml")
    shown = re.search(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    assert shown.strip() == re.sub(r"'/[^']*'", "'…'", str(raised.value))
