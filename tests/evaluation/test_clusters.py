"""Clusters share no sentence with each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradate.evaluation.clusters import sentence_clusters

LETTERS = st.sampled_from("abcdefghij")


@given(st.lists(st.tuples(LETTERS, LETTERS), max_size=30))
def test_a_sentence_stands_in_one_cluster_and_clusters_hang_together(pairs: list[tuple[str, str]]) -> None:
    clusters = sentence_clusters(pairs).tolist()
    assert len(clusters) == len(pairs)
    homes: dict[str, set[int]] = {}
    for pair, cluster in zip(pairs, clusters, strict=True):
        for text in pair:
            homes.setdefault(text, set()).add(cluster)
    assert all(len(found) == 1 for found in homes.values())
    # A slow twin: the smallest name spreads along the pairs until nothing changes.
    names = {text: text for pair in pairs for text in pair}
    for _ in names:
        for a, b in pairs:
            names[a] = names[b] = min(names[a], names[b])
    assert len(set(clusters)) == len({names[a] for a, _ in pairs})
