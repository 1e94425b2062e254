"""Settings: precedence with origins, one clear message for what cannot be used, and typos met before any work."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.errors import UsageFault
from pytest_frt.options import OPTIONS, read_table
from pytest_frt.run.config import RunConfig
from pytest_frt.run.kernel_words import CachedRelease, LocalBuild
from pytest_frt.settings import Settings, run_config

Configured = Callable[..., Settings]


@pytest.fixture
def configured(pytester: pytest.Pytester) -> Configured:
    """Return a function that parses a command line in a directory with the given pyproject table and ini lines."""

    def parse(*args: str, table: str = "", ini: str = "") -> Settings:
        pytester.makepyprojecttoml(f"[tool.pytest_frt]\n{table}")
        if ini:
            pytester.makeini(f"[pytest]\n{ini}")
        return Settings(pytester.parseconfig(*args))

    return parse


def run(settings: Settings) -> RunConfig:
    return run_config(settings, threads=4, is_worker=False)


@pytest.mark.parametrize(
    ("args", "table", "ini", "profile", "value", "origin"),
    [
        (["--frt-seed=1"], "seed = 2", "frt_seed = 3", "4", 1, "command line"),
        ([], "seed = 2", "frt_seed = 3", "4", 2, "[tool.pytest_frt]"),
        ([], "", "frt_seed = 3", "4", 3, "ini file"),
        ([], "", "", "4", 4, "device profile thor"),
        ([], "", "", None, 0, "default"),
    ],
    ids=["command_line", "table", "ini", "profile", "default"],
)
def test_precedence(
    configured: Configured, args: list[str], table: str, ini: str, profile: str | None, value: int, origin: str
) -> None:
    settings = configured("--frt-host=x", *args, table=table, ini=ini)
    settings.profile = {"seed": (profile, "device profile thor")} if profile else {}
    made = run(settings)
    assert (made.seed, made.origins["seed"]) == (value, origin)


@pytest.mark.parametrize(
    ("args", "table", "level"),
    [
        ((), "", None),
        (("--frt-family-alpha=0.01",), "", 0.01),
        ((), "family_alpha = 0.02", 0.02),
        ((), 'family-alpha = "5e-3"', 0.005),
    ],
    ids=["none", "command_line", "toml_number", "toml_text"],
)
def test_family_level_is_a_number(configured: Configured, args: list[str], table: str, level: float | None) -> None:
    assert run(configured("--frt-host=x", *args, table=table)).family_alpha == level


@pytest.mark.parametrize(
    ("name", "value"),
    [(one.name, "") for one in OPTIONS if one.kind not in {"flag", "switch"}] + [("kernel", " "), ("host", ",")],
)
def test_an_empty_option_is_not_the_same_as_none(configured: Configured, name: str, value: str) -> None:
    settings = configured(f"--frt-{name}={value}")
    with pytest.raises(UsageFault, match=f"^--frt-{name} is empty"):
        settings.get(name.replace("-", "_"))


def test_cache_states_are_hot_and_cold_alone(configured: Configured) -> None:
    assert run(configured("--frt-host=x")).cache_states == ("hot",)
    assert run(configured("--frt-host=x", "--frt-cache-state=hot,cold")).cache_states == ("hot", "cold")
    with pytest.raises(UsageFault, match="warm"):
        run(configured("--frt-host=x", "--frt-cache-state=warm"))


@pytest.mark.parametrize("said", ["0", "1", "-0.1", "nan", "inf", "one", "true"])
def test_what_is_no_level_is_a_usage_fault(configured: Configured, said: str) -> None:
    with pytest.raises(UsageFault, match="family_alpha"):
        run(configured("--frt-host=x", f"--frt-family-alpha={said}"))


def test_lists_repeat_and_take_commas_from_everywhere(configured: Configured) -> None:
    made = run(configured("--frt-host=a,b", "--frt-host=c*", table='structure = ["x", "y,z"]\nexclude-impl = "slow*"'))
    assert made.selection.include == {"host": ("a", "b", "c*"), "structure": ("x", "y", "z")}
    assert made.selection.exclude == {"impl": ("slow*",)}


def test_paths_start_where_they_were_written(configured: Configured, pytester: pytest.Pytester) -> None:
    settings = configured("--frt-host=x", "--frt-json=r.json", table='out = "certs"')
    settings._config.invocation_params.dir.joinpath("sub").mkdir()
    made = run(settings)
    assert made.out == str(pytester.path / "certs")
    assert made.json == str(settings._config.invocation_params.dir / "r.json")


def test_switch_is_turned_off_again(configured: Configured) -> None:
    assert run(configured("--frt-host=x", "--frt-no-comparison")).comparison is False
    assert run(configured("--frt-host=x", "--frt-comparison", table="comparison = false")).comparison is True


@pytest.mark.parametrize(
    ("args", "table", "message"),
    [
        ([], 'hots = "x"', r"unknown key 'hots'\n  next: did you mean 'host'"),
        ([], "seed = 'many'", "seed = 'many' from \\[tool.pytest_frt\\] is no whole number"),
        ([], "seed = true", "seed = True from .* is no text"),
        ([], "quick = 'perhaps'", "neither true nor false"),
        ([], "out = 3", "out = 3 .* is no text"),
        (["--frt-size=rael"], "", "size = 'rael' from command line is unknown.*did you mean 'real'"),
        (["--frt-form=compield"], "", "did you mean 'compiled'"),
        (["--frt-threads=0"], "", "threads = 0 from command line is under 1"),
        (["--frt-seed=-1"], "", "seed = -1 from command line is under 0"),
        (["--frt-sign-key=absent"], "", "is no file"),
        (["--frt-checkpoint=absent"], "", "checkpoint = .*/absent from command line is no directory"),
        (["--frt-kernel=absent"], "", "kernel = .*/absent from command line is no directory"),
    ],
    ids=[
        "unknown_key", "text_for_number", "flag_for_number", "perhaps", "number_for_text", "size_typo", "form_typo",
        "no_threads", "negative_seed", "no_key_file",
        "no_checkpoint", "no_kernel",
    ],
)  # fmt: skip
def test_unusable_value_is_one_message(configured: Configured, args: list[str], table: str, message: str) -> None:
    with pytest.raises(UsageFault) as caught:
        run(configured("--frt-host=x", *args, table=table))
    assert re.search(message, caught.value.diagnostics(), re.DOTALL), caught.value.diagnostics()


def test_nothing_selected_is_a_usage_fault(configured: Configured) -> None:
    with pytest.raises(UsageFault, match="selects what to judge"):
        run(configured("--frt-quick"))


def test_unreadable_table_is_a_usage_fault(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("pyproject.toml").write_text("[tool.pytest_frt\n")
    with pytest.raises(UsageFault, match="is no TOML"):
        read_table(pytester.path)


@pytest.mark.parametrize(
    "name",
    ["a b", "/self", "a/", "a//b", "a/b/c/d/e", "\u00e4", "a\n", "-a"],
    ids=["blank", "root", "end", "hole", "deep", "umlaut", "line", "dash"],
)
def test_issuer_that_no_statement_takes_is_met_at_start(configured: Configured, name: str) -> None:
    with pytest.raises(UsageFault, match=r"issuer from command line: .* is not an identifier") as caught:
        run(configured("--frt-host=x", f"--frt-issuer={name}"))
    assert caught.value.hint


def test_issuer_travels_as_written(configured: Configured) -> None:
    assert run(configured("--frt-host=x", "--frt-issuer=acme.org/kernels")).issuer == "acme.org/kernels"


@pytest.mark.parametrize("option", ["json", "html"])
def test_report_that_must_not_be_replaced_is_met_at_start(configured: Configured, option: str) -> None:
    Path("key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    Path("link").symlink_to("nowhere")
    Path("old").touch()
    for name in ("key", "link", "/dev/null"):
        with pytest.raises(UsageFault, match="is not replaced"):
            run(configured("--frt-host=x", f"--frt-{option}={name}"))
    assert getattr(run(configured("--frt-host=x", f"--frt-{option}=old")), option).endswith("/old")


def test_public_half_is_no_key_to_sign_with(configured: Configured) -> None:
    Path("key.pub").write_text("ed25519:" + "A" * 43 + "=")
    with pytest.raises(UsageFault, match=r"sign_key = .* from command line holds a public key"):
        run(configured("--frt-host=x", "--frt-sign-key=key.pub"))


def test_worker_never_learns_of_a_key(configured: Configured, pytester: pytest.Pytester) -> None:
    key = pytester.path / "k.pem"
    key.touch()
    settings = configured("--frt-host=x", f"--frt-sign-key={key}")
    assert run_config(settings, threads=1, is_worker=True).sign_key is None
    assert run_config(settings, threads=1, is_worker=False).sign_key == str(key)


def test_every_option_has_a_line_of_help_and_an_ini_key(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig()
    assert [option.name for option in OPTIONS if not option.help or config.getini(option.dest) is not None] == []


def test_help_of_pytest_shows_every_option(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess("--help")
    assert done.ret == 0
    said = done.stdout.str()
    assert [option.name for option in OPTIONS if f"--frt-{option.name}" not in said] == []
    assert "ratio:2%, parity:10%, outcome" in said


def test_kernels_are_given_by_path_or_release_from_everywhere(
    configured: Configured, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(pytester.path / "cache"))
    monkeypatch.setenv("LOCAL_KERNELS", "acme/other=x")
    pytester.mkdir("mine")
    made = run(configured("--frt-host=x", table='kernel = ["acme/toy@v1", "mine"]'))
    assert made.kernel == (CachedRelease("acme/toy", "v1"), LocalBuild(str(pytester.path / "mine")))
    assert (made.kernel_cache, made.local_kernels) == (str(pytester.path / "cache"), ("acme/other",))
    without = run(configured("--frt-host=x"))
    assert (without.kernel, without.kernel_cache, without.local_kernels) == ((), "", ())
