"""The way through the page "Start": its commands and training code run in order, and print what the
page shows.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from unskew.cli.app import run_command
from unskew.simulation import digits as demo

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall(PAGE)


def _words(text: str) -> str:
    """Text without its line ends, whose place depends on the width of the terminal."""
    return " ".join(text.split())


def _assert_shown(expected: str, printed: str) -> None:
    """Assert that the parts between the lines "…" are printed, in this order."""
    rest = _words(printed)
    for part in filter(None, map(_words, re.split(r"^…$", expected, flags=re.MULTILINE))):
        assert part in rest
        rest = rest.partition(part)[2]


def _run(line: str, capsys: pytest.CaptureFixture[str], *, code: int = 0) -> str:
    capsys.readouterr()
    assert run_command(shlex.split(line.removeprefix("$ "))[1:]) == code
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _shown_by_the_demo() -> list[str]:
    """The page cuts the demo's output into four blocks; the last is the table."""
    start = next(at for at, (_, text) in enumerate(BLOCKS) if text.startswith("$ unskew demo"))
    return [
        BLOCKS[start][1].partition("\n")[2],
        *[text for _, text in BLOCKS[start + 1 : start + 4]],
    ]


def test_the_way_from_folders_to_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command, the edited configuration and the training code, in the order of the page; the
    demo's folders are its images.
    """
    demo.prepare_demo(Path("unskew-demo"))
    scope: dict[str, object] = {}
    done = []
    for kind, text in BLOCKS:
        command, _, expected = text.partition("\n")
        if kind == "console" and command != "$ unskew demo":
            _assert_shown(expected, _run(command, capsys))
            done.append(command.split()[2])
        elif kind == "toml":
            Path("digits.toml").write_text(text, encoding="utf-8")
        elif kind == "text":
            alone = [
                line
                for line in Path("digits.toml").read_text(encoding="utf-8").splitlines()
                if not line.startswith(("folders.c", "folders.s"))
            ]
            Path("alone.toml").write_text("\n".join(alone), encoding="utf-8")
            _assert_shown(text, _run("unskew check alone.toml", capsys, code=3))
        elif kind == "py":
            if "import torch" in text:
                pytest.importorskip("torch")
            # The matrices are so small that threads mostly wait for one another.
            with threadpool_limits(1):
                exec(text, scope)
    assert done == ["init", "check", "weigh", "verify"]
    assert list(scope["weights"]["id"]) != list(scope["mine"]["id"])


def test_the_demo_prints_what_the_page_shows_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the table of scores, which takes longer."""
    nothing = demo.Score(0.0, 0.0, 0.0)
    monkeypatch.setattr(
        demo,
        "compare_learners",
        lambda seed: dict.fromkeys(("naive", "debiased", "oracle", "unbiased"), nothing),
    )
    monkeypatch.setattr(demo, "forecast_trial", lambda seed: (0.0, 0.0))
    printed = _run("unskew demo", capsys)
    for expected in _shown_by_the_demo()[:-1]:
        _assert_shown(expected, printed)


@pytest.mark.slow
def test_the_demo_s_table_is_that_of_the_page_and_of_the_readme() -> None:
    """To the digits shown: the seeds are fixed, and rounding hides what the machine's arithmetic
    changes.
    """
    table = demo.describe_scores(
        *(
            [measure(seed) for seed in demo.SEEDS]
            for measure in (demo.compare_learners, demo.forecast_trial)
        )
    )
    for text in (_shown_by_the_demo()[-1], (ROOT / "README.md").read_text(encoding="utf-8")):
        _assert_shown("\n".join(table), text)
