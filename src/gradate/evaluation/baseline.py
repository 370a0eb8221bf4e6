"""What a model has to beat: word overlap, and grades read off a similarity without a head."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.isotonic import IsotonicRegression

from gradate.errors import InputError
from gradate.evaluation.metrics import Array
from gradate.scale import LabelScale

_WORD = re.compile(r"\w+")


def word_overlap(text1: Sequence[str], text2: Sequence[str]) -> Array:
    """Share of common words of each pair: Dice coefficient of the sets of casefolded words, 0 to 1, shape (n,).

    Two texts without any word overlap fully if they are equal, else not at all.

    Raises:
        InputError: sequences of different lengths.

    Source: Dice (1945); as a similarity of short texts, the token-overlap baseline of SemEval-2012 task 6.

    >>> word_overlap(["Close my account", "Hello"], ["close the account", "Goodbye"]).tolist()
    [0.6666666666666666, 0.0]
    """
    if len(text1) != len(text2):
        raise InputError(f"expected as many first as second texts, got {len(text1)} and {len(text2)}")
    return np.array([_dice(a, b) for a, b in zip(text1, text2, strict=True)], dtype=np.float64)


def bag_of_words(text1: Sequence[str], text2: Sequence[str]) -> Array:
    """Cosine of the word counts of each pair, 0 to 1, shape (n,); 0 where a text has no word.

    >>> bag_of_words(["close the door", "!"], ["the door", "!"]).round(4).tolist()
    [0.8165, 0.0]
    """
    counts = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", use_idf=False).fit([*text1, *text2])
    one, other = (counts.transform(list(side)) for side in (text1, text2))
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


def isotonic_grades(
    train_similarity: npt.ArrayLike, train_grades: npt.ArrayLike, similarity: npt.ArrayLike, scale: LabelScale
) -> Array:
    """Values on the scale for similarities, by the rising function that fits the training pairs best, shape (m,).

    Gives a model without a head its error, accuracy and kappa: the most favourable monotone reading of its cosine.

    Args:
        train_similarity: Similarities of the training pairs, shape (n,), at least one pair.
        train_grades: Their grades on the scale, shape (n,).
        similarity: Similarities to read, shape (m,); beyond the training range the nearest end counts.
        scale: Scale of the grades; the values stay on it.

    Raises:
        InputError: no training pairs, or shapes that differ.

    Source: isotonic regression by pool-adjacent-violators, Barlow et al. (1972).

    >>> isotonic_grades([0.1, 0.4, 0.9], [0, 1, 3], [0.0, 0.4, 1.0], LabelScale.from_values([0, 1, 2, 3])).tolist()
    [0.0, 1.0, 3.0]
    """
    x, y = np.asarray(train_similarity, dtype=np.float64), np.asarray(train_grades, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise InputError(f"expected training pairs of one shape (n,), got {x.shape} and {y.shape}")
    fit = IsotonicRegression(y_min=scale.low, y_max=scale.high, increasing=True, out_of_bounds="clip").fit(x, y)
    return np.asarray(fit.predict(np.asarray(similarity, dtype=np.float64)), dtype=np.float64)


def _dice(first: str, second: str) -> float:
    a, b = set(_WORD.findall(first.casefold())), set(_WORD.findall(second.casefold()))
    if not a and not b:
        return float(first == second)
    return 2 * len(a & b) / (len(a) + len(b))
