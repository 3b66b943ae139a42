"""What a stranger installs: the documented commands, the metadata, and the installed package."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.folders import ROOT

DISTRIBUTION = "llm-inspect-tui"
PACKAGES = ("engine", "inspector", "sessions", "themes")
INSTALL = 'pip install -c constraints.txt . && llm-inspect "The capital of France is"'
TEST = 'pip install -c constraints.txt ".[test,dev]" && python tests'

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]

IMPORT_NAMES = {"PIL": "pillow", "yaml": "pyyaml"}
"""Import name to distribution, where they differ by more than case and dashes."""


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["test"], *extras["dev"]]
    return [Requirement(line) for line in lines]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins), "only NAME==VERSION"
    return {canonicalize_name(name): version for name, version in (p.split("==") for p in pins)}


# The documents and the metadata


def test_readme_shows_the_two_commands_on_its_first_screen():
    first_screen = (ROOT / "README.md").read_text("utf-8").splitlines()[:30]
    assert INSTALL in first_screen
    assert TEST in first_screen


def test_ci_calls_the_test_command_of_the_readme_and_ends_there():
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands[-1] == TEST
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_constraints_pin_every_direct_dependency_inside_its_range():
    pins = constraints()
    assert "pip" not in pins  # it would replace the pip that reads the file
    for requirement in requirements():
        if requirement.name == "pip":
            continue
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(version), f"{version} is outside {requirement}"


def test_every_dependency_has_a_lower_and_an_upper_bound():
    for line in PROJECT["dependencies"]:
        requirement = Requirement(line)
        operators = {spec.operator for spec in requirement.specifier}
        assert operators == ({">="} if requirement.name == "pip" else {">=", "<"}), line


def test_what_is_imported_is_declared():
    """A package that only comes along with another may go away with that other's next release."""
    declared = {canonicalize_name(requirement.name) for requirement in requirements()}
    optional = {
        canonicalize_name(Requirement(line).name)
        for line in PROJECT["optional-dependencies"]["grammar"]
    }
    undeclared = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in imported(path) - set(sys.stdlib_module_names) - set(PACKAGES):
                if canonicalize_name(IMPORT_NAMES.get(name, name)) not in declared | optional:
                    undeclared.setdefault(name, str(path.relative_to(ROOT)))
    assert not undeclared


def imported(path: Path) -> set[str]:
    """The top-level names that a file imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_the_licence_is_the_one_declared():
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


# The installed package


@pytest.fixture(scope="module")
def installed() -> metadata.Distribution:
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{DISTRIBUTION} is not installed in this environment")


def outside(folder: Path, *command: str) -> str:
    """Run a command where this source tree is not on the path, so that what is installed runs."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def test_the_installed_version_is_this_one(installed):
    assert installed.version == PROJECT["version"]
    assert installed.metadata["License-Expression"] == "Apache-2.0"


def test_the_installed_command_runs(installed, tmp_path):
    command = Path(sysconfig.get_path("scripts")) / "llm-inspect"
    assert PROJECT["version"] in outside(tmp_path, str(command), "--version")


def test_the_module_is_the_same_program(installed, tmp_path):
    out = outside(tmp_path, sys.executable, "-m", "inspector", "--version")
    assert PROJECT["version"] in out


def test_the_installed_themes_load(installed, tmp_path):
    code = "import json, themes; print(json.dumps([themes.load(n).name for n in themes.names()]))"
    names = json.loads(outside(tmp_path, sys.executable, "-c", code))
    assert set(names) == {path.stem for path in (ROOT / "themes").glob("*.toml")}


def test_no_file_was_left_out_of_the_package(installed):
    direct_url = json.loads(installed.read_text("direct_url.json") or "{}")
    if direct_url.get("dir_info", {}).get("editable"):
        pytest.skip("an editable install is this source tree")
    inside = {str(path) for path in installed.files or ()}
    source = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert not source - inside, "left out, or the install is older than the source: install again"
    assert {f"{package}/py.typed" for package in PACKAGES} <= inside
