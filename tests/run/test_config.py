"""Which rules run where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amp_lint import registry
from amp_lint.rule import Rule
from amp_lint.run.choice import Choice, ConfigError, matching, resolve
from amp_lint.run.config import Settings
from amp_lint.run.settings_file import load
from amp_lint.run.target import lower_bound, parse_version
from amp_lint.text.diagnostic import Severity

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


EVERY = registry.every_rule()
STABLE = {rule.code for rule in EVERY if not (rule.preview or rule.about_comments)}


@pytest.mark.parametrize("selector", ["AMP101", "amp101", "clip-before-unscale", "AMP10"])
def test_a_code_a_prefix_and_a_name_choose_a_rule(selector: str) -> None:
    assert CLIP in {rule.code for rule in matching(selector)}
    assert "AMP401" not in {rule.code for rule in matching(selector)}


@pytest.mark.parametrize("selector", ["ALL", "all", "AMP"])
def test_all(selector: str) -> None:
    assert matching(selector) == registry.every_rule()


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
    rules = (*registry.every_rule(), Preview())
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
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
    ('slect = ["AMP1"]', "tool.amp-lint.slect is no setting; did you mean `select`?"),
    ("per_file_ignores = {}", "per_file_ignores is no setting; did you mean `per-file-ignores`?"),
    ("line-length = 3", "tool.amp-lint.line-length is no setting; settings are docstring-code, "),
    ('"a\\nb" = 3', "tool.amp-lint.'a\\nb' is no setting"),
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
    ('ignore = ["clip-before-unscal"]', "no rule; did you mean `clip-before-unscale`?"),
    ('exclude = ["!"]', "tool.amp-lint.exclude has a bad pattern: '!' names nothing"),
    ('extend-exclude = ["[a"]', "tool.amp-lint.extend-exclude has a bad pattern: '[a' has a ["),
    ('per-file-ignores = {"/" = []}', "tool.amp-lint.per-file-ignores has a bad pattern"),
    ("extend-per-file-ignores = 3", "tool.amp-lint.extend-per-file-ignores must be a table"),
    (f"target-torch = 0x{'f' * 5000}", 'target-torch must be a string such as "2.3"'),
    (f'target-torch = "{"9" * 5000}"', "tool.amp-lint.target-torch must be a string"),
    (f"preview = {'9' * 5000}", "has a number of too many digits"),
    (f"preview = {'[' * 50000}", "nests too deeply"),
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


@pytest.mark.parametrize(
    "header", ["tool.amp_lint", "tool.amplint", "tool.AMP-Lint", "amp-lint", 'tool."amp lint"']
)
def test_a_table_with_another_name_is_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[{header}]\nselect = []\n")
    with pytest.raises(ConfigError, match=r"is not read; call it \[tool\.amp-lint\]$"):
        load(tmp_path / "pyproject.toml")


def test_a_file_of_settings_alone(tmp_path: Path) -> None:
    """As with ruff, the hidden one stands above the other, and both above the table."""
    write(tmp_path, 'select = ["AMP401"]')
    (tmp_path / "amp-lint.toml").write_text('select = ["AMP101"]\n')
    settings = Settings(choice())
    assert {rule.code for rule in settings.selection(tmp_path / "a.py").rules} == {CLIP}
    assert [*settings.warnings()] == [
        f"{tmp_path}/pyproject.toml is not read: amp-lint.toml stands above it"
    ]
    (tmp_path / ".amp-lint.toml").write_text('select = ["AMP301"]\n[per-file-ignores]\nb = []\n')
    assert selected(tmp_path / "a.py") == {"AMP301"}
    (tmp_path / ".amp-lint.toml").write_text("")
    assert selected(tmp_path / "a.py") == STABLE


@pytest.mark.parametrize("table", ["[tool.amp-lint]\nselect = []", "[amp-lint]\nselect = []"])
def test_a_file_of_settings_alone_has_no_table(tmp_path: Path, table: str) -> None:
    (tmp_path / "amp-lint.toml").write_text(table)
    with pytest.raises(ConfigError, match=r"is no setting; settings stand at the top"):
        load(tmp_path / "amp-lint.toml")


@pytest.mark.parametrize("name", ["setup.cfg", "tox.ini", ".flake8"])
@pytest.mark.parametrize("section", ["[amp-lint]", "[amp_lint]", "[tool:amp-lint]"])
def test_settings_that_nobody_reads_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, section: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(f"[other]\nx = 1\n{section}\nselect = AMP1\n")
    warning = f"{name}: {section} is not read; settings stand in pyproject.toml"
    assert [*Settings(choice()).warnings()] == [warning]
    assert [*Settings(choice(), isolated=True).warnings()] == []


def test_a_file_that_is_called_nearly_so_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("amp_lint.toml").touch()
    assert [*Settings(choice()).warnings()] == ["amp_lint.toml is not read; call it amp-lint.toml"]


BROKEN = ["[", 'select = "x"', "x = 1", f"preview = {'9' * 5000}", 'exclude = ["["]']


@pytest.mark.parametrize("table", BROKEN)
def test_a_broken_file_is_passed_over_for_the_settings_above_it(tmp_path: Path, table: str) -> None:
    write(tmp_path, 'select = ["AMP101"]')
    write(tmp_path / "a", table)
    write(tmp_path / "a" / "b", 'select = ["AMP401"]')
    errors: list[str] = []
    settings = Settings(choice(), on_error=errors.append)

    def codes_and_soundness(path: Path) -> tuple[set[str], bool]:
        selection = settings.selection(path)
        return {rule.code for rule in selection.rules}, settings.governing(path).sound

    assert codes_and_soundness(tmp_path / "x.py") == ({CLIP}, True)
    for _ in range(2):
        assert codes_and_soundness(tmp_path / "a" / "x.py") == ({CLIP}, False)
        assert codes_and_soundness(tmp_path / "a" / "c" / "x.py") == ({CLIP}, False)
    assert codes_and_soundness(tmp_path / "a" / "b" / "x.py") == ({"AMP401"}, True)
    (error,) = errors
    assert error.startswith(str(tmp_path / "a" / "pyproject.toml"))
    assert error.endswith(" (passed over, nothing below it is changed)")


@pytest.mark.parametrize("bad", [b"\xff", b"\xef\xbb\xbf[tool.amp-lint]\nx=1", b"\0", b"\r"])
def test_whatever_is_in_a_file_is_one_line(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(bad)
    errors: list[str] = []
    Settings(choice(), on_error=errors.append).selection(tmp_path / "a.py")
    assert len(errors) == 1
    assert "\n" not in errors[0]


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A pipe would have to be waited for."""
    (tmp_path / "a" / "pyproject.toml").mkdir(parents=True)
    os.mkfifo(tmp_path / "amp-lint.toml")
    os.mkfifo(tmp_path / "requirements.txt")
    errors: list[str] = []
    Settings(choice(), on_error=errors.append).selection(tmp_path / "a" / "x.py")
    assert len(errors) == 2
    assert all("no regular file" in error for error in errors)


