"""The graph of the sources, or the list in its place."""

from __future__ import annotations

from report.page.samples import page_of


def test_the_weakest_link_is_named() -> None:
    assert "4 images of Night camera could have been taken by Norrland meadow." in page_of("weak")
    assert "The sources fall into 2 parts" in page_of("refused")


def test_many_sources_have_a_list_instead_of_the_graph() -> None:
    assert 'class="graph"' in page_of("five")
    assert 'class="graph"' not in page_of("fifty")
    assert "The links with the fewest images" in page_of("fifty")
