"""Queries: what pandas computes for the same text, and nothing but that."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew.bias import Subpopulation
from unskew.bias.queries import parse_query
from unskew.cli.app import run_command
from unskew.errors import ConfigError

FRAME = pd.DataFrame(
    {
        "hour": [1.0, 22.5, 13.0, 7.0],
        "n": [1, 2, 3, 4],
        "big": [2**53, 2**53 + 1, 2**53 + 2, 0],
        "label": ["cat", "dog", "c.t", "wolf & co"],
        "kind": pd.Categorical(["x", "y", "x", "z"]),
        "open": [True, False, True, False],
        "odd name": [5, 6, 7, 8],
        "when": pd.to_datetime(["2020-01-01", "2021-06-01", "2022-01-01", "2023-01-01"]),
        "abs": [-1, 1, -2, 2],
    }
)


@pytest.mark.parametrize(
    "query",
    [
        "hour < 6 or hour > 20",
        "hour<6|hour>20",
        "hour > 6 & n < 4",
        "not (hour > 6) and ~open",
        "6 < hour <= 13",
        "label in ['cat', 'dog']",
        "label not in ('cat', 'wolf & co')",
        "label == ['cat', 'dog']",
        "label != ['cat', 'dog']",
        "label == 'wolf & co'",
        "kind == 'x' and open",
        "`odd name` * 2 - 1 > n ** 2",
        "n % 2 == 0 and n // 2 >= 1",
        "-n < -2",
        "big == 9007199254740993",
        "label.isin(['cat'])",
        "hour.between(7, 13)",
        "hour.between(7, 13, inclusive='neither')",
        "hour.notna() and not label.isna()",
        "label.str.contains('c.t')",
        "label.str.contains('c.t', regex=False)",
        "label.str.contains('C', case=False)",
        "label.str.startswith('c') or label.str.endswith('g')",
        "label.str.upper() == 'CAT'",
        "label.str.len() > 3",
        "when > '2021-12-31'",
        "when.dt.year == 2021",
        "abs > 1",
        "hour > 1e400",
    ],
)
def test_a_query_selects_what_pandas_selects(query: str) -> None:
    selected = parse_query(query).select(FRAME)
    np.testing.assert_array_equal(
        np.asarray(selected), np.asarray(FRAME.eval(query, engine="python"))
    )


def test_functions_and_lines() -> None:
    near = parse_query("abs(abs) > 1\n  and\tsqrt(n) < 2").select(FRAME)
    assert near.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("label.to_pickle('trap')", "to_pickle"),
        ("label.to_csv('trap').isna()", "to_csv"),
        ("label.str.to_csv('trap')", "to_csv"),
        ("label.values.tofile('trap')", "tofile"),
        ("label.map('{0}'.format)", "map"),
        ("label.__class__ == 'x'", "__class__"),
        ("__import__('os').system('touch trap')", "system"),
        ("open('trap', 'w')", "open"),
        ("abs(n, hour)", "abs"),
        ("label.isin(label.tolist())", "tolist"),
        ("n.abs(out=hour)", "abs"),
        ("label.str.contains('a', flags=2)", "contains"),
        ("[x for x in label] == 1", "for x in"),
        ("(lambda: 1)() == 1", "lambda"),
        ("n[0] == 1", "n[0]"),
        ("f'{n}' == label", "f'"),
        ("(m := 3) == n", ":="),
        ("1 if n else 2", "if"),
        ("n @ n == 1", "@"),
        ("n is 3", "is"),
        ("'c' in label", "in label"),
        ("label in [n]", "n"),
        ("n == None", "None"),
        ("n == 2j", "2j"),
        ("label == b'x'", "b'x'"),
        ("n << 3 == 1", "<<"),
        ("label.str", "str"),
        ("when.dt", "dt"),
        ("n.dtype == 3", "dtype"),
        ("`a` `b`", ""),
        ("", ""),
        ("n ==", ""),
        ("n = 3", ""),
        ("\0", ""),
        ("n == 1; n", ""),
    ],
)
def test_everything_else_is_refused_by_name_before_any_table_is_read(
    query: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(ConfigError, option="queries", source="a", value=query) as caught:
        Subpopulation({"a": query, "b": "all"})
    assert named in str(caught.value).replace(repr(query), "", 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "query",
    [
        "n < 9**9**9**9**9",
        "n ** 9999999 ** 999 > 0",
        "(" * 5000 + "n" + ")" * 5000,
        "not " * 20_000 + "open",
        "-" * 90_000 + "n > 0",
        "n" + "+1" * 40_000 + " > 0",
        "n" + ".str" * 20_000,
        "n > " + "9" * 90_000,
        "n > " + "9" * 4000 + " * 1",
        "x" * 10**6,
        "label * 999999999 == 'x'",
        "'x' * 999999999 == label",
        "'%999999999d' % n == label",
        "label.str.contains('(a+)+$')",
        "label in [" + "'cat', " * 10_000 + "]",
    ],
)
def test_no_query_takes_long(query: str) -> None:
    """They are computed, or refused; the regular expression meets no text that it fails on."""
    start = time.process_time()
    with suppress(ConfigError):
        parse_query(query).select(FRAME)
    assert time.process_time() - start < 2.0  # a second at most; the machine may be busy


def test_a_query_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "t.csv").write_text("source,label\na,cat\nb,dog\n")
    (tmp_path / "run.toml").write_text(
        '[sources]\nmanifest = "t.csv"\nimages = false\n[bias]\nfamily = "subpopulation"\n'
        f'[bias.queries]\nb = "all"\na = "label.to_pickle(\'{tmp_path}/trap\')"\n'
    )
    assert run_command(["check", str(tmp_path / "run.toml")]) == 2
    assert "run.toml:8: bias.queries.a:" in capsys.readouterr().err.replace("\n", "")
    assert not (tmp_path / "trap").exists()
