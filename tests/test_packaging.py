"""tilegen works from a wheel, from an sdist and from an editable install, away from its source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def call(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the project would be cloned as, so that builds leave nothing behind here."""
    copy = tmp_path_factory.mktemp("source") / "tilegen"
    names = call("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return copy


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it: what the sdist misses, the wheel misses too."""
    folder = tmp_path_factory.mktemp("built")
    call(sys.executable, "-m", "build", "--outdir", folder, source, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    return next(built.glob("tilegen-*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("tilegen-*.whl"))


def environment(folder: Path, *install: str | Path) -> Path:
    """A fresh virtual environment with tilegen installed so, and links to this environment's other packages."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    call(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *install, cwd=folder)
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        ours = "tilegen" in package.name or package.suffix == ".pth"
        if not ours and not (site / package.name).exists():
            (site / package.name).symlink_to(package)
    return folder / "bin"


def assert_works(bin: Path, installed_in: Path, elsewhere: Path) -> None:
    """The command checks a sample from another folder, by the package that stands in `installed_in`."""
    place = call(bin / "python", "-c", "import tilegen; print(tilegen.__file__)", cwd=elsewhere).strip()
    assert Path(place).resolve().is_relative_to(installed_in.resolve())
    script = "from tilegen.resources import resource as r; print(r('grammar', 'tile.lark'), r('templates', 'hopper'))"
    grammar, templates = call(bin / "python", "-c", script, cwd=elsewhere).split()
    assert Path(grammar).resolve().is_relative_to(installed_in.resolve())
    assert Path(templates).resolve().is_relative_to(installed_in.resolve())
    sample = elsewhere / "copy.tile"
    sample.write_text((ROOT / "samples" / "copy.tile").read_text())
    assert "copy" in call(bin / "tilegen", "check", "copy.tile", cwd=elsewhere)


def test_the_sdist_holds_everything_a_clone_does(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = {"grammar/tile.lark", "samples/copy.tile", "tests/conftest.py", "tools/check_layers.py", ".ci/run"}
    assert wanted <= names
    assert any(name.startswith("templates/hopper/") for name in names)


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "tilegen/_data/grammar/tile.lark" in names
    assert any(name.startswith("tilegen/_data/templates/hopper/") for name in names)
    assert "tilegen/_data/samples/fa3_fwd.tile" in names
    assert "tilegen/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tilegen"}


def test_a_wheel_works_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    bin = environment(tmp_path / "venv", wheel)
    (tmp_path / "elsewhere").mkdir()
    assert_works(bin, tmp_path / "venv", tmp_path / "elsewhere")


def test_an_editable_install_works_from_another_folder(source: Path, tmp_path: Path) -> None:
    bin = environment(tmp_path / "venv", "-e", source)
    (tmp_path / "elsewhere").mkdir()
    assert_works(bin, source, tmp_path / "elsewhere")
