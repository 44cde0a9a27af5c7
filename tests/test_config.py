"""Which rules run where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amp_lint import registry
from amp_lint.config import Choice, ConfigError, Settings, load, matching, resolve
from amp_lint.rule import Rule, Severity
from amp_lint.target import lower_bound, parse_version

CLIP = "AMP101"


def choice(**values: object) -> Choice:
    return Choice("test", **values)  # type: ignore[arg-type]


def codes(*layers: Choice) -> set[str]:
    return {rule.code for rule in resolve(layers)}


def write(folder: Path, table: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f"[tool.amp-lint]\n{table}\n")
    return folder


def selected(path: Path, options: Choice | None = None) -> set[str]:
    selection = Settings(options or choice()).selection(path)
    return {rule.code for rule in selection.rules}


def target(path: Path, options: Choice | None = None) -> tuple[int, int] | None:
    return Settings(options or choice()).selection(path).target_torch


STABLE = {rule.code for rule in registry.all_rules() if not rule.preview}


@pytest.mark.parametrize("selector", ["AMP101", "amp101", "clip-before-unscale", "AMP10"])
def test_a_code_a_prefix_and_a_name_choose_a_rule(selector: str) -> None:
    assert CLIP in {rule.code for rule in matching(selector)}
    assert "AMP401" not in {rule.code for rule in matching(selector)}


@pytest.mark.parametrize("selector", ["ALL", "all", "AMP"])
def test_all(selector: str) -> None:
    assert matching(selector) == registry.all_rules()


@pytest.mark.parametrize("selector", ["", "A", "E501", "AMP1010", "AMP900", "clip-before"])
def test_what_chooses_nothing(selector: str) -> None:
    assert matching(selector) == ()


def test_all_stable_rules_run_unless_told_otherwise() -> None:
    assert codes(choice()) == STABLE


def test_the_longer_selector_wins() -> None:
    assert codes(choice(select=("AMP101",), ignore=("AMP1",))) == {CLIP}
    assert codes(choice(select=("AMP1",), ignore=("AMP",))) == {c for c in STABLE if c[3] == "1"}
    assert CLIP not in codes(choice(select=("AMP",), ignore=("clip-before-unscale",)))
    assert codes(choice(select=("ALL",), ignore=("ALL",))) == set()


def test_the_command_line_stands_above_the_file() -> None:
    assert codes(choice(ignore=("AMP1",)), choice(select=("AMP101",))) == {CLIP}
    assert codes(choice(select=("AMP101",)), choice(ignore=("AMP101",))) == set()
    both = codes(choice(select=("AMP401",)), choice(extend_select=("AMP101",)))
    assert both == {CLIP, "AMP401"}


class Preview(Rule):
    code = "AMP199"
    name = "some-preview"
    severity = Severity.INFO
    preview = True
    requires = ()


@pytest.mark.parametrize(("preview", "runs"), [(None, False), (False, False), (True, True)])
def test_preview_rules_need_preview(
    monkeypatch: pytest.MonkeyPatch, preview: bool | None, runs: bool
) -> None:
    rules = (*registry.all_rules(), Preview())
    monkeypatch.setattr(registry, "all_rules", lambda: rules)
    assert ("AMP199" in codes(choice(select=("AMP199",), preview=preview))) is runs


def test_the_nearest_table_governs(tmp_path: Path) -> None:
    write(tmp_path, 'select = ["AMP401"]')
    below = write(tmp_path / "a" / "b", 'select = ["AMP101"]')
    assert selected(tmp_path / "x.py") == {"AMP401"}
    assert selected(tmp_path / "a" / "x.py") == {"AMP401"}
    assert selected(below / "x.py") == selected(below / "c" / "x.py") == {CLIP}


def test_a_pyproject_without_the_table_does_not_govern(tmp_path: Path) -> None:
    write(tmp_path, 'select = ["AMP101"]')
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n[project]\nname = 'a'\n")
    assert selected(tmp_path / "a" / "x.py") == {CLIP}


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one", 'select = ["AMP101"]\nexclude = ["x.py"]')
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "two")
    assert selected(Path("../one/y.py")) == {CLIP}
    assert Settings(choice()).excluded(Path("../one/x.py"))
    assert selected(Path("y.py")) == STABLE


def test_per_file_ignores(tmp_path: Path) -> None:
    write(tmp_path, '[tool.amp-lint.per-file-ignores]\n"tests/*" = ["AMP1"]\n"old.py" = ["ALL"]')
    assert CLIP in selected(tmp_path / "a.py")
    assert selected(tmp_path / "tests" / "a.py") == {c for c in STABLE if c[3] != "1"}
    assert selected(tmp_path / "deep" / "old.py") == set()


def test_exclude(tmp_path: Path) -> None:
    write(tmp_path, 'exclude = ["/gen/", "*_pb2.py", "!keep_pb2.py"]')
    settings = Settings(choice())
    assert settings.excluded(tmp_path / "gen", directory=True)
    assert settings.excluded(tmp_path / "gen" / "a.py")
    assert settings.excluded(tmp_path / "deep" / "a_pb2.py")
    assert not settings.excluded(tmp_path / "keep_pb2.py")
    assert not settings.excluded(tmp_path / "deep" / "gen", directory=True)


WRONG = [
    ('slect = ["AMP1"]', "tool.amp-lint.slect is no setting"),
    ('select = "AMP1"', "tool.amp-lint.select must be a list"),
    ("ignore = [1]", "tool.amp-lint.ignore must be a list"),
    ('ignore = ["E501"]', "'E501' matches no rule"),
    ('extend-select = [""]', "'' matches no rule"),
    ('preview = "yes"', "tool.amp-lint.preview must be true or false"),
    ("target-torch = 2.1", "tool.amp-lint.target-torch must be a string"),
    ('target-torch = "latest"', "tool.amp-lint.target-torch must be a string"),
    ("per-file-ignores = []", "tool.amp-lint.per-file-ignores must be a table"),
    ('per-file-ignores = {"a.py" = "AMP1"}', "tool.amp-lint.per-file-ignores.'a.py' must be"),
    ('per-file-ignores = {"a.py" = ["X1"]}', "'X1' matches no rule"),
    ('exclude = ["!"]', "tool.amp-lint.exclude has a bad pattern"),
    ("select = [", "is not TOML"),
]


@pytest.mark.parametrize(("table", "message"), WRONG)
def test_a_wrong_setting_is_named_with_its_file(tmp_path: Path, table: str, message: str) -> None:
    write(tmp_path, table)
    with pytest.raises(ConfigError) as caught:
        Settings(choice()).selection(tmp_path / "a.py")
    assert message in str(caught.value)
    assert str(tmp_path / "pyproject.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_table_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\namp-lint = 1\n")
    with pytest.raises(ConfigError, match=r"tool\.amp-lint must be a table"):
        load(tmp_path / "pyproject.toml")


def test_no_table_no_settings(tmp_path: Path) -> None:
    assert load(tmp_path / "pyproject.toml") is None
    (tmp_path / "pyproject.toml").write_text("tool = 1\n")
    assert load(tmp_path / "pyproject.toml") is None


@pytest.mark.parametrize(
    ("requirement", "bound"),
    [
        ("torch>=2.1", (2, 1)),
        ("torch >= 2.1.2, < 3", (2, 1)),
        ("torch==1.13.1+cu117", (1, 13)),
        ("torch~=2.0", (2, 0)),
        ("torch==2.*", (2, 0)),
        ("torch>=2", (2, 0)),
        ("torch>1.10", (1, 10)),
        ("torch[opt]>=2.4; python_version > '3.8'", (2, 4)),
        ("torch>=1.8,!=2.0,>=2.1", (2, 1)),
        ("torch", None),
        ("torch<2.4", None),
        ("torch @ https://example.org/torch.whl", None),
        ("torch>=what", None),
    ],
)
def test_lower_bound(requirement: str, bound: tuple[int, int] | None) -> None:
    assert lower_bound([requirement]) == bound


def test_the_lowest_of_several_bounds() -> None:
    assert lower_bound(["torch>=2.4", "torch", "torch>=1.9"]) == (1, 9)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "torch>=2.2"]\n'),
        ("pyproject.toml", '[project]\noptional-dependencies = {gpu = ["torch>=2.2"]}\n'),
        ("requirements.txt", "-r base.txt\n# torch>=1\ntorch>=2.2  # why\ntorchvision>=0.1\n"),
        ("requirements.txt", "torch>=2.2 \\\n  --hash=sha256:0\ntorch-geometric>=1.0\n"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['torch>=2.2'])\n"),
        ("environment.yml", "dependencies:\n  - python=3.9\n  - pytorch=2.2.1\n"),
        ("environment.yaml", "dependencies:\n  - pip:\n    - torch>=2.2\n"),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=2.2\n"),
        ("setup.cfg", "[options.extras_require]\ngpu =\n    torch>=2.2\n"),
    ],
)
def test_the_project_says_what_torch_it_needs(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert target(tmp_path / "pkg" / "a.py") == (2, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project\n"),
        ("pyproject.toml", "[project]\ndependencies = 3\n"),
        ("pyproject.toml", "project = 3\n"),
        ("setup.cfg", "torch>=2.2\n"),
        ("requirements.txt", "torch\n"),
    ],
)
def test_no_bound(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "pkg").mkdir()
    write(tmp_path / "pkg", "")
    assert target(tmp_path / "pkg" / "a.py") is None


def test_options_above_settings_above_requirements(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.9\n")
    assert target(tmp_path / "a.py") == (1, 9)
    write(tmp_path, 'target-torch = "2.3"')
    assert target(tmp_path / "a.py") == (2, 3)
    assert target(tmp_path / "a.py", choice(target_torch=(2, 6))) == (2, 6)


def test_requirements_end_where_the_checkout_does(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.9\n")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    assert target(tmp_path / "other" / "a.py") == (1, 9)
    assert target(tmp_path / "repo" / "a.py") is None


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.3", (2, 3)), ("2.3.1", (2, 3)), ("2", (2, 0)), ("2.10", (2, 10)), ("x", None), ("", None)],
)
def test_parse_version(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version


def test_rules_load_without_the_parser() -> None:
    program = (
        "import sys; from amp_lint import registry; assert registry.all_rules(); "
        "sys.exit('libcst._nodes.module' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
