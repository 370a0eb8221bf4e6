"""Templates inside tokenizers: what a model reads, what is cut, what is saved; and padding of decoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import BoW

from gradate.engine.encoding import count_truncated, encode_distinct
from gradate.engine.fingerprint import fingerprint
from gradate.engine.precision import Precision
from gradate.errors import InputError
from gradate.models.graded import GradedModel
from gradate.models.loading import open_encoder
from gradate.models.template import TEMPLATES
from gradate.models.tokenizer import check_room, with_template
from tests.tiny import tiny_decoder, tiny_encoder

FP32 = Precision("fp32", "test")
KINDS = ("llama", "mistral", "opt")
TEXTS = ["a cat", "no", "The dog, which barks: why?"]


def decoder(folder: Path, kind: str = "llama", template: str | None = "prompt-sum") -> SentenceTransformer:
    encoder = open_encoder(tiny_decoder(folder / kind, kind))
    return encoder if template is None else with_template(encoder, template)


def read(encoder: SentenceTransformer, text: str) -> list[str]:
    """The tokens that the model reads of a text."""
    ids = encoder.preprocess([text])["input_ids"][0].tolist()
    return list(encoder.tokenizer.convert_ids_to_tokens(ids))


@pytest.mark.parametrize("template", [*TEMPLATES, "{text} means", "in a word, {text}"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_read_inside_its_template(kind: str, template: str, tmp_path: Path) -> None:
    bare, encoder = decoder(tmp_path, kind, None), decoder(tmp_path, kind, template)
    whole = TEMPLATES.get(template, template).replace("{text}", "Zoo")
    expected = read(bare, whole)
    found = read(encoder, "Zoo")
    assert found[0] == expected[0] and found[0] in ("<s>", "</s>"), "the tokenizer's own first token"
    if kind != "opt" and not template.startswith("{text}"):
        # The text is tokenised by itself, so that the space these tokenizers put before it stands behind the quote.
        place = found.index("Z") - 1
        assert found.pop(place) == "▁"
    assert found == expected


def test_tokens_of_an_encoder_stay_around_the_template() -> None:
    encoder = with_template(tiny_encoder(), "i s {text} t")
    assert read(encoder, "a b") == ["[CLS]", "i", "s", "a", "b", "t", "[SEP]"]
    assert encoder.preprocess(["a b"]).keys() == tiny_encoder().preprocess(["a b"]).keys()
    assert encoder.tokenizer.padding_side == "right", "positions of an encoder count from the left"


@pytest.mark.parametrize("kind", KINDS)
def test_truncation_cuts_the_text_and_never_the_template(kind: str, tmp_path: Path) -> None:
    encoder = decoder(tmp_path, kind)
    frame = encoder.tokenizer.num_special_tokens_to_add()
    encoder.max_seq_length = frame + 3
    most = 3 if kind == "opt" else 2  # and the space before
    assert count_truncated(encoder, ["abcdef"[:most], "abcdef"[: most + 1], "a long one"]) == 2
    assert read(encoder, "abcdef") == read(encoder, "abcdef"[:most])


@pytest.mark.parametrize("kind", KINDS)
def test_the_saved_model_opens_in_sentence_transformers_alone(kind: str, tmp_path: Path) -> None:
    encoder = decoder(tmp_path, kind)
    expected = encoder.encode(TEXTS)
    assert not np.allclose(decoder(tmp_path, kind, None).encode(TEXTS), expected, atol=1e-2)
    folder = GradedModel(encoder, precision="fp32").save(tmp_path / "model")
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    np.testing.assert_array_equal(plain.encode(TEXTS), expected)
    assert plain.tokenizer.padding_side == "left"
    assert read(plain, "cat") == read(encoder, "cat")
    again = GradedModel(open_encoder(folder), precision="fp32").save(tmp_path / "again")
    np.testing.assert_array_equal(SentenceTransformer(str(again), device="cpu").encode(TEXTS), expected)


def test_a_template_is_put_on_once(tmp_path: Path) -> None:
    encoder = decoder(tmp_path)
    once = read(encoder, "cat")
    reopened = open_encoder(GradedModel(encoder, precision="fp32").save(tmp_path / "model"))
    for same in (encoder, reopened):
        assert read(with_template(same, "prompt-sum"), "cat") == once
        assert read(with_template(same, TEMPLATES["prompt-sum"]), "cat") == once
        with pytest.raises(InputError, match=r"reads every text as 'This .* as' already \(null keeps it\)"):
            with_template(same, "prompt-eol")


def test_the_encoders_own_tokenizer_is_left_as_it_was(tmp_path: Path) -> None:
    encoder = decoder(tmp_path, template=None)
    tokenizer = encoder.tokenizer
    with_template(encoder, "prompt-sum")
    assert encoder.tokenizer is not tokenizer
    assert tokenizer.num_special_tokens_to_add() == 1


def test_the_fingerprint_sees_the_template(tmp_path: Path) -> None:
    found = {
        fingerprint(decoder(tmp_path, template=name), FP32) for name in (None, "prompt-sum", "prompt-eol", "{text}!")
    }
    assert len(found) == 4
    assert fingerprint(decoder(tmp_path), FP32) in found


def test_what_takes_no_template() -> None:
    encoder = SentenceTransformer(modules=[BoW(["a", "b"])], device="cpu")
    with pytest.raises(InputError, match=r"no tokenizer that takes a template \(leave it out: null\)"):
        with_template(encoder, "prompt-sum")


def test_a_length_that_leaves_no_room(tmp_path: Path) -> None:
    encoder = decoder(tmp_path)
    frame = encoder.tokenizer.num_special_tokens_to_add()
    check_room(encoder, None, "max_length")
    check_room(encoder, frame + 1, "max_length")
    with pytest.raises(InputError, match=rf"x: max_length = {frame} leaves no room.* \({frame + 1} or more\)"):
        check_room(encoder, frame, "x")


def test_a_decoder_without_a_token_to_pad_with_gets_one(tmp_path: Path) -> None:
    encoder = decoder(tmp_path, template=None)
    assert encoder.tokenizer.pad_token == "</s>"
    assert decoder(tmp_path, "opt", None).tokenizer.pad_token == "<pad>"
    assert tiny_encoder().tokenizer.pad_token == "[PAD]"


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_genuine_token_of_number_0_and_one_that_also_pads_are_read(kind: str, tmp_path: Path) -> None:
    encoder = decoder(tmp_path, kind)
    padding = encoder.tokenizer.pad_token_id
    first = encoder.tokenizer.convert_ids_to_tokens(0)
    for text, token in ((f"{first} a", 0), (f"{encoder.tokenizer.pad_token} a", padding)):
        batch = encoder.preprocess([text])
        assert token in batch["input_ids"][0] and batch["attention_mask"].all()
        alone = encoder(dict(batch))["sentence_embedding"][0]
        masked = encoder(batch | {"attention_mask": (batch["input_ids"] != token).long()})["sentence_embedding"][0]
        assert (alone - masked).norm() > 1e-3 * alone.norm()
        found = encode_distinct(encoder, [text, "a much longer text"], precision=FP32).embeddings[0]
        np.testing.assert_allclose(found, alone.numpy(), atol=1e-5)
