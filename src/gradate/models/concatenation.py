"""What a pair head reads of two embeddings, by name."""

from __future__ import annotations

from gradate.errors import InputError

CONCATENATIONS: tuple[str, ...] = (
    "u,v,|u-v|",
    "u,v",
    "|u-v|",
    "u*v",
    "|u-v|,u*v",
    "u,v,u*v",
    "u,v,|u-v|,u*v",
    "cos",
)


def feature_blocks(concatenation: str, tied: bool = False) -> tuple[str, ...]:
    """Names of the blocks a concatenation holds, each as wide as the embedding, except `cos`, which is one number.

    Args:
        concatenation: One of `CONCATENATIONS`.
        tied: Replace the blocks u and v by the one block u+v, which gives both texts the same weights.

    Raises:
        InputError: an unknown concatenation.

    >>> feature_blocks("u,v,|u-v|"), feature_blocks("u,v,|u-v|", tied=True)
    (('u', 'v', '|u-v|'), ('u+v', '|u-v|'))
    """
    if concatenation not in CONCATENATIONS:
        raise InputError(
            f"unknown concatenation {concatenation!r}",
            where="concatenation",
            remedy=f"choose one of {'  '.join(CONCATENATIONS)}",
        )
    blocks = tuple(concatenation.split(","))
    if tied and blocks[:2] == ("u", "v"):
        return ("u+v", *blocks[2:])
    return blocks
