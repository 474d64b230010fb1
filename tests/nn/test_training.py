"""The training loop: alone or stacked, interrupted or not, a model ends where it would."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from errors import naming

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import identifiable.nn.training as training_module  # noqa: E402
from identifiable._checks import DataError, OutputError, UsageError  # noqa: E402
from identifiable.nn import OrthogonalAutoencoder, Trained, Training, train  # noqa: E402

QUICK = Training(batch=25, max_epochs=8, learning_rate=1e-2)
LEAKS = (0.2, 0.5, 1.0)


def rows(n: int = 120, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, 4)) @ rng.standard_normal((4, 12)) * 0.3).astype(np.float32)


def models() -> list[OrthogonalAutoencoder]:
    return [OrthogonalAutoencoder((12, 8, 3), leak, seed=k) for k, leak in enumerate(LEAKS)]


def ran(settings: Training = QUICK, **options: object) -> list[Trained]:
    return train(models(), rows(), rows(60, 1), settings, seeds=[0, 1, 2], **options)  # type: ignore[arg-type]


class Tiny(torch.nn.Module):
    """y = a x with one number a: its loss is known in closed form."""

    def __init__(self, start: float):
        super().__init__()
        self.a = torch.nn.Parameter(torch.tensor([start]))

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return ((self.a - 1) ** 2).sum() + 0 * batch.sum()


def test_stacked_models_reach_the_losses_they_reach_alone() -> None:
    together, alone = ran(), ran(together=1)
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a.losses, b.losses, rtol=1e-4)
        np.testing.assert_allclose(a.validation, b.validation, rtol=1e-4)
        assert (a.best_epoch, a.stopped, a.epochs) == (b.best_epoch, b.stopped, b.epochs)
        assert a.validation[-1] < 0.9 * a.validation[0]  # and they learn
    assert len({t.best_loss for t in together}) == 3


def test_one_model_is_what_a_plain_loop_with_torchs_own_parts_gives() -> None:
    (found,) = train(models()[:1], rows(), rows(60, 1), QUICK, seeds=[7])
    model, data = models()[0], torch.as_tensor(rows())
    optimizer = torch.optim.Adam(model.parameters(), lr=QUICK.learning_rate)
    for epoch in range(QUICK.max_epochs):
        order = np.random.default_rng([7, epoch]).permutation(len(data))
        for a in range(0, len(data), QUICK.batch):
            optimizer.zero_grad()
            model.loss(data[order[a : a + QUICK.batch]]).backward()
            with torch.no_grad():
                model.project_gradients(
                    dict(model.named_parameters()), {n: p.grad for n, p in model.named_parameters()}
                )
            torch.nn.utils.clip_grad_norm_(model.parameters(), QUICK.clip)
            optimizer.step()
            with torch.no_grad():
                model.project(dict(model.named_parameters()))
        expected = float(model.loss(torch.as_tensor(rows(60, 1))).detach())
        assert found.validation[epoch] == pytest.approx(expected, rel=1e-4)


def test_a_gradient_beyond_the_clip_is_cut_for_its_model_alone() -> None:
    """Adam's first step is the learning rate whatever the gradient; the second remembers the first, so clipping shows."""
    settings = Training(batch=2, max_epochs=2, learning_rate=0.1, clip=1.0, min_delta=0.0)
    X = np.zeros((2, 1), np.float32)
    loose = Training(batch=2, max_epochs=2, learning_rate=0.1, clip=1e9, min_delta=0.0)
    clipped = train([Tiny(1.2), Tiny(50.0)], X, X, settings, seeds=[0, 1])
    free = train([Tiny(1.2), Tiny(50.0)], X, X, loose, seeds=[0, 1])
    assert clipped[0].validation == free[0].validation
    assert clipped[1].losses[0] == free[1].losses[0]
    assert clipped[1].validation != free[1].validation
    alone = train([Tiny(50.0)], X, X, settings, seeds=[1])
    assert clipped[1].validation == pytest.approx(alone[0].validation)


