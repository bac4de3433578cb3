"""Names as a page shows them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unskew.report.page.tables import show_name


@given(st.text(st.characters(codec=None)))
def test_shown_names_can_be_written_and_hide_nothing(name: str) -> None:
    shown = show_name(name)
    shown.encode()
    assert "\n" not in shown
    assert not {"\u202a", "\u202e", "\u2066", "\u200b"} & set(shown)
