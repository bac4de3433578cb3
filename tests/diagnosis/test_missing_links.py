"""Links that make a graph strongly connected."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.csgraph

import unskew
from unskew.diagnosis.missing_links import find_missing_links

# omega of one image of each source: edge k→l iff image l has omega_k > 0.
GRAPHS = {
    "two islands": ([(0, 0), (1, 1)], 2, 2),
    "a chain": ([(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)], 3, 1),
    "two chains": ([(k, k) for k in range(4)] + [(0, 1), (2, 3)], 4, 2),
    "three islands": ([(k, k) for k in range(3)], 3, 3),
    "a star": ([(k, k) for k in range(4)] + [(0, 1), (0, 2), (0, 3)], 4, 3),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_fewest_links_connect(name: str) -> None:
    edges, n, fewest = GRAPHS[name]
    omega = np.zeros((n, n))
    for k, image in edges:
        omega[image, k] = 1.0
    names = [f"s{k}" for k in range(n)]
    overlap = unskew.check_overlap(omega, np.arange(n), names=names)
    links = find_missing_links(overlap)
    # Eswaran & Tarjan: max(parts without entrance, parts without exit).
    assert len(links) == fewest
    graph = omega.T > 0
    for link in links:
        graph[names.index(link.selectable_by[0]), names.index(link.image_of[0])] = True
    parts, _ = scipy.sparse.csgraph.connected_components(graph, connection="strong")
    assert parts == 1
