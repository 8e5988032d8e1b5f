"""Merges the checkpoints of a forked job's copies: ``python -m hetopt.executor.merge_checkpoints PARTS TARGET``.

Arrays lie in ``.npz`` or ``.safetensors`` files; those of the same name in all checkpoints are averaged with the steps
that each copy has done as weights. All other files are taken from the copy that has done the most.
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
    """Publish the merged checkpoint at ``target``, whole or not at all; nothing happens where it is there already.

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
    shutil.copytree(most, hidden, ignore=_no_files)
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
        write_arrays(hidden / name, consolidate(states, weights, finite=False))  # they are, as was seen
    list_files(hidden)
    shutil.rmtree(target, ignore_errors=True)  # what is there is not complete
    os.rename(hidden, target)
    files.sync_folder(target.parent)


def _no_files(folder: str, names: Sequence[str]) -> list[str]:
    """Links that lead nowhere, pipes and the like: :func:`~hetopt.executor.job_side.list_files` leaves them out too."""
    return [name for name in names if not (os.path.isfile(f"{folder}/{name}") or os.path.isdir(f"{folder}/{name}"))]


def read_arrays(path: Path) -> Mapping[str, Any]:
    """Arrays by name; nothing in the file is executed.

    Raises
    ------
    InvalidOption
        It holds something else than arrays of numbers.
    """
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        return _read_safetensors(path)
    except ImportError:
        raise InvalidOption(f"{path.name}: to merge .safetensors, pip install 'hetopt[torch]'") from None
    except (OSError, MemoryError) as problem:
        if isinstance(problem, MemoryError) or problem.errno not in (None, *files.ABSENT):
            raise  # it may pass
        raise InvalidOption(f"{path} holds no plain arrays: {problem}") from None
    except Exception as problem:  # numpy, zipfile and safetensors raise many kinds for a damaged file
        raise InvalidOption(f"{path} holds no plain arrays: {problem}") from None


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    """As NumPy arrays, or, where NumPy has no such type (bfloat16), as tensors of PyTorch."""
    from safetensors import numpy

    try:
        arrays: Mapping[str, Any] = numpy.load_file(path)
    except (TypeError, KeyError):
        from safetensors import torch

        arrays = torch.load_file(path)
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """The same, written."""
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
    """Merge, and say in a line what is wrong; :data:`UNFIT` where trying again is useless."""
    if len(words) > 2:
        die_with(int(words[2]))  # the next controller starts a process of its own
    parts = [(Path(folder), float(weight)) for folder, weight in json.loads(words[0])]
    try:
        merge(parts, Path(words[1]))
    except InvalidOption as problem:
        print(problem, file=sys.stderr)
        return UNFIT
    except (OSError, MemoryError) as problem:
        print(raised(problem), file=sys.stderr)
        return 1
    except Exception as problem:
        print(raised(problem), file=sys.stderr)
        return UNFIT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
