"""Trained models: how fast each GPU type trains them, and what they need. Those of papers: :mod:`.catalogues`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetopt.checks import FrozenDict, choices, count, known, mapping, members, number, text, unique
from hetopt.data.cluster import Cluster
from hetopt.data.workload import Parallelism
from hetopt.errors import InvalidInstance, UnknownName


@dataclass(frozen=True)
class TrainedModel:
    """A model that jobs train.

    Parameters
    ----------
    name:
        As tables and jobs refer to it, e.g. ``"VGG-16"``.
    speed:
        GPU type -> throughput of a gang on this type over that on the first type named (no unit); 0 where it cannot
        run. It is the same for all sizes of gangs.
    memory_bytes:
        Memory that one worker needs, in bytes; 0 if unknown.
    state_bytes:
        What moves with the job: 16 bytes for each parameter, that is its value (4), two moments of Adam (8) and an
        accumulated gradient (4) [FFT, Fig. 1(b)].
    dataset, dataset_bytes:
        Name and size of what it is trained on; None if there is nothing on the disk.
    parallelism:
        How it uses several GPUs.
    gpus:
        Numbers of GPUs on which it is trained.

    Raises
    ------
    InvalidInstance
        Anything negative, NaN, no speed above 0, no number of GPUs.
    """

    name: str
    speed: Mapping[str, float]
    memory_bytes: float = 0.0
    state_bytes: float = 0.0
    dataset: str | None = None
    dataset_bytes: float = 0.0
    parallelism: Parallelism = Parallelism.DATA
    gpus: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        key = f"models[{text(self.name, 'model name')!r}]"
        speed = {t: number(v, f"{key}.speed[{t!r}]") for t, v in mapping(self.speed, f"{key}.speed").items()}
        if not any(speed.values()):
            raise InvalidInstance(f"{key}.speed is {speed!r}; at least one GPU type must have a value > 0")
        object.__setattr__(self, "speed", FrozenDict(speed))
        for name in ("memory_bytes", "state_bytes", "dataset_bytes"):
            object.__setattr__(self, name, number(getattr(self, name), f"{key}.{name}"))
        if self.dataset is not None:
            text(self.dataset, f"{key}.dataset")
        try:
            object.__setattr__(self, "parallelism", Parallelism(self.parallelism))
        except ValueError:
            kinds = ", ".join(Parallelism)
            raise InvalidInstance(f"{key}.parallelism is {self.parallelism!r}; it must be one of {kinds}") from None
        if not isinstance(self.gpus, (tuple, list)) or not self.gpus:
            raise InvalidInstance(f"{key}.gpus is {self.gpus!r}; it must hold at least one number of GPUs")
        gpus = sorted({count(n, f"{key}.gpus", least=1) for n in self.gpus})
        object.__setattr__(self, "gpus", tuple(gpus))

    def held_by(self, cluster: Cluster) -> tuple[str, ...]:
        """GPU types that can train it: the cluster has some, it runs there, and their memory is large enough."""
        return tuple(
            t.name
            for t in cluster.gpu_types
            if self.speed.get(t.name, 0.0) > 0
            and (t.memory_bytes is None or self.memory_bytes <= t.memory_bytes)
            and cluster.capacity[t.name] > 0
        )


@dataclass(frozen=True, eq=False)
class Catalogue(Mapping[str, TrainedModel]):
    """Trained models by name.

    Parameters
    ----------
    name:
        What it is called.
    models:
        With different names; all with a speed for the same GPU types.
    reference:
        GPU type to which durations of a trace refer, unless another is asked for; by default the first.

    Raises
    ------
    InvalidInstance
        No model, two of one name, different GPU types, a reference that is none of them.
    """

    name: str
    models: tuple[TrainedModel, ...]
    reference: str = ""

    def __post_init__(self) -> None:
        text(self.name, "catalogue name")
        models = members(self.models, TrainedModel, "models")
        object.__setattr__(self, "models", models)
        if not models:
            raise InvalidInstance(f"catalogue {self.name!r} has no model; it must have at least one")
        unique((model.name for model in models), "model")
        for model in models:
            if set(model.speed) != set(self.types):
                raise InvalidInstance(
                    f"models[{model.name!r}].speed has {', '.join(model.speed)}; "
                    f"all models of a catalogue must have the same GPU types, here {', '.join(self.types)}"
                )
        reference = self.reference or self.types[0]
        object.__setattr__(self, "reference", known(reference, self.types, "reference", "GPU type"))
        object.__setattr__(self, "_by_name", {model.name: model for model in models})

    @property
    def types(self) -> tuple[str, ...]:
        """GPU types whose speed is known, in order."""
        return tuple(self.models[0].speed)

    def __getitem__(self, name: str) -> TrainedModel:
        try:
            found: TrainedModel = self._by_name[name]  # type: ignore[attr-defined]
        except (KeyError, TypeError):
            raise UnknownName(f"there is no model {name!r} in {self.name!r}; {choices(str(name), self)}") from None
        return found

    def __iter__(self) -> Iterator[str]:
        return (model.name for model in self.models)

    def __len__(self) -> int:
        return len(self.models)

    def trained_on(self, gpus: int, among: Collection[str] | None = None) -> tuple[str, ...]:
        """Names of the models that train on so many GPUs.

        Where there are none, those that train on the nearest number by ratio, the smaller of two; a job of several GPUs
        has a model that trains on one only where no model trains on more.

        Parameters
        ----------
        among:
            Only these are looked at.
        """
        models = [model for model in self.models if among is None or model.name in among]
        numbers = sorted({n for model in models for n in model.gpus})
        if gpus > 1:
            numbers = [n for n in numbers if n > 1] or numbers
        if not numbers:
            return ()
        near = min(numbers, key=lambda n: Fraction(max(n, gpus), min(n, gpus)))
        return tuple(model.name for model in models if near in model.gpus)
