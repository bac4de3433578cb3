"""Configurations: read, filled in with defaults, written again, and the same when read back."""

import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from config_files import MINIMAL, fill_folder, save
from raising import refused
from run_data import CAMERA_TRAPS, HOSPITALS, PRODUCT_PHOTOS
from unskew import ConfigError, CoverageError, bias
from unskew.config.run_config import (
    make_config,
    read_config,
    resolved,
    write_config,
)

CONFIGURATIONS = {
    "camera-traps": CAMERA_TRAPS,
    "hospitals": HOSPITALS,
    "product-photos": PRODUCT_PHOTOS,
}


@pytest.fixture
def folder(tmp_path):
    return fill_folder(tmp_path)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_three_configurations_of_the_design_are_read(folder, name):
    text = CONFIGURATIONS[name]
    config = read_config(save(folder, text))
    written = tomllib.loads(text)
    filled = resolved(config)
    for section, settings in written.items():
        for key, value in settings.items():
            assert filled[section][key] == value
    assert config.folder == folder.resolve()
    assert config.read_target().kind in written["target"]
    assert config.read_bias().family == written["bias"]["family"]
    assert all(place.exists() for place in config.inputs.values())


def test_what_the_three_configurations_name(folder):
    read = {
        name: read_config(save(folder, CONFIGURATIONS[name]))
        for name in ("camera-traps", "product-photos")
    }
    assert list(read["camera-traps"].inputs) == ["sources.manifest", "target.margins.label.file"]
    assert list(read["product-photos"].inputs) == [
        *(f"sources.folders.{name}" for name in ("north", "south", "east", "west")),
        "target.sample",
    ]
    assert read["product-photos"].inputs["target.sample"] == folder.resolve() / "phones/"


def test_defaults_are_filled_in(folder):
    config = read_config(save(folder, MINIMAL))
    assert resolved(config) == {
        "sources": {
            "manifest": "scans.csv",
            "images": True,
            "allow_outside": False,
            "tolerance": 0.01,
            "max_pixels": 100_000_000,
        },
        "represent": {"features": [], "cache": ".unskew-cache"},
        "bias": {"family": "strata"},
        "solve": {"method": "newton", "tol": 1e-10, "max_uncovered": 0.2},
        "report": {"privacy": "full", "thumbnails": True, "outcomes": [], "forecast": False},
        "engine": {"seed": 0},
    }
    assert config.target is None
    assert config.read_target() is None
    assert config.cache == folder.resolve() / ".unskew-cache"


def test_defaults_of_a_target_are_those_of_its_kind(folder):
    masses = read_config(save(folder, MINIMAL + '[target]\nuniform = "label"'))
    sample = read_config(save(folder, MINIMAL + '[target]\nsample = "phones"'))
    assert resolved(masses)["target"] == {"uniform": "label", "unit": "image", "uncovered": "error"}
    assert resolved(sample)["target"] == {"sample": "phones", "holdout": 0.0}


def test_defaults_of_a_bias_model_are_those_of_its_family(folder):
    config = read_config(
        save(folder, MINIMAL.replace('"strata"', '"propensity"\nfeatures = ["mean_hsv"]'))
    )
    assert config.bias == {
        "family": "propensity",
        "features": ["mean_hsv"],
        "classifier": "logistic",
        "folds": 5,
        "floor": 1e-6,
    }
    assert config.read_bias() == bias.Propensity(["mean_hsv"])


PRODUCT = """
[sources]
manifest = "scans.csv"

[bias]
family = "product"

[[bias.factors]]
family = "strata"
by = ["label"]

[[bias.factors]]
family = "tilt"
features = ["brightness"]
reference = "phone"
ridge = 1
"""


def test_a_product_has_a_section_for_each_factor(folder):
    config = read_config(save(folder, PRODUCT))
    assert config.read_bias() == bias.Product(
        bias.Strata(["label"]), bias.Tilt(["brightness"], reference="phone", ridge=1.0)
    )
    assert config.bias["factors"][1]["degree"] == 1
    write_config(config, folder / "again.toml")
    assert read_config(folder / "again.toml") == config


