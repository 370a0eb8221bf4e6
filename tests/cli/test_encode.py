from __future__ import annotations

import numpy as np

from gradate.models.graded import GradedModel


def test_texts_become_rows_of_a_file(gradate, graded_model, tmp_path):
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npy"
    texts.write_text("how do i pay\nwhere is it\nhow do i pay\n", encoding="utf-8")
    answer = gradate("encode", graded_model, texts, "--out", out, "--precision", "fp32", "--json")
    assert answer.code == 0
    assert {k: answer.json[k] for k in ("rows", "distinct", "resumed", "truncated")} == {
        "rows": 3,
        "distinct": 2,
        "resumed": 0,
        "truncated": 0,
    }
    model = GradedModel.from_pretrained(graded_model, precision="fp32")
    expected = model.encode(["how do i pay", "where is it", "how do i pay"])
    np.testing.assert_allclose(np.load(out), expected, atol=1e-6)


def test_refusals_leave_nothing(gradate, graded_model, tmp_path):
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npy"
    texts.write_text("one\n", encoding="utf-8")
    for arguments, message in (
        (["--out", tmp_path / "vectors.csv"], "embeddings are written as .npy (name it vectors.npy)"),
        (["--out", out, "--prompt-name", "nope"], "has no prompt 'nope' (its prompts: "),
        (["--out", out, "--column", "x"], "a .txt has no columns (leave --column out)"),
    ):
        answer = gradate("encode", graded_model, texts, *arguments)
        assert answer.code == 2 and message in answer.err
        assert not out.exists()
    assert gradate("encode", graded_model, texts, "--out", out).code == 0
    again = gradate("encode", graded_model, texts, "--out", out)
    assert again.code == 2 and "exists (name another file or pass --overwrite)" in again.err
