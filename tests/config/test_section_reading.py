"""Several targets, [targets.NAME]: read, written and refused with line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from config_files import fill_folder, save
from raising import refused
from unskew import ConfigError, InvalidConfigError
from unskew.config.run_config import read_config, resolved, write_config

SOURCES = '[sources]\nmanifest = "scans.csv"\n'
BIAS = '[bias]\nfamily = "strata"\n'
CITY = '[targets.city]\nuniform = "label"\n'
FARM = '[targets.farm]\nmargins.label = { file = "survey.csv", n = 400 }\nuncovered = "restrict"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill_folder(tmp_path)


def test_targets_keep_their_order_and_are_read_back_from_what_is_written(folder: Path) -> None:
    config = read_config(save(folder, SOURCES + FARM + CITY + BIAS))
    assert list(config.targets) == ["farm", "city"]
    assert config.target is None
    assert config.inputs["targets.farm.margins.label.file"] == folder.resolve() / "survey.csv"
    write_config(config, folder / "again.toml")
    assert "[targets.farm]" in (folder / "again.toml").read_text()
    again = read_config(folder / "again.toml")
    assert resolved(again) == resolved(config)
    assert list(again.targets) == ["farm", "city"]


def test_one_of_the_targets_alone_is_the_plain_configuration(folder: Path) -> None:
    several = read_config(save(folder, SOURCES + CITY + FARM + BIAS))
    for name, table in {"city": CITY, "farm": FARM}.items():
        plain = read_config(
            save(folder, SOURCES + table.replace(f"targets.{name}", "target") + BIAS)
        )
        assert resolved(several.for_target(name)) == resolved(plain)
        assert several.for_target(name).read_target() == plain.read_target()
    assert several.for_target() == several.for_target("city")
    assert plain.for_target() is plain
    with refused(ConfigError, allowed=["city", "farm"], value="frm"):
        several.for_target("frm")
    with refused(ConfigError, value="city"):
        plain.for_target("city")


@pytest.mark.parametrize(
    ("tables", "line", "key"),
    [
        (CITY + '[target]\nuniform = "label"\n', 3, "targets"),
        ('[targets]\nuniform = "label"\n', 4, "targets.uniform"),
        ("targets = 3\n", None, "targets"),
        ("[targets]\n", 3, "targets"),
        (CITY + '[targets.farm]\nunifrm = "label"\n', 5, "targets.farm"),
        (CITY + '[targets.farm]\nuniform = "label"\nholdout = 0.5\n', 7, "targets.farm.holdout"),
        (CITY + "[targets.farm]\nuniform = 3\n", 6, "targets.farm.uniform"),
        (CITY + '[targets.farm]\nsample = "nowhere"\n', 6, "targets.farm.sample"),
        (
            CITY + "[targets.farm]\nmargins.label = { fox = 0.3, hare = 0.3 }\n",
            6,
            "targets.farm.margins.label",
        ),
        (CITY + '[targets."../out"]\nuniform = "label"\n', 5, 'targets."../out"'),
        (CITY + '[targets."a b"]\nuniform = "label"\n', 5, 'targets."a b"'),
        (CITY + '[targets.City]\nuniform = "label"\n', 5, "targets.City"),
    ],
)
def test_a_mistake_in_a_target_is_shown_with_its_line_and_key(
    folder: Path, tables: str, line: int | None, key: str
) -> None:
    text = SOURCES + tables + BIAS if line is not None else tables + SOURCES + BIAS
    with pytest.raises(InvalidConfigError) as caught:
        read_config(save(folder, text))
    found = [(problem["line"], problem["key"]) for problem in caught.value.problems]
    assert (line or 1, key) in found