@pytest.mark.parametrize(
    "features",
    [
        ["mean_hsv"],
        [{"name": "border_hsv", "width": 4}],
        ["my_module:redness", {"name": "embedding", "components": 8, "model": "south/net.onnx"}],
    ],
)
def test_features_with_settings(folder, features):
    (folder / "south" / "net.onnx").write_bytes(b"")
    config = make_config(
        {
            "sources": {"manifest": "scans.csv"},
            "represent": {"features": features},
            "bias": {"family": "strata"},
        },
        folder,
    )
    assert config.represent.features == features
    write_config(config, folder / "again.toml")
    assert read_config(folder / "again.toml", allow_code=["net.onnx"]) == config


def test_the_network_of_an_embedding_is_where_the_configuration_says(folder):
    (folder / "net.onnx").write_bytes(b"")
    features = [
        "size",
        {"name": "embedding", "model": "net.onnx"},
        {"name": "embedding", "model": "networks:small"},
    ]
    config = make_config(
        {
            "sources": {"manifest": "scans.csv"},
            "represent": {"features": features[:2]},
            "bias": {"family": "strata"},
        },
        folder,
    )
    assert config.features() == [
        "size",
        {"name": "embedding", "model": str(folder.resolve() / "net.onnx")},
    ]
    assert config.represent.features == features[:2]
    assert config.inputs["represent.features[1].model"] == folder.resolve() / "net.onnx"
    config = make_config(
        {
            "sources": {"manifest": "scans.csv"},
            "represent": {"features": features[2:]},
            "bias": {"family": "strata"},
        },
        folder,
    )
    assert config.features() == features[2:]


def test_the_cache_can_be_switched_off(folder):
    config = read_config(save(folder, MINIMAL + "[represent]\ncache = false"))
    assert config.cache is None
    write_config(config, folder / "again.toml")
    assert read_config(folder / "again.toml").cache is None


def test_an_empty_section_for_training_is_accepted(folder):
    assert read_config(save(folder, MINIMAL + "[learn]")) == read_config(save(folder, MINIMAL))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_is_written_reads_back_the_same_from_any_folder(folder, name):
    config = read_config(save(folder, CONFIGURATIONS[name]))
    for out in (folder, folder / "out", folder / "results" / "deep" / "er"):
        out.mkdir(parents=True, exist_ok=True)
        write_config(config, out / "run.toml")
        first = (out / "run.toml").read_bytes()
        again = read_config(out / "run.toml")
        assert again == config
        assert resolved(again) == resolved(config)
        write_config(again, out / "run.toml")
        assert (out / "run.toml").read_bytes() == first
        assert str(folder).encode() not in first
        assert not list(out.glob("*.part"))


def test_results_and_data_may_be_moved_together(tmp_path):
    (tmp_path / "here").mkdir()
    data = fill_folder(tmp_path / "here")
    (data / "out").mkdir()
    write_config(read_config(save(data, MINIMAL)), data / "out" / "run.toml")
    (tmp_path / "here").rename(tmp_path / "there")
    moved = read_config(tmp_path / "there" / "out" / "run.toml")
    assert moved.inputs == {"sources.manifest": (tmp_path / "there" / "scans.csv").resolve()}


