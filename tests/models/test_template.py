"""Templates by name, and what is none."""

from __future__ import annotations

import pytest

from gradate.errors import InputError
from gradate.models.template import TEMPLATES, template_text


def test_the_published_ones_letter_by_letter() -> None:
    assert TEMPLATES == {
        "prompt-eol": 'This sentence : "{text}" means in one word:"',
        "prompt-sth": 'This sentence : "{text}" means something',
        "prompt-sum": 'This sentence : "{text}" can be summarized as',
    }
    assert template_text("prompt-sum") == TEMPLATES["prompt-sum"]
    assert template_text("Sense of {text}:") == "Sense of {text}:"


@pytest.mark.parametrize("template", ["prompt-sim", "", "a text", "{text} and {text}"])
def test_anything_else_is_refused(template: str) -> None:
    with pytest.raises(InputError, match=r"template: .* holds \{text\} once \(one of prompt-eol, .* own\)"):
        template_text(template)