def test_the_table_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\namp-lint = 1\n")
    with pytest.raises(ConfigError, match=r"tool\.amp-lint must be a table"):
        load(tmp_path / "pyproject.toml")


def test_no_table_no_settings(tmp_path: Path) -> None:
    assert load(tmp_path / "pyproject.toml") is None
    (tmp_path / "pyproject.toml").write_text("tool = 1\n")
    assert load(tmp_path / "pyproject.toml") is None


def in_layers(root: Path, *config: str, **options: object) -> Settings:
    return Settings(choice(root=root, **options), config=config)


def test_settings_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--config KEY=VALUE`` stands above files and below the options."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, 'select = ["AMP401"]')
    path = tmp_path / "a.py"

    def codes(*config: str, **options: object) -> set[str]:
        return {rule.code for rule in in_layers(tmp_path, *config, **options).selection(path).rules}

    assert codes('select = ["AMP101"]') == {CLIP}
    assert codes('select = ["AMP101"]', 'extend-select = ["AMP301"]') == {CLIP, "AMP301"}
    assert codes('select = ["AMP101"]', select=("AMP301",)) == {"AMP301"}
    assert codes('select = ["AMP1"]', 'select = ["AMP101"]') == {CLIP}
    assert codes("preview = true", 'select = ["AMP110"]') == {"AMP110"}


def test_a_settings_file_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands for those of all directories; its patterns are relative to the current one."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "x = 1")
    other = tmp_path / "elsewhere" / "my.toml"
    other.parent.mkdir()
    other.write_text('select = ["AMP101"]\nexclude = ["/gen"]\n')
    settings = in_layers(tmp_path, str(other))
    assert {rule.code for rule in settings.selection(tmp_path / "a" / "b.py").rules} == {CLIP}
    assert settings.excluded(tmp_path / "gen" / "a.py")
    assert not settings.excluded(tmp_path / "elsewhere" / "gen" / "a.py")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (["nosuch.toml"], "'nosuch.toml' is neither a file nor a setting `KEY = VALUE`"),
        (["x" * 5000], "is neither a file"),
        (["select = ["], "--config: 'select = [' is not TOML"),
        (["selec = []"], "--config: selec is no setting; did you mean `select`?"),
        (["tool.amp-lint.select = []"], "--config: tool is no setting; settings stand at the top"),
        (["a.toml", "select = []", "b.toml"], "--config names several files, a.toml, b.toml"),
        (["pyproject.toml"], "pyproject.toml: has no table [tool.amp-lint]"),
        (["a.toml"], "a.toml: selec is no setting"),
        (["."], "no regular file"),
    ],
)
def test_wrong_settings_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.toml", "b.toml", "pyproject.toml"):
        Path(name).write_text("[tool]\n" if name == "pyproject.toml" else "selec = 1\n")
    with pytest.raises(ConfigError) as caught:
        Settings(choice(), config=config, on_error=lambda error: None)
    assert message in str(caught.value)


