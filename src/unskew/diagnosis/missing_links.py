"""Which links, added to a disconnected overlap graph, make it strongly connected."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from unskew.diagnosis.advice_record import MissingLink
from unskew.records import Bools, Ints, Overlap


def find_missing_links(overlap: Overlap) -> tuple[MissingLink, ...]:
    """Find a small set of links that make the graph strongly connected.

    The graph has an edge k→l iff some image of source l has ω_k > 0. Between its strongly connected
    parts there are parts that nothing leads into and parts that nothing leads out of; with p and q
    of these max(p, q) links are needed at least (Eswaran & Tarjan 1976). One link at a time leads
    from a part without exit to a part without entrance, if possible one that does not lead to it
    yet.
    """
    link_kk = np.asarray(scipy.sparse.csr_array(overlap.link_count).toarray()) > 0
    missing: list[MissingLink] = []
    while True:
        n_parts, part_k = scipy.sparse.csgraph.connected_components(link_kk, connection="strong")
        if n_parts == 1:
            return tuple(missing)
        last, first = _ends(link_kk, part_k, n_parts)
        names = np.array(overlap.names, dtype=object)
        missing.append(MissingLink(tuple(names[part_k == first]), tuple(names[part_k == last])))
        link_kk[np.flatnonzero(part_k == last)[0], np.flatnonzero(part_k == first)[0]] = True


def _ends(link_kk: Bools, part_k: Ints, n_parts: int) -> tuple[int, int]:
    """Return a part without exit and a part without entrance, another one."""
    between = np.zeros((n_parts, n_parts), dtype=np.bool_)
    from_k, to_k = np.nonzero(link_kk)
    between[part_k[from_k], part_k[to_k]] = True
    np.fill_diagonal(between, False)
    last = int(np.flatnonzero(~between.any(axis=1))[0])
    entrances = [part for part in np.flatnonzero(~between.any(axis=0)).tolist() if part != last]
    reached = scipy.sparse.csgraph.breadth_first_order(
        scipy.sparse.csr_array(between.T), last, return_predecessors=False
    )
    return last, min(entrances, key=lambda part: (part in reached, part))