def test_a_model_stops_when_it_no_longer_improves_and_keeps_its_best() -> None:
    settings = Training(batch=2, max_epochs=200, patience=3, learning_rate=0.3, min_delta=1e-4)
    X = np.zeros((2, 1), np.float32)
    near, far = train([Tiny(1.05), Tiny(9.0)], X, X, settings, seeds=[0, 1])
    assert near.stopped == far.stopped == "patience"
    assert near.epochs < far.epochs < 200
    for t in (near, far):
        assert t.epochs - 1 - t.best_epoch == 3
        assert t.best_loss == min(t.validation) or min(t.validation) > t.best_loss - 1e-4
        assert float((t.model.a.detach() - 1) ** 2) == pytest.approx(t.best_loss, abs=1e-6)
    (endless,) = train([Tiny(1.05)], X, X, replace(settings, max_epochs=60, patience=None), seeds=[0])
    assert (endless.stopped, endless.epochs) == ("max_epochs", 60)


def test_a_model_is_not_touched_by_others_that_end_before_it() -> None:
    """The first two leave the stack; the third keeps its leak, its order of rows and what Adam remembers."""
    short = Training(batch=25, max_epochs=14, patience=2, learning_rate=1e-2, min_delta=0.0)
    quick = OrthogonalAutoencoder((12, 8, 3), 1.0, seed=0)
    with torch.no_grad():
        for part in (quick.encoder, quick.decoder):
            part.leak.fill_(float("nan"))
    stack = [quick, deepcopy(quick), *models()[:2]]
    *_, third, fourth = train(stack, rows(), rows(60, 1), short, seeds=[5, 6, 0, 1])
    for found, k in ((third, 0), (fourth, 1)):
        (alone,) = train([models()[k]], rows(), rows(60, 1), short, seeds=[k])
        assert found.epochs > 3
        assert found.validation == pytest.approx(alone.validation, rel=1e-4)


class Regular(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 4), layer)

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        return (self.layers(rows) ** 2).mean()


def test_a_finished_training_goes_on_with_more_epochs(tmp_path: Path) -> None:
    longer = Training(batch=25, max_epochs=11, learning_rate=1e-2)
    ran(checkpoint=tmp_path)
    resumed, whole = ran(longer, checkpoint=tmp_path), ran(longer)
    assert [t.validation for t in resumed] == [t.validation for t in whole]
    with pytest.raises(DataError, match="max_epochs 8"):
        ran(checkpoint=tmp_path)


def test_a_model_that_diverges_is_flagged_and_the_others_go_on() -> None:
    fine, broken = models()[:2]
    with torch.no_grad():
        broken.encoder.weights[0].weight[0, 0] = float("nan")
    first, second = train([fine, broken], rows(), rows(60, 1), QUICK, seeds=[0, 1])
    assert second.stopped == "diverged"
    assert second.best_loss == float("inf")
    assert first.stopped == "max_epochs"
    assert first.validation == pytest.approx(ran()[0].validation, rel=1e-4)


