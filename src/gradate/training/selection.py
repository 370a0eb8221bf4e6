"""The selection: how a checkpoint is judged while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from torch.nn.functional import cosine_similarity

from gradate.data.examples import Pairs
from gradate.engine.encoding import encode_distinct
from gradate.engine.precision import Precision
from gradate.evaluation.metrics import mae, pearson, spearman
from gradate.models.head import PairHead
from gradate.training.stage import SelectionConfig


class SelectionEvaluator(BaseEvaluator):
    """Scores an encoder and its head on named sets of pairs; a metric over several sets is their plain mean.

    Args:
        sets: Pairs by name; grades may be on different scales, correlations do not mind.
        head: The head being trained; None scores the cosine only.
        precision: Precision of the encoding.
        prompt: Text put before every text.
        metric: The metric that decides.
    """

    def __init__(
        self,
        sets: Mapping[str, Pairs],
        head: PairHead | None,
        precision: Precision,
        selection: SelectionConfig,
        prompt: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sets, self.head, self.precision, self.prompt = dict(sets), head, precision, prompt
        self.metric = self.primary_metric = selection.metric
        self.greater_is_better = selection.greater_is_better

    def __call__(  # type: ignore[override]
        self, model: SentenceTransformer, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Metrics of the sets together, and of each under `<set>_<metric>` where there are several."""
        texts = [t for pairs in self.sets.values() for side in (pairs.text1, pairs.text2) for t in side]
        encoded = encode_distinct(model, texts, precision=self.precision, prompt=self.prompt)
        embeddings = torch.from_numpy(encoded.embeddings)
        start, by_set = 0, {}
        for name, pairs in self.sets.items():
            n = len(pairs)
            u = embeddings[encoded.index[start : start + n]]
            v = embeddings[encoded.index[start + n : start + 2 * n]]
            start += 2 * n
            by_set[name] = self._metrics(u, v, pairs)
        means = {m: float(np.mean([values[m] for values in by_set.values()])) for m in next(iter(by_set.values()))}
        if len(by_set) > 1:
            means |= {f"{name}_{m}": v for name, values in by_set.items() for m, v in values.items()}
        return means

    @torch.no_grad()
    def _metrics(self, u: torch.Tensor, v: torch.Tensor, pairs: Pairs) -> dict[str, float]:
        cosine = cosine_similarity(u.double(), v.double()).numpy()
        values: dict[str, Any] = {
            "spearman_cosine": spearman(cosine, pairs.grades),
            "pearson_cosine": pearson(cosine, pairs.grades),
        }
        if self.head is not None and self.head.outputs == 1:
            prediction = self.head(u.to(self.head.linear.weight.device), v.to(self.head.linear.weight.device))
            values["spearman_head"] = spearman(prediction.double().cpu().numpy(), pairs.grades)
            values["mae_head"] = mae(pairs.scale.clamp(prediction.double().cpu().numpy()), pairs.grades)
        # An undefined correlation (constant scores) must lose every comparison, not poison it with NaN.
        return {name: float(value) if value is not None else -100.0 for name, value in values.items()}
