"""The configuration that `unskew init` writes is ready to run, whatever was found and its names."""

import re
import tomllib
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from unskew import Pool, debias
from unskew.config.run_config import make_config, read_config
from unskew.config.starter_file import starting_config
from unskew.records.pool import Images
from unskew.sources.readers import read_sources

MANIFEST = {"manifest": "all.csv", "source": "site"}
RNG = np.random.default_rng(0)


class NoImages(Images):
    """Pixels that nobody should ask for: a starting configuration is made from the table alone."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def read(self, row):
        raise AssertionError("init opens no image")

    def take(self, rows):
        return NoImages(len(rows))


def with_pixels(pool):
    return Pool(pool.frame, NoImages(len(pool)))


def lists(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


SITES = ["north"] * 12 + ["south"] * 8
COLOURS = {
    "brightness": RNG.uniform(size=20),
    "contrast": RNG.uniform(size=20),
    "sharpness": RNG.uniform(size=20),
}
CASES = {
    "classes": Pool.from_arrays(SITES, ["cat", "dog"] * 10),
    "classes of one source only": Pool.from_arrays(SITES, ["cat"] * 12 + ["dog"] * 8),
    "some without a class": Pool.from_arrays(SITES, ["cat", "dog", None, "dog"] * 5),
    "classes by number": Pool.from_arrays(SITES, [0, 1] * 10),
    "one source": Pool.from_arrays(["north"] * 20, ["cat", "dog"] * 10),
    "splits and groups": Pool.from_arrays(
        SITES,
        ["cat", "dog"] * 10,
        split=["train", "train", "test", "test"] * 5,
        group=list(range(10)) * 2,
    ),
    "class only in test": Pool.from_arrays(
        SITES, ["cat", "dog"] * 8 + ["emu"] * 4, split=["train"] * 10 + ["test"] * 10
    ),
    "no classes": Pool.from_arrays(SITES),
    "one class": Pool.from_arrays(SITES, ["cat"] * 20),
    "several classes each": Pool.from_arrays(SITES, lists([["cat", "dog"], ["dog"]] * 10)),
    "captions": Pool.from_arrays(SITES, [f"a photo of {at}" for at in range(20)]),
    "measurements": Pool.from_arrays(SITES, np.linspace(0, 1, 20)),
    "attribute": Pool.from_arrays(SITES, sex=["f", "m"] * 10, age=np.arange(20.0)),
    "attribute with gaps": Pool.from_arrays(SITES, sex=["f", "m", None, "m"] * 5),
    "numbers": Pool.from_arrays(SITES, age=np.arange(20.0), gaps=[np.nan] * 20, same=np.ones(20)),
    "nothing known": Pool.from_arrays(SITES),
}
PIXELS = (
    "classes",
    "some without a class",
    "no classes",
    "one class",
    "several classes each",
    "captions",
    "measurements",
    "splits and groups",
)


def run_unchanged(pool, text):
    """What `unskew weigh` does after the sources are read, the features being made up."""
    config = make_config(tomllib.loads(text), check_paths=False)
    if config.represent.features:
        pool = Pool(pool.frame).with_columns(
            {name: RNG.uniform(size=len(pool)) for name in config.represent.features}
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weights = debias(pool, config.read_bias(), config.read_target())
    assert weights.weight.sum() == pytest.approx(1)
    return config, weights


@pytest.mark.parametrize("name", CASES)
def test_it_runs_unchanged(name):
    text = starting_config(CASES[name], MANIFEST)
    config, _ = run_unchanged(CASES[name], text)
    assert config.sources.settings() | MANIFEST == config.sources.settings()


@pytest.mark.parametrize("name", PIXELS)
def test_it_runs_with_pixels(name):
    pool = with_pixels(CASES[name])
    config, _ = run_unchanged(
        pool, starting_config(pool, {"folders": {"north": "n", "south": "s"}})
    )
    assert config.represent.features


def test_with_classes_they_become_equally_frequent():
    _, weights = run_unchanged(
        CASES["classes of one source only"],
        starting_config(CASES["classes of one source only"], MANIFEST),
    )
    np.testing.assert_allclose(weights.weight, [0.5 / 12] * 12 + [0.5 / 8] * 8)


def test_without_classes_the_others_resemble_the_largest_source():
    pool = with_pixels(CASES["no classes"])
    config = make_config(tomllib.loads(starting_config(pool, MANIFEST)), check_paths=False)
    assert (config.target.source, config.bias["family"]) == ("north", "tilt")
    assert config.bias["features"] == config.represent.features


def test_with_splits_the_largest_source_is_that_of_train():
    pool = Pool.from_arrays(
        ["a"] * 12 + ["b"] * 8, split=["test"] * 11 + ["train"] * 9, age=np.arange(20.0)
    )
    assert tomllib.loads(starting_config(pool, MANIFEST))["target"] == {
        "source": "b",
        "guessed": True,
    }


def test_missing_classes_keep_their_share():
    assert tomllib.loads(starting_config(CASES["some without a class"], MANIFEST))["target"][
        "missing"
    ] == {"label": "keep"}


def test_nothing_known_means_equal_weights_and_no_target():
    text = starting_config(CASES["nothing known"], MANIFEST)
    assert "target" not in tomllib.loads(text)
    _, weights = run_unchanged(CASES["nothing known"], text)
    np.testing.assert_allclose(weights.weight, 1 / 20)


@pytest.mark.parametrize("name", CASES)
def test_it_says_that_the_target_is_a_placeholder_and_what_was_found(name):
    text = starting_config(CASES[name], MANIFEST)
    found = tomllib.loads(text)
    assert ("THIS IS A PLACEHOLDER" in text) == ("target" in found)
    assert "20 images from" in text
    assert "unskew weigh run.toml" in text


@pytest.mark.parametrize("pixels", [False, True])
@pytest.mark.parametrize("name", PIXELS)
def test_every_alternative_is_valid_when_its_comment_sign_is_taken_away(name, pixels):
    """In its section it takes the place of the same key, or of the other kind of target, or of the
    other family.
    """
    pool = with_pixels(CASES[name]) if pixels else CASES[name]
    text = starting_config(pool, {"folders": {"north": "n", "south": "s"}})
    section, alternatives = "", []
    for line in text.splitlines():
        if line.startswith(("[", "#[")):
            section = line.strip("#[]")
        elif re.match(r"#\S", line):
            alternatives.append((section, tomllib.loads(line[1:])))
    assert len(alternatives) >= 5
    families = [at for at, (_, other) in enumerate(alternatives) if "family" in other]
    for at in families:  # the lines of a family belong together
        alternatives[at][1].update(alternatives[at + 1][1])
    for at, (section, other) in enumerate(alternatives):
        settings = tomllib.loads(text)
        kept = dict(settings.get(section, {}))
        if section == "target":
            kept = {}
        if "family" in other:
            kept = {"features": kept["features"]} if other["family"] == "soft_box" else {}
        if at - 1 in families:
            continue
        make_config(settings | {section: kept | other}, check_paths=False)


def test_a_table_that_is_one_source_offers_its_columns_as_source_and_label():
    frame = pd.DataFrame(
        {"source": "all", "kind": ["cat", "dog"] * 10, "site": ["a", "a", "b", "b"] * 5}
    )
    text = starting_config(Pool.from_frame(frame), {"manifest": {"all": "images.csv"}})
    sources, rest = text.split("\n[target]")
    offered = re.findall(r"^#(manifest|source|label) = (\S+)", sources, re.MULTILINE)
    assert offered == [("manifest", '"images.csv"'), ("source", '"site"'), ("label", '"kind"')]
    taken = re.sub("^#(manifest|source|label) =", r"\1 =", sources, flags=re.MULTILINE)
    settings = tomllib.loads(taken.replace("manifest.all", "#") + "\n[target]" + rest)
    assert make_config(settings, check_paths=False).sources is not None
    assert "#label" not in starting_config(Pool.from_frame(frame), {"folders": {"all": "a"}})


def test_the_commands_in_it_name_its_file():
    for name in ("run.toml", "three sites.toml", "a\nb = 1\n.toml"):
        text = starting_config(CASES["classes"], MANIFEST, name=name)
        assert tomllib.loads(text) == tomllib.loads(starting_config(CASES["classes"], MANIFEST))
    assert '#     unskew check "three sites.toml" ' in starting_config(
        CASES["classes"], MANIFEST, name="three sites.toml"
    )


def test_unusable_images_are_counted():
    aside = pd.DataFrame(
        {"id": ["x"], "source": ["north"], "path": ["x.jpg"], "reason": ["the file is empty"]}
    )
    text = starting_config(Pool(CASES["classes"].frame, set_aside=aside), MANIFEST)
    assert "# 1 more cannot be used" in text
    assert "#tolerance = 0.05" in text


def test_comments_are_prose_or_alternatives():
    for pool in CASES.values():
        for line in starting_config(with_pixels(pool), MANIFEST).splitlines():
            assert len(line) <= 140
            if line.startswith("#"):
                assert line.startswith("# ") or re.match(r"#[\w\[][^ ]* ?=|#\[target\]", line)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@hypothesis_settings(max_examples=30)
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.lists(NAMES, min_size=2, max_size=4, unique=True),
    NAMES,
    st.booleans(),
)
def test_any_names_of_sources_classes_and_files_survive(sources, classes, file, pixels):
    pool = Pool.from_frame(
        pd.DataFrame(
            [(source, label) for source in sources for label in classes],
            columns=["source", "label"],
        )
        .loc[lambda rows: rows.index.repeat(2)]
        .reset_index(drop=True)
    )
    pool = with_pixels(pool) if pixels else pool
    settings = {
        "folders": {source: f"{file}/{source}" for source in sources},
        "group": {"regex": r"^(\d+)"},
    }
    text = starting_config(pool, settings)
    assert tomllib.loads(text)["sources"] == settings
    assert list(tomllib.loads(text)["sources"]["folders"]) == sources
    run_unchanged(pool, text)
    listed = [
        tomllib.loads(line[1:])["margins"]["label"]
        for line in text.splitlines()
        if line.startswith("#margins.label = ")
    ]
    assert listed[0] == dict.fromkeys(classes, 2 * len(sources))


@hypothesis_settings(max_examples=20)
@given(
    NAMES.filter(
        lambda name: name not in ("id", "source", "label", "group", "split", "path", "content")
    ),
    st.lists(NAMES, min_size=2, max_size=3, unique=True),
)
def test_any_names_of_attributes_survive(attribute, levels):
    pool = Pool.from_frame(
        pd.DataFrame({"source": ["a", "b"] * len(levels) * 2, attribute: levels * 4})
    )
    text = starting_config(pool, MANIFEST)
    assert tomllib.loads(text)["target"]["uniform"] == attribute
    run_unchanged(pool, text)


def test_folders_of_images_are_found_again(tmp_path):
    """From the folders themselves: the configuration reads, and gives the same pool."""
    from PIL import Image

    for source in ("north", 'so"uth'):
        for label in ("cat", "dog's"):
            (tmp_path / source / label).mkdir(parents=True)
            for at in range(3):
                Image.new("RGB", (4, 4), (at, 0, 0)).save(tmp_path / source / label / f"{at}.png")
    settings = {"folders": {"north": "north", 'so"uth': 'so"uth'}}
    pool = read_sources(settings, tmp_path)
    (tmp_path / "run.toml").write_text(starting_config(pool, settings), encoding="utf-8")
    config = read_config(tmp_path / "run.toml")
    pd.testing.assert_frame_equal(
        read_sources(config.sources.settings(), config.folder).frame, pool.frame
    )
    weights = debias(pool, config.read_bias(), config.read_target())
    np.testing.assert_allclose(weights.weight, 1 / 12)
