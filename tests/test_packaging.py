"""The folders are one distribution: nothing listed is absent from the wheel, and the wheel works alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from hetopt.errors import MissingPackage

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPED = {folder: package for package, folder in PROJECT["tool"]["setuptools"]["package-dir"].items() if "." in package}


def test_every_folder_with_code_is_a_listed_package() -> None:
    """A subpackage that is not listed would silently be absent from the wheel."""
    found = set()
    for folder, package in {"hetopt": "hetopt", **MAPPED}.items():
        inside = [p.parent.relative_to(ROOT / folder).parts for p in (ROOT / folder).rglob("__init__.py")]
        found |= {".".join([package, *parts]) for parts in inside}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_pinned_version_installs_on_the_oldest_python() -> None:
    """`make` fails on Python 3.11.2 if one of the pins asks for 3.11.5."""
    pins = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    asked = {}
    for name, version in pins:
        try:
            installed = metadata(name)
        except PackageNotFoundError:  # of an extra that is not installed
            continue
        if installed["Version"] == version:
            asked[name] = SpecifierSet(",".join(installed.get_all("Requires-Python", [])))
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
    assert asked
    assert {name: str(versions) for name, versions in asked.items() if oldest not in versions} == {}


def _requirements(lines: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", line)[0] for line in lines}


IMPORTED_AS = {
    "nvidia-ml-py": "pynvml",
    "scikit-learn": "sklearn",
    "prometheus-client": "prometheus_client",
    "z3-solver": "z3",
}


def test_errors_know_the_extra_of_every_package() -> None:
    """What is missing after a plain installation is named with the extra that installs it."""
    extras = PROJECT["project"]["optional-dependencies"]
    for package, extra in MissingPackage.EXTRAS.items():
        assert package in {IMPORTED_AS.get(name, name) for name in _requirements(extras[extra])}


PLAIN = """
import sys
from hetopt.errors import MissingPackage
class Plain:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        absent = name in MissingPackage.EXTRAS or name in ("sympy", "latex2mathml", "cvxpy", "ecos", "pytest")
        return None if absent else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Plain, sys.meta_path)
from hetopt.cli.main import main
"""
ONE = "main()"
EACH = """
for line in sys.argv[1:]:
    sys.argv = ["hetopt", *line.split()]
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{line}: {end.code}")
"""


def plain(tmp_path: Path, *words: str, program: str = ONE) -> subprocess.CompletedProcess[str]:
    """The command as after a plain installation."""
    return subprocess.run(
        [sys.executable, "-c", PLAIN + program, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )


WORKING = """
solve lab36 -p oef-cooperative --exact
audit lab36 -p gavel-max-min
place lab36/jobs -p oef-cooperative --time 7200
place asrpt/fig2 --method heavy-edge
simulate fft-trace-2 --cluster lab36 --count 4 --policy fft,fifo --out runs
show fft
reproduce fft --list
verify oef/thm-5.1-sharing oef/thm-5.4 --quick
verify --policy equal-split --instances 3 --seconds 0
submit --help
--help
"""


def test_a_plain_installation_does(tmp_path: Path) -> None:
    """Solving, auditing, simulating, deciding claims and the command line need no extra; in one process, for speed."""
    done = plain(tmp_path, *WORKING.strip().splitlines(), program=EACH)
    assert done.returncode == 0, done.stderr


def test_a_plain_installation_runs_jobs_on_cpu_slots(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("{name: train, steps: 1, command: ['true']}")
    (tmp_path / "slots.yaml").write_text("nodes: {desk: {slots: {cpu: 1}}}")
    state = ["--state", "state"]
    for words in (
        ["submit", "job.yaml", *state],
        ["run", "--slots", "slots.yaml", "--no-profile", "--poll", "0.05s", "--until-idle", *state],
        ["status", *state],
    ):
        done = plain(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    assert re.search(r"train +default +✓ done +1/1", done.stdout)


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        ("run --state state --policy fft", "pynvml", "run"),
        ("verify oef/eq-1-envy oef/thm-5.1-sharing --attack --seconds 1 --jobs 1", "z3", "prove"),
    ],
)
def test_what_a_plain_installation_lacks_is_one_line(tmp_path: Path, words: str, package: str, extra: str) -> None:
    done = plain(tmp_path, *words.split())
    assert done.returncode == 2
    assert done.stderr == f"hetopt: {package} is not installed; pip install 'hetopt[{extra}]'\n"


@pytest.mark.parametrize("folder", MAPPED)
def test_a_mapped_folder_refuses_its_other_name(folder: str) -> None:
    """From the root `import models` would load a second copy; the error states the right name."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder.replace('/', '.')}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"import this package as {MAPPED[folder]}, not as" in done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that no build folder is left in the checkout."""
    out, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    for folder in ("hetopt", *MAPPED):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source / file)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return next(out.glob("*.whl"))


def test_the_wheel_holds_all_modules_and_data(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("hetopt", *MAPPED):
        package = MAPPED.get(folder, folder).replace(".", "/")
        for pattern in ("*.py", "*/*.py", "*.yaml", "*/*.yaml", "*/*.csv", "py.typed"):
            found = [p.relative_to(ROOT / folder) for p in (ROOT / folder).glob(pattern)]
            assert {f"{package}/{p.as_posix()}" for p in found} <= inside


EXAMPLE = """
import hetopt
from hetopt.engine_conformance import CHECKS
from hetopt.models import oef
assert CHECKS
assert "site-packages" in hetopt.__file__, hetopt.__file__
inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
print(round(hetopt.solve(oef.cooperative(), inst).certificate.objective, 9))
"""


def test_the_wheel_runs_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Installed without its dependencies (those of this environment are lent by path), it solves an example."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    lent = [p for p in sys.path if p.endswith("site-packages")]
    example = f"import sys\nsys.path[:] = [p for p in sys.path if p] + {lent!r}\n{EXAMPLE}"
    done = subprocess.run([python, "-I", "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "5.25", done.stderr


def test_packages_are_there_after_importing_hetopt_alone(tmp_path: Path) -> None:
    """``hetopt.instances.load(...)`` needs no import of its own; what does not exist is still an AttributeError."""
    code = (
        "import hetopt; print(hetopt.instances.load('oef/eq6')); print(hetopt.models.oef.cooperative().title)\n"
        "for package, name in ((hetopt, 'modles'), (hetopt.models, 'oeff'), (hetopt.models, '__path')):\n"
        "    try: getattr(package, name)\n"
        "    except AttributeError as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "oef/eq6: 2 tenants, 0 jobs; 1 GPU1 + 1 GPU2 on 2 servers; time 0 s",
        "OEF cooperative",
        "module 'hetopt' has no attribute 'modles'",
        "module 'hetopt.models' has no attribute 'oeff'",
        "module 'hetopt.models' has no attribute '__path'",
    ]
