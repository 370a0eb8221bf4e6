"""The convex head fit: at the optimum, by other means too, and the same however its features are produced."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from gradate.errors import TrainingStopped
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import build_loss
from gradate.scale import LabelScale
from gradate.training import axes, head_fit, pair_features
from gradate.training.head_fit import HeadFit, PairFeatures, fit_head

SCALE = LabelScale.from_values([0, 1, 2, 3])
N, DIM = 120, 5


def data(n: int = N, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, np.ndarray]:
    generator = np.random.default_rng(seed)
    embeddings = torch.from_numpy(generator.normal(size=(2 * n, DIM)).astype(np.float32)) + 0.5
    first, second = torch.arange(n), torch.arange(n, 2 * n)
    u, v = embeddings[first], embeddings[second]
    noise = torch.from_numpy(generator.normal(size=n, scale=0.4))
    signal = 3.0 - 1.3 * (u - v).abs().mean(1).double() + 0.3 * u[:, 0].double() + noise
    # Quarters of the signal: every grade occurs equally often.
    grades = np.digitize(signal.numpy(), np.quantile(signal.numpy(), [0.25, 0.5, 0.75])).astype(np.float64)
    return embeddings, first, second, grades


def fit(
    name: str = "smooth-k2",
    *,
    l2: float | str = 1e-2,
    weights: np.ndarray | None = None,
    scale: LabelScale = SCALE,
    seed: int = 0,
    **head_options: object,
) -> tuple[PairHead, HeadFit, PairFeatures, np.ndarray]:
    embeddings, first, second, grades = data(seed=seed)
    outputs = 4 if name == "cross-entropy" else 1
    head = PairHead(DIM, outputs=outputs, **head_options)  # type: ignore[arg-type]
    features = PairFeatures(embeddings, first, second, head)
    config = ObjectiveConfig(name, k=2.0, x0=0.25)  # type: ignore[arg-type]
    return head, fit_head(head, features, grades, config, scale, weights=weights, l2=l2), features, grades


def standardised(features: PairFeatures) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = torch.cat([block for _, block in features.blocks()]).double().numpy()
    mean = x.mean(0)
    variances = ((x - mean) ** 2).mean(0)
    widths = features.head.block_widths
    blocks = np.split(variances, np.cumsum(widths)[:-1])
    scales = np.concatenate([np.full(w, np.sqrt(b.mean())) for w, b in zip(widths, blocks, strict=True)])
    return (x - mean) / scales, mean, scales


def predictions(head: PairHead, features: PairFeatures) -> torch.Tensor:
    e = features.embeddings
    return head(e[features.first], e[features.second]).detach().double()


@pytest.mark.parametrize("concatenation", ["u,v,|u-v|", "u*v", "cos"])
def test_mse_is_the_closed_form_of_ridge_regression(concatenation: str) -> None:
    l2 = 1e-2
    head, found, features, grades = fit("mse", l2=l2, concatenation=concatenation)
    x, mean, scales = standardised(features)
    centred = grades - grades.mean()
    weight = np.linalg.solve(2 / N * x.T @ x + l2 * np.eye(x.shape[1]), 2 / N * x.T @ centred)
    np.testing.assert_allclose(head.linear.weight.detach().numpy()[0], weight / scales, atol=2e-5)
    assert head.linear.bias.item() == pytest.approx(grades.mean() - (weight / scales) @ mean, abs=1e-4)
    objective = ((x @ weight - centred) ** 2).mean() + l2 / 2 * (weight @ weight)
    assert found.objective == pytest.approx(objective, rel=1e-6)
    assert found.suboptimality < 1e-8


@pytest.mark.parametrize("name", ["smooth-k2", "mse", "cross-entropy", "l1", "translated-relu"])
def test_no_small_step_improves_the_optimum(name: str) -> None:
    l2 = 1e-2
    head, found, features, grades = fit(name, l2=l2)
    x, mean, scales = standardised(features)
    loss = build_loss(ObjectiveConfig(name, k=2.0, x0=0.25, boundary="none"), SCALE)  # type: ignore[arg-type]
    start = np.zeros(4) if name == "cross-entropy" else np.array([grades.mean()])
    target = torch.from_numpy(grades.astype(np.int64) if name == "cross-entropy" else grades)

    def objective(weight: np.ndarray, bias: np.ndarray) -> float:
        prediction = torch.from_numpy(x @ weight.T + bias)
        prediction = prediction if len(bias) > 1 else prediction.squeeze(1)
        return float(loss(prediction, target)) + l2 / 2 * float((weight**2).sum() + ((bias - start) ** 2).sum())

    weight = head.linear.weight.detach().double().numpy() * scales
    bias = head.linear.bias.detach().double().numpy() + head.linear.weight.detach().double().numpy() @ mean
    best = objective(weight, bias)
    generator = np.random.default_rng(3)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(30):
            step = generator.normal(size=weight.shape), generator.normal(size=bias.shape)
            assert objective(weight + size * step[0], bias + size * step[1]) > best - found.suboptimality - 1e-6


def test_torch_finds_no_better_smooth_k2() -> None:
    l2 = 1e-2
    head, found, features, grades = fit(l2=l2)
    x, _, scales = standardised(features)
    design, target, start = torch.from_numpy(x), torch.from_numpy(grades), float(grades.mean())
    loss = build_loss(ObjectiveConfig(k=2.0, x0=0.25, boundary="none"), SCALE)
    weight = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(design @ weight + bias, target) + l2 / 2 * (weight.square().sum() + (bias - start).square())
        value.backward()
        return value

    optimizer.step(objective)  # type: ignore[arg-type]
    assert found.objective == pytest.approx(objective().item(), abs=1e-7)
    np.testing.assert_allclose(
        head.linear.weight.detach().numpy()[0] * scales, weight.detach().numpy(), atol=1e-4, err_msg="one optimum"
    )


@pytest.mark.parametrize(("name", "slope", "x0"), [("l1", 1.0, 0.0), ("translated-relu", 2.0, 0.25)])
def test_corner_losses_reach_the_linear_programme_within_the_stated_bound(name: str, slope: float, x0: float) -> None:
    # Without ridge the loss is a linear programme: its value is a floor, its point with the ridge added a ceiling.
    l2 = 1e-4
    head, found, features, grades = fit(name, l2=l2)
    x, _, scales = standardised(features)
    n, width = x.shape
    cost = np.concatenate([np.zeros(width + 1), np.full(n, slope / n)])
    design = np.column_stack([x, np.ones(n)])
    solved = linprog(
        cost,
        A_ub=np.block([[design, -np.eye(n)], [-design, -np.eye(n)]]),
        b_ub=np.concatenate([grades + x0, x0 - grades]),
        bounds=[(None, None)] * (width + 1) + [(0, None)] * n,
    )
    assert solved.success
    loss = build_loss(ObjectiveConfig(name, k=slope, x0=x0, boundary="none"), SCALE)  # type: ignore[arg-type]
    reached = float(loss(predictions(head, features), torch.from_numpy(grades)))
    assert reached >= solved.fun - 1e-6
    weight = head.linear.weight.detach().double().numpy() * scales
    with_ridge = reached + l2 / 2 * float((weight**2).sum())
    offset = solved.x[width] - grades.mean()
    ceiling = solved.fun + l2 / 2 * float(solved.x[:width] @ solved.x[:width] + offset**2)
    assert with_ridge <= ceiling + found.suboptimality
    assert found.suboptimality < 0.01, "the bound says something"


def test_cross_entropy_is_logistic_regression() -> None:
    head, _, features, grades = fit("cross-entropy", l2=1e-3)
    x, _, _ = standardised(features)
    theirs = LogisticRegression(C=1 / (1e-3 * N), max_iter=5000, tol=1e-10).fit(x, grades)
    ours = torch.softmax(predictions(head, features), dim=1).numpy()
    # Ours also holds the biases, weakly.
    np.testing.assert_allclose(ours, theirs.predict_proba(x), atol=0.03)


def test_a_weight_of_two_is_a_row_twice() -> None:
    embeddings, first, second, grades = data()
    twice = torch.cat([torch.arange(N), torch.arange(10)])
    weights = np.ones(N)
    weights[:10] = 2
    heads = []
    for rows, values in ((torch.arange(N), weights / weights.mean()), (twice, None)):
        head = PairHead(DIM)
        features = PairFeatures(embeddings, first[rows], second[rows], head)
        config = ObjectiveConfig(k=2.0, x0=0.25)
        fit_head(head, features, grades[rows.numpy()], config, SCALE, weights=values, l2=1e-2)
        heads.append(head.linear.weight.detach())
    torch.testing.assert_close(heads[0], heads[1], atol=1e-4, rtol=1e-3)


def test_streaming_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, *_ = fit()
    monkeypatch.setattr(pair_features, "CACHE_BYTES", 0)
    monkeypatch.setattr(pair_features, "ROWS_PER_BLOCK", 17)
    monkeypatch.setattr(head_fit, "DENSE_UP_TO", 10)
    streamed, *_ = fit()
    torch.testing.assert_close(whole.linear.weight, streamed.linear.weight, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(whole.linear.bias, streamed.linear.bias, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["smooth-k2", "cross-entropy", "translated-relu"])
def test_axes_of_some_pairs_lead_to_the_optimum_of_all(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _, exact, *_ = fit(name)
    monkeypatch.setattr(pair_features, "ROWS_PER_BLOCK", 17)
    monkeypatch.setattr(head_fit, "DENSE_UP_TO", 10)
    monkeypatch.setattr(axes, "PAIRS", 8)
    monkeypatch.setattr(axes, "PAIRS_AT_ONCE", 23)
    monkeypatch.setattr(axes, "COLUMNS", 4)
    _, found, features, _ = fit(name)
    assert len(features) > 4 * features.width, "only some of the pairs give the axes"
    assert found.objective - exact.objective <= found.suboptimality + 1e-9
    assert found.suboptimality <= exact.suboptimality * 1.02 + 1e-8


def test_the_number_of_threads_does_not_reach_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_features, "ROWS_PER_BLOCK", 17)
    monkeypatch.setattr(head_fit, "DENSE_UP_TO", 10)
    monkeypatch.setattr(head_fit, "SMALL_MATRIX", 0)
    before, weights = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            weights.append(fit()[0].linear.weight.detach())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*weights)


def test_memory_does_not_grow_with_the_pairs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status = Path("/proc/self/status")
    if not status.is_file():
        pytest.skip("memory is read from /proc")
    monkeypatch.setattr(pair_features, "CACHE_BYTES", 0)
    monkeypatch.setattr(axes, "PAIRS", 4096)
    n, dim, peaks, most = 150_000, 64, [], 0
    generator = np.random.default_rng(0)
    generator.standard_normal((20_000, dim), dtype=np.float32).tofile(tmp_path / "rows")
    embeddings = torch.from_numpy(np.memmap(tmp_path / "rows", dtype=np.float32, mode="c", shape=(20_000, dim)))
    first, second = torch.from_numpy(generator.integers(0, 20_000, (2, n)))
    head = PairHead(dim)
    made = PairFeatures.rows

    def watched(features: PairFeatures, index: torch.Tensor | slice) -> torch.Tensor:
        nonlocal most
        x = made(features, index)
        most = max(most, len(x))
        line = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
        peaks.append(int(line.split()[1]) * 1024)
        return x

    monkeypatch.setattr(PairFeatures, "rows", watched)
    grades = generator.integers(0, 4, n).astype(np.float64)
    found = fit_head(head, PairFeatures(embeddings, first, second, head), grades, ObjectiveConfig("mse"), SCALE)
    assert found.suboptimality < 1e-8 and found.texts == 20_000
    assert most == 4096
    in_full = n * head.linear.in_features * 4
    bound = 80 * n + 100_000 * head.linear.in_features + 80 * head.linear.in_features**2
    assert max(peaks) - peaks[0] < bound < in_full / 3


def test_tied_weights_make_predictions_symmetric() -> None:
    head, _, features, _ = fit(tied=True)
    u, v = features.embeddings[features.first], features.embeddings[features.second]
    assert torch.equal(head(u, v), head(v, u))
    untied, *_ = fit()
    assert not torch.allclose(untied(u, v), untied(v, u))


def test_ridge_is_chosen_by_cross_validation() -> None:
    _, found, *_ = fit(l2="auto")
    assert found.l2 in head_fit.L2_GRID and "5-fold" in found.l2_reason
    embeddings, first, second, _ = data()
    noise = np.random.default_rng(1).integers(0, 4, N).astype(np.float64)
    head = PairHead(DIM)
    config = ObjectiveConfig(k=2.0, x0=0.25)
    on_noise = fit_head(head, PairFeatures(embeddings, first, second, head), noise, config, SCALE)
    assert on_noise.l2 == max(head_fit.L2_GRID), "nothing to learn: the strongest ridge wins"


def test_few_and_many_pairs_are_not_cross_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, first, second, grades = data()
    head = PairHead(DIM)
    few = PairFeatures(embeddings, first[:8], second[:8], head)
    config = ObjectiveConfig(k=2.0, x0=0.25)
    assert "too few" in fit_head(head, few, grades[:8], config, SCALE).l2_reason
    monkeypatch.setattr(head_fit, "DENSE_UP_TO", 50)
    assert "more than 50" in fit(l2="auto")[1].l2_reason


def test_dead_dimensions_and_more_features_than_pairs() -> None:
    embeddings, first, second, grades = data(n=12)
    embeddings = torch.cat([embeddings, torch.full((24, 2), 1e-9)], dim=1)
    head = PairHead(DIM + 2)
    config = ObjectiveConfig(k=2.0, x0=0.25)
    found = fit_head(
        head, PairFeatures(embeddings, first[:12], second[:12], head), grades[:12], config, SCALE, l2=1e-2
    )
    assert found.suboptimality < 1e-6
    assert head.linear.weight.abs().max() < 100


def test_features_that_are_not_finite() -> None:
    embeddings, first, second, grades = data()
    embeddings[3, 1] = float("nan")
    head = PairHead(DIM)
    with pytest.raises(TrainingStopped, match="not finite"):
        fit_head(head, PairFeatures(embeddings, first, second, head), grades, ObjectiveConfig(k=2.0, x0=0.25), SCALE)


def test_normalized_features_ignore_length() -> None:
    embeddings, first, second, grades = data()
    heads = []
    for factor in (1.0, 3.0):
        head = PairHead(DIM, features="normalized")
        features = PairFeatures(factor * embeddings, first, second, head)
        fit_head(head, features, grades, ObjectiveConfig(k=2.0, x0=0.25), SCALE, l2=1e-2)
        heads.append(head.linear.weight.detach())
    torch.testing.assert_close(heads[0], heads[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("fails", [False, True])
def test_the_callers_threads_are_left_as_they_were(fails: bool) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        embeddings, first, second, grades = data()
        embeddings[0] = float("nan") if fails else 0.0
        head = PairHead(DIM)
        with pytest.raises(TrainingStopped) if fails else nullcontext():
            config = ObjectiveConfig(k=2.0, x0=0.25)
            fit_head(head, PairFeatures(embeddings, first, second, head), grades, config, SCALE, l2=1e-2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
