"""Merges checkpoints of a job's copies: ``python -m hetopt.executor.merge_checkpoints PARTS TARGET [PARENT]``.

Arrays in ``.npz`` and ``.safetensors`` files are averaged by their names, weighted by the steps of each copy. All other
files are copied from the copy with the most steps.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.averaging import consolidate, diverged
from hetopt.executor.job_side import list_files
from hetopt.executor.processes import die_with
from hetopt.plugins import raised

UNFIT = 3
"""Exit code: the checkpoints do not fit together."""


def merge(parts: Sequence[tuple[Path, float]], target: Path) -> None:
    """Publish the merged checkpoint at ``target``, whole or not at all; one that is there already stays.

    Parameters
    ----------
    parts:
        Checkpoints and their weights.

    Raises
    ------
    InvalidOption
        The checkpoints do not fit together.
    """
    if target.is_dir() and files.is_complete(target):
        return
    hidden = target.with_name(f".{target.name}.{os.getpid()}")
    for old in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(old, ignore_errors=True)
    most = max(parts, key=lambda part: part[1])[0]
    shutil.copytree(most, hidden, ignore=_not_files)
    (hidden / "files.json").unlink(missing_ok=True)
    weights = [weight for _, weight in parts]
    for path in sorted(most.rglob("*")):
        name = path.relative_to(most)
        if path.suffix not in (".npz", ".safetensors"):
            continue
        states = []
        for folder, _ in parts:
            if not (folder / name).is_file():
                raise InvalidOption(f"{folder} has no {name}; all copies of a job must save the same files")
            states.append(read_arrays(folder / name))
            if (wrong := diverged(states[-1])) is not None:
                raise InvalidOption(f"{folder / name}: {wrong!r} has NaN or infinite entries: this copy has diverged")
        write_arrays(hidden / name, consolidate(states, weights, finite=False))  # they are finite
    list_files(hidden)
    shutil.rmtree(target, ignore_errors=True)  # what is there is not complete
    os.rename(hidden, target)
    files.sync_folder(target.parent)


def _not_files(folder: str, names: Sequence[str]) -> list[str]:
    """Dangling links, pipes etc., which :func:`~hetopt.executor.job_side.list_files` leaves out too."""
    return [name for name in names if not (os.path.isfile(f"{folder}/{name}") or os.path.isdir(f"{folder}/{name}"))]


def read_arrays(path: Path) -> Mapping[str, Any]:
    """Arrays by name; nothing in the file is unpickled.

    Raises
    ------
    InvalidOption
        The file is damaged, or holds other things than arrays of numbers.
    """
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        return _read_safetensors(path)
    except ImportError:
        raise InvalidOption(f"{path.name}: to merge .safetensors, pip install 'hetopt[torch]'") from None
    except Exception as problem:  # numpy, zipfile and safetensors raise many kinds for a damaged file
        temporary = isinstance(problem, OSError) and problem.errno not in (None, *files.ABSENT)
        if temporary or isinstance(problem, MemoryError):
            raise
        raise InvalidOption(f"{path} holds no plain arrays: {problem}") from None


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    """As NumPy arrays, or as tensors of PyTorch where NumPy has no such type (bfloat16)."""
    from safetensors import numpy

    try:
        arrays: Mapping[str, Any] = numpy.load_file(path)
    except (TypeError, KeyError):
        from safetensors import torch

        arrays = torch.load_file(path)
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to an ``.npz`` or ``.safetensors`` file, by its suffix."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return
    if all(isinstance(value, (np.ndarray, np.generic)) for value in arrays.values()):
        from safetensors import numpy

        numpy.save_file({name: np.require(value, requirements="C") for name, value in arrays.items()}, path)
    else:
        from safetensors import torch

        torch.save_file({name: value.contiguous() for name, value in arrays.items()}, path)


def main(words: list[str]) -> int:
    """Merge, or print a line with the error: exit code 1, or :data:`UNFIT` where another attempt is useless."""
    if len(words) > 2:
        die_with(int(words[2]))  # the next controller starts its own process
    parts = [(Path(folder), float(weight)) for folder, weight in json.loads(words[0])]
    try:
        merge(parts, Path(words[1]))
    except Exception as problem:
        print(problem if isinstance(problem, InvalidOption) else raised(problem), file=sys.stderr)
        return 1 if isinstance(problem, (OSError, MemoryError)) else UNFIT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
