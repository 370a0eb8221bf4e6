"""The template: a prompt that every text is put into, by name or as one's own."""

from __future__ import annotations

from gradate.errors import InputError

TEMPLATES = {
    "prompt-eol": 'This sentence : "{text}" means in one word:"',
    "prompt-sth": 'This sentence : "{text}" means something',
    "prompt-sum": 'This sentence : "{text}" can be summarized as',
}
"""By name: PromptEOL (Jiang et al. 2023), PromptSTH and PromptSUM (Zhang & Li 2024, Pcc-tuning)."""
SLOT = "{text}"


def template_text(template: str) -> str:
    """A template by its name, or one's own as it is.

    Args:
        template: A name in `TEMPLATES`, or a string that holds `{text}` once.

    Raises:
        InputError: neither of them.

    >>> template_text("prompt-sth")
    'This sentence : "{text}" means something'
    """
    text = TEMPLATES.get(template, template)
    if text.count(SLOT) != 1:
        what = f"{template!r} is neither the name of a template nor a text that holds {SLOT} once"
        raise InputError(what, where="template", remedy=f"one of {', '.join(TEMPLATES)}, or a text of your own")
    return text