def test_models_that_ended_before_an_interruption_stay_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_module, "CHECKPOINT_SECONDS", 0.0)
    settings = Training(batch=2, max_epochs=200, patience=3, learning_rate=0.3, min_delta=1e-4)
    X = np.zeros((2, 1), np.float32)

    def run(**options: object) -> list[Trained]:
        return train([Tiny(1.05), Tiny(9.0)], X, X, settings, seeds=[0, 1], **options)  # type: ignore[arg-type]

    whole = run()
    assert whole[0].epochs < whole[1].epochs - 2

    def stop(stage: str, done: int, total: int) -> None:
        if done == whole[0].epochs + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=tmp_path, progress=stop)
    resumed = run(checkpoint=tmp_path)
    assert [t.validation for t in resumed] == [t.validation for t in whole]
    assert [t.stopped for t in resumed] == [t.stopped for t in whole]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkpoint of `ran()`."""
    folder = tmp_path_factory.mktemp("kept")
    ran(checkpoint=folder)
    return folder


@pytest.mark.parametrize("change", ["data", "settings", "seeds", "models", "leak", "watch"])
def test_a_checkpoint_of_something_else_is_refused(kept: Path, change: str) -> None:
    changed = {"models": {"leak": LEAKS[2], "seed": 9}, "leak": {"leak": 0.9, "seed": 2}}.get(change)
    other = [*models()[:2], OrthogonalAutoencoder((12, 8, 3), **changed)] if changed else models()
    settings = replace(QUICK, batch=24) if change == "settings" else QUICK
    data = rows(seed=5 if change == "data" else 0), rows(60, 1)
    seeds = [0, 1, 3] if change == "seeds" else [0, 1, 2]
    watch = looking if change == "watch" else None
    with pytest.raises(DataError, match="other data"):
        train(other, *data, settings, seeds=seeds, watch=watch, checkpoint=kept)


@pytest.mark.parametrize("change", ["NaN", "exchanged", "other epoch", "no digest"])
def test_a_checkpoint_whose_content_was_changed_is_refused(kept: Path, tmp_path: Path, change: str) -> None:
    """It would end with other parameters without a word."""
    (path,) = kept.iterdir()
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = next(name for name in tensors if name.startswith("kept/"))
    if change == "NaN":
        tensors[name] = torch.full_like(tensors[name], torch.nan)
    elif change == "exchanged":
        tensors[name] = tensors[name].flip(0)
    elif change == "other epoch":
        metadata["best_epoch"] = "[0, 0, 0]"
    else:
        del metadata["digest"]
    save_file(tensors, tmp_path / path.name, metadata)
    with pytest.raises(DataError, match=naming(path.name)):
        ran(checkpoint=tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_checkpoint_that_is_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "models-0000.safetensors")
    with pytest.raises(DataError, match=naming("models-0000")):
        ran(checkpoint=tmp_path)


def test_a_damaged_checkpoint_or_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    ran(checkpoint=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match="remove it"):
        ran(checkpoint=tmp_path)
    with pytest.raises(OutputError, match=path.name):
        ran(checkpoint=path)


class Shaped(Tiny):
    def __init__(self, power: int):
        super().__init__(3.0)
        self.power = power

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return ((self.a - 1) ** self.power).sum() + 0 * batch.sum()


class PerRow(Tiny):
    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return (batch - self.a) ** 2


@pytest.mark.parametrize(
    ("make", "options", "error", "parts"),
    [
        (models, {"seeds": [0]}, UsageError, "seed"),
        (models, {"seeds": [0, 1, -2]}, UsageError, "seeds"),
        (models, {"together": 0}, UsageError, "together 0"),
        (models, {"weight_decay": [0.1]}, UsageError, "weight_decay"),
        (models, {"weight_decay": [0.1, -1.0, 0.0]}, UsageError, "weight_decay"),
        (models, {"weight_decay": [0.1, float("nan"), 0.0]}, UsageError, "weight_decay"),
        (lambda: [Shaped(2), Shaped(4)], {}, UsageError, "parameters and buffers"),
        (lambda: [OrthogonalAutoencoder((12, d, 3), 0.5) for d in (8, 7)], {}, UsageError, "same shapes"),
        (lambda: [Regular(torch.nn.BatchNorm1d(4))], {}, UsageError, "changes buffers"),
        (lambda: [Regular(torch.nn.Dropout(0.5))] * 2, {}, UsageError, "cannot be stacked"),
        (lambda: [PerRow(1.0)], {}, UsageError, r"take \.mean"),
        (lambda: Tiny(1.0), {"seeds": [0]}, UsageError, "list of modules"),
        (lambda: [torch.nn.Linear(2, 2)], {}, UsageError, "list of modules"),
        (models, {"watch": lambda steps, seen: [1.0]}, UsageError, "3 models, got 1"),
        (models, {"watch": lambda steps, seen: [np.float32(1.0)] * len(seen)}, UsageError, "JSON"),
    ],
)
def test_what_cannot_be_trained_is_refused(make: Any, options: dict[str, Any], error: type, parts: str) -> None:
    made = make()
    seeds = options.pop("seeds", [*range(len(made))] if isinstance(made, list) else [0])
    with pytest.raises(error, match=parts):
        train(made, rows(), rows(60, 1), QUICK, seeds=seeds, **options)


def test_rows_that_cannot_be_trained_on_are_refused_and_layers_that_may_be_stacked_are_not() -> None:
    X = rows()
    with pytest.raises(DataError, match="validation rows"):
        train(models(), X, X[:, :5], QUICK, seeds=[0, 1, 2])
    with pytest.raises(DataError, match="NaN or infinite"):
        train(models(), np.where(X > 0.5, np.nan, X), X, QUICK, seeds=[0, 1, 2])
    for fine in (Regular(torch.nn.BatchNorm1d(4)).eval(), Regular(torch.nn.LayerNorm(4))):
        assert train([fine], X, X, QUICK, seeds=[0])[0].epochs == 8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch", 0),
        ("patience", 0),
        ("max_epochs", 0),
        ("learning_rate", 0.0),
        ("clip", -1.0),
        ("min_delta", float("inf")),
        ("min_delta", -1.0),
        ("clip_values", 0.0),
        ("epoch_steps", 0),
        ("keep", "first"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        Training(**{name: value})  # type: ignore[arg-type]


DIGIT = 4  # rows are its powers, so that the sum of a batch says how often each row is in it, up to 3 times


class Sum(Tiny):
    """Its loss is the mean of the batch."""

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mean() + 0 * self.a.sum()


def batches_seen(
    seed: int, epoch_steps: int | None, *, n: int = 10, batch: int = 4, epochs: int = 5
) -> list[list[int]]:
    """The rows of each epoch, sorted."""
    X = (float(DIGIT) ** np.arange(n))[:, None]
    settings = Training(batch=batch, max_epochs=epochs, epoch_steps=epoch_steps, patience=None)
    (found,) = train([Sum(0.0).double()], X, X, settings, seeds=[seed])
    rows_an_epoch = n if epoch_steps is None else batch * epoch_steps
    sums = [round(loss * rows_an_epoch) for loss in found.losses]
    return [[i for i in range(n) for _ in range(total // DIGIT**i % DIGIT)] for total in sums]


def test_epochs_of_some_steps_draw_full_batches_from_one_permutation_after_another() -> None:
    steps = batches_seen(3, 1)
    stream = np.concatenate([np.random.default_rng([3, number]).permutation(10) for number in range(2)])
    assert steps == [sorted(stream[a : a + 4].tolist()) for a in range(0, 20, 4)]
    assert sorted(i for rows_of_step in steps for i in rows_of_step) == sorted([*range(10)] * 2)
    assert batches_seen(4, 1) != steps
    assert batches_seen(3, None, epochs=2) == [[*range(10)]] * 2  # as it is without
    single, double = batches_seen(3, 1, epochs=6), batches_seen(3, 2, epochs=3)
    assert [sorted(a + b) for a, b in zip(single[::2], single[1::2], strict=True)] == double
    # a batch may be larger than the rows
    assert sorted(batches_seen(0, 1, n=3, batch=7, epochs=1)[0]) in [sorted([0, 1, 2] * 2 + [k]) for k in range(3)]


class Grouped(torch.nn.Module):
    """Two layers, of which biases and the codebook are not regularised."""

    def __init__(self, scale: float = 1.0, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.layer = torch.nn.Linear(12, 3)
            self.codebook = torch.nn.Parameter(torch.randn(3))
        self.register_buffer("scale", torch.tensor(scale))

    @staticmethod
    def regularised(name: str) -> bool:
        return name == "layer.weight"

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return self.scale * ((self.layer(batch) - 3 * self.codebook - 1) ** 2).mean()


CLIPPED = Training(batch=25, max_epochs=4, learning_rate=1e-2, clip=None, clip_values=0.02, keep="last")


def plain_groups(decay: float, *, clip_by_norm: bool = False, all_in_one_group: bool = False) -> Grouped:
    """The same with torch's AdamW, its groups and its clipping."""
    model, data = Grouped(), torch.as_tensor(rows())
    regularised = list(model.parameters()) if all_in_one_group else [model.layer.weight]
    others = [p for p in model.parameters() if not any(p is q for q in regularised)]
    groups = [{"params": regularised, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=CLIPPED.learning_rate, eps=1e-8)
    clip = torch.nn.utils.clip_grad_norm_ if clip_by_norm else torch.nn.utils.clip_grad_value_
    for epoch in range(CLIPPED.max_epochs):
        order = np.random.default_rng([7, epoch]).permutation(len(data))
        for a in range(0, len(data), CLIPPED.batch):
            optimizer.zero_grad()
            model.loss(data[order[a : a + CLIPPED.batch]]).backward()
            clip(regularised, CLIPPED.clip_values)
            optimizer.step()
    return model


def farthest(one: torch.nn.Module, other: torch.nn.Module) -> dict[str, float]:
    """The largest difference in each parameter."""
    pairs = zip(one.named_parameters(), other.parameters(), strict=True)
    return {name: float((a - b).detach().abs().max()) for (name, a), b in pairs}


@pytest.mark.parametrize("companions", [0, 2])
def test_decay_and_clipping_are_those_of_adamw_on_regularised_parameters_alone(companions: int) -> None:
    stack = [Grouped(), *(Grouped(seed=5) for _ in range(companions))]
    decays = [3.0, *[0.0] * companions]
    found = train(stack, rows(), rows(60, 1), CLIPPED, seeds=[7, *range(companions)], weight_decay=decays)[0].model
    assert max(farthest(found, plain_groups(3.0)).values()) < 1e-6
    assert farthest(found, plain_groups(0.0))["layer.weight"] > 0.01
    assert farthest(found, plain_groups(3.0, clip_by_norm=True))["layer.weight"] > 1e-3
    assert farthest(found, plain_groups(3.0, all_in_one_group=True))["layer.bias"] > 0.01


def test_the_last_parameters_are_kept_where_they_are_asked_for() -> None:
    X = np.zeros((2, 1), np.float32)
    best, last = (
        train([Tiny(1.5)], X, X, Training(batch=2, max_epochs=3, learning_rate=0.4, keep=keep), seeds=[0])[0]  # type: ignore[arg-type]
        for keep in ("best", "last")
    )
    assert best.validation == last.validation
    assert best.best_epoch == last.best_epoch < 2  # Adam's first step nearly hits, the next ones pass by
    assert float((best.model.a.detach() - 1) ** 2) == pytest.approx(best.validation[best.best_epoch])
    assert float((last.model.a.detach() - 1) ** 2) == pytest.approx(last.validation[-1])


class Noisy(Tiny):
    """Its loss is the mean of its noise, and of a squared parameter that noise drives away from 0."""

    noise = 3

    def loss(self, batch: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        assert noise.shape == (len(batch), 3)
        return (self.a * noise).mean() + 0 * batch.sum()


def noisy(seeds: list[int], start: float = 1.0, **options: object) -> list[Trained]:
    settings = Training(batch=25, max_epochs=6, epoch_steps=1, learning_rate=1e-9, keep="last")
    X = rows()
    return train([Noisy(start) for _ in seeds], X, X, settings, seeds=seeds, **options)  # type: ignore[arg-type]


def test_noise_differs_between_models_and_steps_but_not_between_runs() -> None:
    first, second = noisy([0, 1])
    assert len({*first.losses, *second.losses}) == 12
    assert [t.losses for t in noisy([0, 1])] == [first.losses, second.losses]
    (alone,) = noisy([1])
    assert alone.losses == pytest.approx(second.losses, rel=1e-5)
    drawn = [np.random.default_rng([1, step, training_module.NOISE]).standard_normal((25, 3)) for step in range(6)]
    assert second.losses == pytest.approx([float(d.mean()) for d in drawn], rel=1e-4)
    assert first.validation == second.validation == (0.0,) * 6  # which is without noise


def looking(steps: int, seen: object) -> list[dict[str, object]]:
    return [{"steps": steps, "sum": float(sum(p.detach().sum() for p in m.parameters()))} for m in seen]  # type: ignore[attr-defined]


def test_what_was_watched_is_returned_an_epoch_at_a_time() -> None:
    last = Training(batch=25, max_epochs=3, learning_rate=1e-2, keep="last")
    found = ran(last, watch=looking)
    for t in found:
        assert [w["steps"] for w in t.watched] == [5, 10, 15]
        assert t.steps == 15
        assert t.watched[-1] == looking(15, [t.model])[0]
        assert t.watched[0] != {**t.watched[-1], "steps": 5}
    assert [t.validation for t in found] == [t.validation for t in ran(last)]
    assert ran(last)[0].watched == ()


def test_a_watched_model_is_in_eval_mode_and_one_that_diverged_is_not_shown() -> None:
    shown = []

    def watch(steps: int, seen: list[object]) -> list[int]:
        shown.append(len(seen))
        assert not any(m.training for m in seen)  # type: ignore[attr-defined]
        return [0] * len(seen)

    fine, broken = models()[:2]
    with torch.no_grad():
        broken.encoder.weights[0].weight[0, 0] = float("nan")
    first, second = train([fine, broken], rows(), rows(60, 1), QUICK, seeds=[0, 1], watch=watch)
    assert shown == [1] * 8
    assert (len(first.watched), second.watched, second.steps) == (8, (), 0)


class Drawn(Grouped):
    noise = 3

    def loss(self, batch: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return ((self.layer(batch) + noise - 1) ** 2).mean() + (self.codebook**2).sum()


def test_an_interrupted_training_with_noise_decay_and_watching_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_module, "CHECKPOINT_SECONDS", 0.0)
    settings = Training(batch=25, epoch_steps=3, max_epochs=6, clip=None, clip_values=0.1, keep="last", patience=None)

    def run(decays: tuple[float, float] = (0.1, 0.2), **options: Any) -> list[Trained]:
        data = [Drawn(seed=k) for k in range(2)], rows(), rows(60, 1)
        return train(
            *data, settings, seeds=[0, 1], weight_decay=decays, **{"watch": looking, "watch_name": "sums", **options}
        )

    epochs: list[int] = []

    def stop_at_four(stage: str, done: int, total: int) -> None:
        epochs.append(done)
        if done == 4:
            raise KeyboardInterrupt

    whole = run()
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=tmp_path, progress=stop_at_four)
    for _ in range(2):  # the second time nothing is trained
        resumed = run(checkpoint=tmp_path, progress=lambda stage, done, total: epochs.append(done))
        assert epochs == [1, 2, 3, 4, 5, 6]
        for a, b in zip(whole, resumed, strict=True):
            assert (a.losses, a.validation, a.watched, a.steps) == (b.losses, b.validation, b.watched, b.steps)
            assert max(farthest(a.model, b.model).values()) == 0.0
    assert whole[0].watched != whole[1].watched
    for other in ({"decays": (0.1, 0.3)}, {"watch_name": "another profile"}):
        with pytest.raises(DataError, match="other data"):
            run(checkpoint=tmp_path, **other)


def test_bytes_are_trained_on_as_numbers_from_0_to_1_and_stay_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    as_numbers = training_module.as_numbers

    def noting(batch: torch.Tensor, precision: torch.dtype) -> torch.Tensor:
        taken.append((batch.dtype, batch.shape[-2]))
        return as_numbers(batch, precision)

    monkeypatch.setattr(training_module, "as_numbers", noting)
    pictures = np.random.default_rng(0).integers(0, 256, (120, 12), dtype=np.uint8)
    pictures.setflags(write=False)
    settings = Training(batch=25, epoch_steps=2, max_epochs=3)
    numbers = pictures.astype(np.float32) / 255

    def run(X: np.ndarray) -> tuple[float, ...]:
        return train([Grouped(), Grouped(seed=1)], X, X[:10], settings, seeds=[0, 1])[1].validation

    assert run(pictures) == run(numbers)
    assert (torch.uint8, 25) in taken
    assert max(n for kind, n in taken if kind == torch.uint8) == 25
    assert run(pictures.astype(np.int16)) != run(pictures)


def test_a_cosine_schedule_is_torchs_own_and_a_checkpoint_of_it_is_of_one_length(tmp_path: Path) -> None:
    settings = Training(batch=30, max_epochs=3, clip=None, learning_rate=0.05, schedule="cosine", keep="last")
    (found,) = train([Tiny(0.0)], rows(), rows(60, 1), settings, seeds=[0], checkpoint=tmp_path)
    model = Tiny(0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    for _ in range(12):
        optimizer.zero_grad()
        model.loss(torch.zeros(1)).backward()
        optimizer.step()
        schedule.step()
    assert found.model.a.item() == pytest.approx(model.a.item(), rel=1e-5)
    assert found.model.a.item() < 0.05 * 12 * 0.7  # a constant rate goes nearly 0.05 a step
    with pytest.raises(DataError, match="other data"):
        train([Tiny(0.0)], rows(), rows(60, 1), replace(settings, max_epochs=4), seeds=[0], checkpoint=tmp_path)
    with pytest.raises(UsageError, match="schedule 'linear'"):
        Training(schedule="linear")  # type: ignore[arg-type]