def test_data_elsewhere_are_found_by_one_line_or_argument(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    alone = save(elsewhere, MINIMAL)
    with pytest.raises(ConfigError, match=r"sources\.manifest"):
        read_config(alone)
    assert read_config(alone, folder=folder) == read_config(
        save(elsewhere, 'folder = ".."\n' + MINIMAL, "named.toml")
    )
    assert read_config(alone, check_paths=False).sources.manifest == "scans.csv"


def test_a_folder_reached_by_a_link_is_the_folder_of_the_link(folder, tmp_path):
    """``..`` of an output folder that is a link means the parent of where it leads, to us as to the
    system.
    """
    real = tmp_path / "disk" / "results"
    real.mkdir(parents=True)
    (folder / "out").symlink_to(real, target_is_directory=True)
    config = read_config(save(folder, MINIMAL))
    write_config(config, folder / "out" / "run.toml")
    assert read_config(folder / "out" / "run.toml") == config
    assert read_config(real / "run.toml") == config


def test_relative_paths_do_not_depend_on_the_current_folder(folder, monkeypatch):
    save(folder, MINIMAL)
    expected = read_config(folder / "run.toml")
    monkeypatch.chdir(folder)
    assert read_config("run.toml") == expected
    monkeypatch.chdir(folder / "north")
    assert read_config(os.path.join("..", "run.toml")) == expected


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)


@hypothesis_settings(max_examples=40)
@given(
    st.dictionaries(NAMES, NAMES, min_size=1, max_size=3),
    st.dictionaries(
        NAMES,
        st.dictionaries(NAMES, st.integers(1, 9), min_size=1, max_size=3),
        min_size=1,
        max_size=2,
    ),
    st.integers(0, 2**40),
    NAMES,
)
def test_any_names_survive_writing_and_reading(tmp_path_factory, folders, margins, seed, title):
    folder = tmp_path_factory.mktemp("run")
    settings = {
        "sources": {"folders": folders, "tolerance": 0.25},
        "target": {"margins": {name: {"mass": mass, "n": 50} for name, mass in margins.items()}},
        "bias": {"family": "strata", "by": list(margins)},
        "report": {"title": title},
        "engine": {"seed": seed},
    }
    config = make_config(settings, folder, check_paths=False)
    write_config(config, folder / "run.toml")
    again = read_config(folder / "run.toml", check_paths=False)
    assert again == config
    assert resolved(again) == resolved(config)
    assert list(again.sources.folders) == list(folders)


def test_nothing_changes_after_reading(folder):
    config = read_config(save(folder, MINIMAL))
    with pytest.raises(ValueError, match="frozen"):
        config.sources.images = False
    with pytest.raises(ValueError, match="frozen"):
        config.bias = {}


def test_the_byte_order_mark_and_line_ends_of_windows_are_read(folder):
    (folder / "windows.toml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert read_config(folder / "windows.toml") == read_config(save(folder, MINIMAL))


def test_settings_that_were_changed_afterwards_make_another_model(folder):
    config = read_config(save(folder, MINIMAL.replace('"strata"', '"strata"\nby = ["label"]')))
    assert config.read_bias() is config.read_bias()
    config.bias["by"] = ["light"]
    assert config.read_bias().by == ("light",)


def test_a_target_is_made_once_and_again_where_its_file_has_changed(folder):
    text = MINIMAL + '\n[target]\nmargins.label = { file = "survey.csv" }\n'
    config = read_config(save(folder, text))
    assert config.read_target() is config.read_target()
    before = config.read_target()
    (folder / "survey.csv").write_text("label,count\nfox,6\nhare,2\n")
    os.utime(folder / "survey.csv", ns=(1, 1))
    assert config.read_target() != before


def test_scores_that_say_nothing_are_no_mistake_of_the_configuration(folder):
    """The files are inputs of the run; what they cannot tell is refused when they are read."""
    for name, header, row in (("t", "a,b", "0.5,0.5"), ("v", "a,b,label", "0.5,0.5,{}")):
        rows = [row.format("ab"[at % 2]) for at in range(40)]
        (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    files = 'target_scores = "t.csv"\nvalidation_scores = "{}"\n'
    settings = MINIMAL + "\n[target.predictions]\n" + files
    config = read_config(save(folder, settings.format("v.csv")))
    assert {"target.predictions.target_scores", "target.predictions.validation_scores"} <= set(
        config.inputs
    )
    with refused(CoverageError, limit=0.25):
        config.read_target()
    with pytest.raises(ConfigError, match=r"target\.predictions\.validation_scores"):
        read_config(save(folder, settings.format("w.csv")))
