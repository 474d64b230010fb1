"""One training loop for every model of this project, and many models in it at once.

Models of one architecture are stacked: each parameter gets a leading axis, and one vectorised program (`torch.func.vmap`)
takes a step of all of them. A single model is a stack of one, so there is one loop. Models share nothing: each has its own
start, order of rows, noise, weight decay, gradient norm and end, and reaches the losses it would reach alone, up to rounding.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, OutputError, UsageError
from identifiable._extras import require
from identifiable.nn.applying import as_numbers, rows_at_once
from identifiable.results import whole_file
from identifiable.results.kept import digest
from identifiable.run import Progress, Stage

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from safetensors import SafetensorError, safe_open  # noqa: E402
from safetensors.torch import save  # noqa: E402
from torch import nn  # noqa: E402
from torch.func import functional_call, stack_module_state, vmap  # noqa: E402

TOGETHER = 32  # models in one stack unless told otherwise; larger stacks gain nothing and take more memory
VALIDATION_ROWS = 1024  # rows of a validation pass at once, at most
SKETCHED = 64  # numbers of every parameter by which a checkpoint knows its models
STARTING_ROWS = 64  # on which the loss of every model is compared with what the stack makes of it
NOISE = 1  # marks the stream of a seed that noise is drawn from, so that it is not the one that orders rows
CHECKPOINT_SECONDS = 10.0  # between two checkpoints at least, so that writing them costs little

Values = NDArray[Any]  # numbers, or the bytes of pictures
Stopped = Literal["patience", "max_epochs", "diverged"]
Stack = dict[str, torch.Tensor]
Inputs = tuple[torch.Tensor, ...]  # rows, and noise where a model wants some
Watch = Callable[[int, Sequence[Any]], Sequence[Any]]


class Trainable(Protocol):
    """A module with `loss(rows)`, a mean over rows.

    One whose parameters are bound to a set has static `project_gradients(parameters, gradients)`, called before every
    step, and `project(parameters)`, called after it; both get stacks and work in place. One that wants random numbers has
    an attribute `noise`, how many for each row, and `loss(rows, noise)`. One with parameters that are to be neither
    decayed nor clipped has a static `regularised(name)`, false for those.
    """

    def loss(self, rows: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Training:
    """How models are trained: Adam, gradients clipped, early stopping on the validation loss.

    An epoch ends with a validation. It is one pass over the rows, or `epoch_steps` batches of a stream of permutations of
    the rows, all full; which rows a step sees then depends on the seed and the step alone. `clip` bounds the norm of a
    model's gradient, `clip_values` every number in it; None is no bound. `patience` None never stops early. `keep` says
    which parameters a trained model has: those of its best epoch, or the last. `schedule` cosine: the learning rate falls to 0 over
    `max_epochs`, along half a period.
    """

    learning_rate: float = 1e-3
    batch: int = 256
    max_epochs: int = 2000
    patience: int | None = 50
    min_delta: float = 1e-6
    clip: float | None = 1.0
    clip_values: float | None = None
    epoch_steps: int | None = None
    keep: Literal["best", "last"] = "best"
    schedule: Literal["constant", "cosine"] = "constant"

    def __post_init__(self) -> None:
        for name, choices in (("keep", ("best", "last")), ("schedule", ("constant", "cosine"))):
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} {getattr(self, name)!r}: expected {' or '.join(map(repr, choices))}.")
        for name in ("batch", "max_epochs", "patience", "epoch_steps"):
            value = getattr(self, name)
            if value is None and name in ("patience", "epoch_steps"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} {value!r}: expected a whole number of at least 1.")
        for name, open_end in (("learning_rate", True), ("clip", True), ("clip_values", True), ("min_delta", False)):
            value = getattr(self, name)
            if value is None and name in ("clip", "clip_values"):
                continue
            fits = isinstance(value, (int, float)) and (value > 0 or (value == 0 and not open_end))
            if not fits or not math.isfinite(value):
                raise UsageError(f"{name} {value!r}: expected a number {'above' if open_end else 'of at least'} 0.")


@dataclass(frozen=True, eq=False)
class Trained:
    """A model with the parameters of its best (or last) epoch, in eval mode, and how it got there.

    `losses`, `validation` and `watched` (what `watch` said) have one value an epoch; `best_epoch` counts from 0. `stopped`
    is `diverged` where a loss was no longer finite: the model is then the best (or last) one before that. `steps` were
    taken in all, up to the last of those epochs.
    """

    model: Any
    seed: int
    losses: tuple[float, ...]
    validation: tuple[float, ...]
    best_epoch: int
    stopped: Stopped
    steps: int
    watched: tuple[Any, ...] = ()

    @property
    def best_loss(self) -> float:
        """The validation loss of the best epoch; infinite where the first epoch diverged."""
        return self.validation[self.best_epoch] if self.validation else math.inf

    @property
    def epochs(self) -> int:
        return len(self.validation)


def train(
    models: Sequence[Trainable],
    rows: Values,
    validation: Values,
    settings: Training | None = None,
    *,
    seeds: Sequence[int],
    weight_decay: Sequence[float] | None = None,
    together: int = TOGETHER,
    watch: Watch | None = None,
    watch_name: str = "",
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    of: str = "",
) -> list[Trained]:
    """Train models of one architecture on the same rows, up to `together` of them at once.

    Parameters
    ----------
    models
        Modules with a method ``loss(rows)`` that returns one number, the mean over rows. What differs between them must be in
        their parameters and buffers; parameters that want no gradient stay as they are. A loss that changes buffers (batch
        norm) or draws random numbers (dropout) is refused. A model with an attribute ``noise`` above 0 is called as
        ``loss(rows, noise)`` instead, with so many standard normal numbers for each row, drawn from its seed and the step
        alone. Validation has zeros there: the loss at the mean of a posterior, which is what latents are read from, and
        not one draw's.
    rows, validation
        What to train on, and what early stopping looks at: arrays, a row for each example. Bytes (uint8) are pictures: they
        are kept as they are, and each batch is divided by 255.
    settings
        `Training`: Adam's learning rate, the batch, how long and how patiently, the largest gradient.
    seeds
        One for each model: they order the rows, anew every pass.
    weight_decay
        One number for each model, decoupled from the gradient as in AdamW: each step first takes learning rate times decay
        of every parameter off it. Where a model has a static ``regularised(name)``, parameters for which it is false are
        neither decayed nor clipped.
    watch
        Called after each validation with the number of steps done and the models still in training as they are then, in
        eval mode. It returns a value for each that JSON can hold; they are kept in the checkpoint, and in the results.
    watch_name
        What `watch` measures, with every setting of it: a checkpoint with values of another name is refused.
    checkpoint
        A folder that keeps the state of every stack, at most some seconds old: what an interrupted call has done until then is
        not done again, and what it returns in the end is what it would have returned. With a larger `max_epochs` it goes on
        from there, if the learning rate is constant. A checkpoint of other data, models or settings is refused.

    >>> class Mean(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.at = nn.Parameter(torch.zeros(2))
    ...     def loss(self, rows):
    ...         return ((rows - self.at) ** 2).mean()
    >>> X = np.ones((8, 2), np.float32)
    >>> run, = train([Mean()], X, X, Training(batch=8, max_epochs=300, learning_rate=0.1), seeds=[0])
    >>> run.model.at.detach().numpy().round(2), run.stopped
    (array([1., 1.], dtype=float32), 'patience')
    """
    settings = settings or Training()
    checkpoint = None if checkpoint is None else Path(checkpoint)
    if isinstance(models, nn.Module) or not all(hasattr(model, "loss") for model in models):
        raise UsageError("models: expected a list of modules with a method loss(rows) that returns a number.")
    rows, validation = np.asarray(rows), np.asarray(validation)
    decays = [0.0] * len(models) if weight_decay is None else list(weight_decay)
    _check(models, rows, validation, seeds, decays, together)
    precision = next((p.dtype for p in models[0].parameters() if p.is_floating_point()), torch.float32)  # type: ignore[attr-defined]
    data, held_out = _tensor(rows, precision), _tensor(validation, precision)
    identity = hashlib.sha256()
    for part in (data, held_out):
        identity.update(repr(tuple(part.shape)).encode())
        identity.update(part.numpy().reshape(-1).view(np.uint8))  # the memory itself: pictures may fill half of it
    if checkpoint is not None:
        try:
            checkpoint.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{checkpoint}: cannot keep checkpoints there ({error.strerror}); choose another folder."
            ) from None
    trained: list[Trained] = []
    for first in range(0, len(models), together):
        part = slice(first, first + together)
        run = _Run(models[part], data, held_out, settings, seeds[part], decays[part], watch, watch_name)
        path = checkpoint / f"models-{first:04d}.safetensors" if checkpoint is not None else None
        fingerprint = run.fingerprint(identity.copy())
        if path is not None and path.exists():
            run.load(path, fingerprint)
        saved = -math.inf
        while not run.ended:
            run.epoch()
            if path is not None and (run.ended or time.monotonic() - saved > CHECKPOINT_SECONDS):
                run.save(path, fingerprint)
                saved = time.monotonic()
            if progress is not None:
                stage = Stage(f"training {first + len(run.models)}/{len(models)}, epoch", of)
                progress(stage, len(run.losses), settings.max_epochs)
        trained += run.trained()
    return trained


class _Objective(nn.Module):
    """The loss as a forward pass, which is what `functional_call` calls."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model.loss(*inputs)
        return loss


class _Run:
    """The state of one stack. `active` are the models still in training; the stacks hold those alone, `kept` all of them.

    Models that end because of `max_epochs` stay active, so that a checkpoint can be gone on from.
    """

    def __init__(
        self,
        models: Sequence[Any],
        rows: torch.Tensor,
        validation: torch.Tensor,
        settings: Training,
        seeds: Sequence[int],
        decays: Sequence[float],
        watch: Watch | None,
        watch_name: str,
    ):
        self.models, self.rows, self.validation, self.settings, self.seeds = models, rows, validation, settings, seeds
        state, self.buffers = stack_module_state([_Objective(model) for model in models])
        frozen = {f"model.{name}" for name, p in models[0].named_parameters() if not p.requires_grad}
        self.buffers |= {name: state.pop(name).detach() for name in frozen}
        self.kept: Stack = {name: values.detach().clone() for name, values in state.items()}
        self.active = list(range(len(models)))
        self.best_loss = np.full(len(models), np.inf)
        self.best_epoch = np.zeros(len(models), dtype=np.int64)
        self.stopped: list[str] = [""] * len(models)
        self.losses: list[NDArray[np.float64]] = []  # one row an epoch, NaN for models that have ended
        self.validations: list[NDArray[np.float64]] = []
        self.watch, self.watch_name = watch, watch_name
        self.watched: list[list[Any]] = [[] for _ in models]
        self.precision = next((p.dtype for p in self.kept.values() if p.is_floating_point()), torch.float32)
        self.decay = torch.tensor(decays, dtype=self.precision)
        self.noise = int(getattr(models[0], "noise", 0))
        regularised = getattr(models[0], "regularised", lambda name: True)
        self.regularised = {name for name in self.kept if regularised(name.removeprefix("model."))}
        self._orders: dict[int, NDArray[np.int64]] = {}
        self._views: dict[int, Any] = {}
        blank = _Objective(deepcopy(models[0])).to("meta")

        def one(state: Stack, inputs: Inputs) -> torch.Tensor:
            loss: torch.Tensor = functional_call(blank, state, inputs)
            return loss

        self._one, self._own_rows, self._same_rows = one, vmap(one, in_dims=(0, 0)), vmap(one, in_dims=(0, None))
        self._project_gradients = getattr(models[0], "project_gradients", None)
        self._project = getattr(models[0], "project", None)
        self._set({name: values.clone() for name, values in self.kept.items()}, {})
        self.start = self._start()

    def _set(self, parameters: Stack, state: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """Make these the parameters in training, with what Adam remembers of them."""
        self.parameters = {name: values.requires_grad_() for name, values in parameters.items()}
        self.optimizer = torch.optim.Adam(self.parameters.values(), lr=self.settings.learning_rate, fused=True)
        for name, remembered in state.items():
            self.optimizer.state[self.parameters[name]] = dict(remembered)

    @property
    def ended(self) -> bool:
        return not self.active or len(self.losses) >= self.settings.max_epochs

    @property
    def epoch_steps(self) -> int:
        return self.settings.epoch_steps or math.ceil(len(self.rows) / self.settings.batch)

    def epoch(self) -> None:
        """A pass over the rows (or some steps) in every model's own order, the validation loss, and who has ended."""
        number, seen = len(self.losses), 0
        total = torch.zeros(len(self.active), dtype=torch.float64)
        for step in range(number * self.epoch_steps, (number + 1) * self.epoch_steps):
            chosen = torch.as_tensor(self._rows_of(step))
            total += self._step(step, chosen).double() * chosen.shape[1]
            seen += chosen.shape[1]
        loss = self._everyone(total / seen)
        validation = self._everyone(self._validate())
        self.losses.append(loss)
        self.validations.append(validation)
        finite = [place for place, m in enumerate(self.active) if math.isfinite(loss[m] + validation[m])]
        if self.watch is not None and finite:
            self._look(self.watch, finite)
        self._judge(number, finite, validation)

    def _rows_of(self, step: int) -> NDArray[np.int64]:
        """Which rows a step sees: a row of places for each active model.

        A pass ends with a batch that may be short, or, where epochs have a length of their own, in the middle of one.
        """
        n, batch = len(self.rows), self.settings.batch
        first, last = step * batch, (step + 1) * batch
        if self.settings.epoch_steps is None:
            number, within = divmod(step, self.epoch_steps)
            first, last = number * n + within * batch, number * n + min((within + 1) * batch, n)
        passes = range(first // n, (last - 1) // n + 1)
        self._orders = {p: self._orders[p] if p in self._orders else self._permutations(p) for p in passes}
        return np.concatenate([self._orders[p][:, max(first - p * n, 0) : last - p * n] for p in passes], axis=1)

    def _permutations(self, number: int) -> NDArray[np.int64]:
        return np.stack(
            [np.random.default_rng([self.seeds[m], number]).permutation(len(self.rows)) for m in self.active]
        )

    def _noise(self, step: int, count: int) -> torch.Tensor:
        generators = (np.random.default_rng([self.seeds[m], step, NOISE]) for m in self.active)
        drawn = np.stack([generator.standard_normal((count, self.noise)) for generator in generators])
        return torch.as_tensor(drawn).to(self.precision)

    def _own_losses(self, inputs: Inputs) -> torch.Tensor:
        """The loss of every active model on rows of its own."""
        state = self.parameters | self.buffers
        if len(self.active) > 1:
            losses: torch.Tensor = self._own_rows(state, inputs)
            return losses
        # A single one without vmap, with which a step of a convolutional model takes a tenth to a quarter longer.
        alone = {name: values.squeeze(0) for name, values in state.items()}
        return self._one(alone, tuple(values.squeeze(0) for values in inputs))[None]

    def _rate(self, step: int) -> float:
        first = self.settings.learning_rate
        if self.settings.schedule == "constant":
            return first
        return first * (1 + math.cos(math.pi * step / (self.settings.max_epochs * self.epoch_steps))) / 2

    def _step(self, step: int, chosen: torch.Tensor) -> torch.Tensor:
        inputs: Inputs = (as_numbers(self.rows[chosen], self.precision),)
        if self.noise:
            inputs += (self._noise(step, chosen.shape[1]),)
        losses = self._own_losses(inputs)
        self.optimizer.param_groups[0]["lr"] = rate = self._rate(step)
        self.optimizer.zero_grad()
        losses.sum().backward()  # models share no parameter, so each gets its own gradient
        with torch.no_grad():
            gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
            if self._project_gradients is not None:
                self._project_gradients(self.parameters, gradients)
            self._clip([gradient for name, gradient in gradients.items() if name in self.regularised])
            if self.decay.any():
                for name in gradients.keys() & self.regularised:
                    p = self.parameters[name]
                    p *= _of_models(1 - rate * self.decay, p)
            self.optimizer.step()
            if self._project is not None:
                self._project(self.parameters)
        return losses.detach()

    def _clip(self, gradients: Sequence[torch.Tensor]) -> None:
        if self.settings.clip_values is not None:
            for gradient in gradients:
                gradient.clamp_(-self.settings.clip_values, self.settings.clip_values)
        if self.settings.clip is not None and gradients:
            norm = torch.stack([g.reshape(len(g), -1).norm(dim=1) for g in gradients]).norm(dim=0)
            factor = (self.settings.clip / (norm + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_ does
            for gradient in gradients:
                gradient *= _of_models(factor, gradient)

    @torch.no_grad()
    def _validate(self) -> torch.Tensor:
        total = torch.zeros(len(self.active), dtype=torch.float64)
        at_once = min(VALIDATION_ROWS, rows_at_once(self.validation.shape[1:]))
        for a in range(0, len(self.validation), at_once):
            inputs = self._held_out(slice(a, a + at_once))
            if len(self.active) > 1:
                losses = self._same_rows(self.parameters | self.buffers, inputs)
            else:
                losses = self._own_losses(tuple(values[None] for values in inputs))
            total += losses.double() * len(inputs[0])
        return total / len(self.validation)

    def _held_out(self, part: slice) -> Inputs:
        """Validation rows as every model gets them, with noise of zero: see `train`."""
        rows = as_numbers(self.validation[part], self.precision)
        return (rows, torch.zeros(len(rows), self.noise, dtype=self.precision)) if self.noise else (rows,)

    def _look(self, watch: Watch, places: Sequence[int]) -> None:
        """Ask `watch` about active models, and keep what it says as JSON would, so that a resumed run has the same."""
        seen = []
        for place in places:
            m = self.active[place]
            if m not in self._views:
                self._views[m] = deepcopy(self.models[m])
            seen.append(_with(self._views[m], self.parameters, place))
        said = list(watch(len(self.losses) * self.epoch_steps, seen))
        if len(said) != len(seen):
            raise UsageError(f"watch: expected a value for each of {len(seen)} models, got {len(said)}.")
        try:
            said = json.loads(json.dumps(said))
        except (TypeError, ValueError) as error:
            raise UsageError(f"watch: expected values that JSON can hold ({error}); return plain numbers.") from None
        for place, value in zip(places, said, strict=True):
            self.watched[self.active[place]].append(value)

    def _everyone(self, of_active: torch.Tensor) -> NDArray[np.float64]:
        values = np.full(len(self.models), np.nan)
        values[self.active] = of_active.numpy()
        return values

    def _judge(self, number: int, finite: Sequence[int], validation: NDArray[np.float64]) -> None:
        going = []
        for place, m in enumerate(self.active):
            if place not in finite:
                self.stopped[m] = "diverged"
                continue
            better = validation[m] < self.best_loss[m] - self.settings.min_delta
            if better:
                self.best_loss[m], self.best_epoch[m] = validation[m], number
            if better or self.settings.keep == "last":
                for name, values in self.parameters.items():
                    self.kept[name][m] = values.detach()[place]
            if self.settings.patience is not None and number - self.best_epoch[m] >= self.settings.patience:
                self.stopped[m] = "patience"
            else:
                going.append(place)
        if len(going) < len(self.active):
            self._keep(going)

    def _keep(self, places: list[int]) -> None:
        """Go on with some of the active models only."""
        chosen = torch.as_tensor(places, dtype=torch.long)
        state = {
            name: {key: value[chosen] if value.ndim else value for key, value in self.optimizer.state[p].items()}
            for name, p in self.parameters.items()
            if p in self.optimizer.state
        }
        self.active = [self.active[place] for place in places]
        self._of_each(chosen)
        self._set({name: values.detach()[chosen] for name, values in self.parameters.items()}, state)

    def _of_each(self, chosen: torch.Tensor) -> None:
        """Of what every model has beside its parameters, leave that of some."""
        self.buffers = {name: values[chosen] for name, values in self.buffers.items()}
        self.decay, self._orders = self.decay[chosen], {}

    def trained(self) -> list[Trained]:
        return list(self._trained())

    def _trained(self) -> Iterator[Trained]:
        for m, model in enumerate(self.models):
            own = _with(deepcopy(model), self.kept, m)
            lasted = [k for k, row in enumerate(self.validations) if not math.isnan(row[m])]
            epochs = len(lasted)
            yield Trained(
                own.eval(),
                self.seeds[m],
                tuple(float(row[m]) for row in self.losses[:epochs]),
                tuple(float(row[m]) for row in self.validations[:epochs]),
                int(self.best_epoch[m]),
                self.stopped[m] or "max_epochs",  # type: ignore[arg-type]
                epochs * self.epoch_steps,
                tuple(self.watched[m]),
            )

    def fingerprint(self, data: Any) -> str:
        """A hash of what decides the outcome, but for the models as they start, which `start` tells.

        Where the learning rate is constant, `max_epochs` decides nothing about the epochs before.
        """
        decisive = asdict(self.settings)
        if decisive.pop("schedule") == "constant":
            del decisive["max_epochs"]
        # A run that was not watched cannot say what was seen, and one that was watched for something else says that.
        watched = self.watch is not None and (self.watch_name or True)
        seeds, decays = list(map(int, self.seeds)), self.decay.tolist()
        data.update(json.dumps([decisive, seeds, decays, watched, repr(self.models[0])]).encode())
        for name, values in self.buffers.items():
            data.update(name.encode() + values.contiguous().numpy().tobytes())
        return str(data.hexdigest())

    @torch.no_grad()
    def _start(self) -> torch.Tensor:
        """Some parameters of every model and its loss on some rows: alike up to rounding, which may depend on threads.

        The loss is that of the model alone. One that differs from its loss in the stack differs from the first model in
        something that is no parameter and no buffer, and would be trained as if it did not.
        """
        inputs = self._held_out(slice(STARTING_ROWS))
        trial = deepcopy(self.models[0])
        if trial.loss(*inputs).ndim:
            raise UsageError("loss(rows): expected one number, the mean over rows; take .mean().")
        buffers = zip(self.models[0].buffers(), trial.buffers(), strict=True)
        if any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in buffers):
            raise UsageError(
                "the loss changes buffers (batch norm in training mode?), which a stack cannot; use a layer norm."
            )
        alone = torch.stack([model.loss(*inputs).detach().double() for model in self.models])
        try:
            stacked = self._same_rows(self.parameters | self.buffers, inputs).double()
        except RuntimeError as error:  # random numbers, operations vmap does not know
            raise UsageError(f"the models cannot be stacked ({' '.join(str(error).split())}).") from None
        if not torch.allclose(alone, stacked, rtol=1e-3, atol=1e-6, equal_nan=True):
            raise UsageError("the models differ in more than parameters and buffers; train such models in other calls.")
        flat = [values.reshape(len(self.models), -1).double() for values in self.kept.values()]
        return torch.cat([alone[:, None], *(part[:, :: max(part.shape[1] // SKETCHED, 1)] for part in flat)], dim=1)

    def save(self, path: Path, fingerprint: str) -> None:
        """Write the state whole or not at all."""
        tensors = {f"kept/{name}": values for name, values in self.kept.items()}
        for name, values in self.parameters.items():
            if self.active:
                tensors[f"now/{name}"] = values.detach()
                tensors |= {f"adam/{key}/{name}": v for key, v in self.optimizer.state.get(values, {}).items()}
        tensors["start"] = self.start
        tensors["losses"] = torch.as_tensor(np.stack(self.losses))
        tensors["validations"] = torch.as_tensor(np.stack(self.validations))
        metadata = {
            "fingerprint": fingerprint,
            "active": json.dumps(self.active),
            "stopped": json.dumps(self.stopped),
            "best_epoch": json.dumps(self.best_epoch.tolist()),
            "watched": json.dumps(self.watched),
        }
        tensors = {name: value.contiguous() for name, value in tensors.items()}
        metadata["digest"] = _content(tensors, metadata)
        with whole_file(path) as temporary:
            temporary.write_bytes(save(tensors, metadata))

    def load(self, path: Path, fingerprint: str) -> None:
        """Go on from a checkpoint."""
        try:
            if not path.is_file():
                raise OSError("no file on disk")  # to open a pipe would wait for ever
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                # Cloned: memory aligned as that of a run never interrupted, for products that round alike.
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (no mapping)
        except (SafetensorError, OSError, ValueError) as error:
            raise DataError(f"{path}: not a checkpoint of training ({error}); remove it to begin anew.") from None
        start = tensors.get("start", torch.zeros(0))
        alike = start.shape == self.start.shape and torch.allclose(start, self.start, atol=1e-4, equal_nan=True)
        if metadata.get("fingerprint") != fingerprint or not alike:
            raise DataError(
                f"{path}: a checkpoint of other data, models or settings; remove it, or choose another folder."
            )
        try:
            if metadata.pop("digest", None) != _content(tensors, metadata):
                raise ValueError("its content was changed, or an older version wrote it")
            self._restore(tensors, metadata)
        except (KeyError, ValueError, TypeError, RuntimeError, IndexError) as error:
            raise DataError(f"{path}: not a checkpoint to go on from ({error}); remove it to begin anew.") from None

    def _restore(self, tensors: Stack, metadata: Mapping[str, str]) -> None:
        self.stopped = json.loads(metadata["stopped"])
        self.best_epoch = np.array(json.loads(metadata["best_epoch"]), dtype=np.int64)
        self.losses = list(tensors["losses"].numpy())
        if len(self.losses) > self.settings.max_epochs:
            raise ValueError(f"of {len(self.losses)} epochs, more than max_epochs {self.settings.max_epochs}")
        self.validations = list(tensors["validations"].numpy())
        self.watched = json.loads(metadata["watched"])
        self.kept = {name: tensors[f"kept/{name}"] for name in self.kept}
        everyone = np.arange(len(self.models))
        self.best_loss = np.stack(self.validations)[self.best_epoch, everyone]
        self.active = json.loads(metadata["active"])
        self._of_each(torch.as_tensor(self.active, dtype=torch.long))
        if not self.active:
            return
        state: dict[str, Stack] = {}
        for path in tensors:
            if path.startswith("adam/"):  # a parameter that never had a gradient has nothing there
                _, key, name = path.split("/", 2)
                state.setdefault(name, {})[key] = tensors[path]
        self._set({name: tensors[f"now/{name}"] for name in self.parameters}, state)


def _content(tensors: Stack, metadata: Mapping[str, str]) -> str:
    """A digest of a checkpoint: its words, and the name, type, shape and bytes of every tensor."""
    held = {
        name: [str(values.dtype), list(values.shape), values.reshape(-1).view(torch.uint8).numpy()]
        for name, values in tensors.items()
    }
    return digest({"tensors": held, **metadata})


def _of_models(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A number for each model, to be multiplied with a stack."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _with(model: Any, stack: Stack, place: int) -> Any:
    """A module in eval mode, with the parameters at one place of a stack."""
    model.load_state_dict({name.removeprefix("model."): v.detach()[place] for name, v in stack.items()}, strict=False)
    return model.eval()


def _tensor(rows: Values, precision: torch.dtype) -> torch.Tensor:
    """Rows in the precision of the models; bytes stay bytes, in the memory (or the mapped file) where they are."""
    with warnings.catch_warnings():
        # Nothing here writes to rows, so one that must not be written to is no danger.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.as_tensor(np.ascontiguousarray(rows))
    return tensor if tensor.dtype == torch.uint8 else tensor.to(precision)


def _check(
    models: Sequence[Any],
    rows: Values,
    validation: Values,
    seeds: Sequence[int],
    decays: Sequence[float],
    together: int,
) -> None:
    if not models or len(seeds) != len(models):
        raise UsageError(f"expected one seed for each of at least one model, got {len(models)} and {len(seeds)}.")
    shapes = [{name: tuple(v.shape) for name, v in m.state_dict().items()} for m in models]
    if any(type(m) is not type(models[0]) or found != shapes[0] for m, found in zip(models, shapes, strict=True)):
        raise UsageError(
            "expected models of one class with parameters of the same shapes; train others in another call."
        )
    if any(isinstance(s, bool) or not isinstance(s, (int, np.integer)) or s < 0 for s in seeds):
        raise UsageError(f"seeds {list(seeds)}: expected whole numbers of at least 0.")
    if len(decays) != len(models) or any(not (math.isfinite(decay) and decay >= 0) for decay in decays):
        raise UsageError(
            f"weight_decay {list(decays)}: expected a number of at least 0 for each of {len(models)} models."
        )
    if together < 1:
        raise UsageError(f"together {together}: expected a whole number of at least 1.")
    for name, values in (("rows", rows), ("validation rows", validation)):
        if values.ndim < 2 or not len(values) or values.shape[1:] != rows.shape[1:]:
            raise DataError(f"{name}: expected at least one row of shape {rows.shape[1:]}, got {values.shape}.")
        if values.dtype.kind in "iub":  # finite as they are; asking would take as much memory again
            continue
        with suppress(TypeError):
            if not np.isfinite(values).all():
                raise DataError(f"{name}: expected finite values, got NaN or infinite ones; remove those rows.")