def test_an_isolated_run_names_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").touch()
    with pytest.raises(ConfigError, match="--isolated"):
        Settings(choice(), config=["a.toml"], isolated=True)
    settings = Settings(choice(), config=['select = ["AMP101"]'], isolated=True)
    assert {rule.code for rule in settings.selection(tmp_path / "a.py").rules} == {CLIP}


def test_exclude_in_layers(tmp_path: Path) -> None:
    """``exclude`` takes the place of what is below, ``extend-exclude`` adds to it."""
    write(tmp_path, 'exclude = ["a.py"]\nextend-exclude = ["b.py"]')
    here = tmp_path / "sub"

    def kept(**options: object) -> list[str]:
        settings = in_layers(here, **options)
        names = ("a.py", "b.py", "c.py", "sub/d.py", "sub/deep/d.py")
        return [name for name in names if not settings.excluded(tmp_path / name)]

    assert kept() == ["c.py", "sub/d.py", "sub/deep/d.py"]
    assert kept(exclude=("c.py",)) == ["a.py", "sub/d.py", "sub/deep/d.py"]
    assert kept(extend_exclude=("c.py", "./d.py")) == ["sub/deep/d.py"]
    assert kept(exclude=(), extend_exclude=("!b.py",)) == [
        "a.py", "b.py", "c.py", "sub/d.py", "sub/deep/d.py"
    ]  # fmt: skip


def test_per_file_ignores_in_layers(tmp_path: Path) -> None:
    write(tmp_path, 'per-file-ignores = {"a.py" = ["AMP1"]}\nselect = ["AMP101", "AMP401"]')

    def codes(name: str, **options: object) -> set[str]:
        selection = in_layers(tmp_path, **options).selection(tmp_path / name)
        return {rule.code for rule in selection.rules}

    assert codes("a.py") == {"AMP401"}
    replaced = {"per_file_ignores": (("b.py", ("AMP4",)),)}
    assert codes("a.py", **replaced) == {"AMP401", CLIP}
    assert codes("b.py", **replaced) == {CLIP}
    added = {"extend_per_file_ignores": (("*.py", ("AMP4",)),)}
    assert codes("a.py", **added) == set()
    assert codes("b.py", **added) == {CLIP}


def test_a_pattern_for_all_other_files(tmp_path: Path) -> None:
    write(tmp_path, 'select = ["AMP101"]\nper-file-ignores = {"!src/" = ["ALL"]}')
    assert selected(tmp_path / "src" / "deep" / "a.py") == {CLIP}
    assert selected(tmp_path / "a.py") == set()


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
        (f"torch>={'9' * 5000}", None),
    ],
)
def test_lower_bound(requirement: str, bound: tuple[int, int] | None) -> None:
    assert lower_bound(requirement) == bound


def test_the_lowest_of_several_bounds(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4\ntorch\ntorch>=1.9\n")
    assert target(tmp_path / "a.py") == (1, 9)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "torch>=2.2"]\n'),
        ("pyproject.toml", '[project]\noptional-dependencies = {gpu = ["torch>=2.2"]}\n'),
        ("requirements.txt", "-r base.txt\n# torch>=1\ntorch>=2.2  # why\ntorchvision>=0.1\n"),
        ("requirements.txt", "torch>=2.2 \\\n  --hash=sha256:0\ntorch-geometric>=1.0\n"),
        ("requirements/train.txt", "numpy\ntorch==2.2.0\n"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['torch>=2.2'])\n"),
        ("environment.yml", "dependencies:\n  - python=3.9\n  - pytorch=2.2.1\n"),
        ("environment.yaml", "dependencies:\n  - pip:\n    - torch>=2.2\n"),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=2.2\n"),
        ("setup.cfg", "[options.extras_require]\ngpu =\n    torch>=2.2\n"),
    ],
)
def test_the_project_says_what_torch_it_needs(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
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
        "import sys; from amp_lint import registry; assert registry.every_rule(); "
        "sys.exit('libcst._nodes.module' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
