"""Entries of installed packages are found and read without executing any, and faults stay where they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_frt.contracts.impl import Impl
from pytest_frt.errors import ProviderBroken, SpecError, UsageFault
from pytest_frt.registry import Registry, load_impl, load_module

Install = Callable[[str, Mapping[str, str]], Path]
Files = Callable[..., dict[str, str]]


def test_own_entries_are_all_readable(repository: Path) -> None:
    found = Registry.load()
    assert found.broken == ()
    assert set(found.structures) == {path.parent.name for path in repository.glob("catalog/*/structure.yaml")}
    impls = (path for path in repository.glob("impls/[!_]*/[!_]*.py"))
    assert set(found.impls) == {f"{path.parent.name}/{path.stem}" for path in impls}
    assert {"cpu", "thor", "h200"} <= set(found.devices)


def test_new_package_appears_and_nothing_of_it_runs(install: Install, toy: Files) -> None:
    folder = install("acme", toy())
    found = Registry.load()
    assert (found.broken, sys.modules.get("acme")) == ((), None)
    assert found.structure("toy").folder == folder / "catalog/toy"
    assert found.impl("toy", "fast").impl == Impl("fast", "toy", 1, ("exact",), "acme/none", {"exact": (1, 8)})
    assert found.host("box").spec.output == "values"
    assert found.device("abacus").spec.kind == "cpu"
    assert found.scheme("exact").calibrated
    assert found.impl("toy", "fast").provider.distribution == "acme 1.0"


def swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


SPOILS = {
    "impl_computes_a_value": (
        "impls/toy/fast.py",
        lambda text: text.replace("version=1", "version=len('a')"),
        "version",
    ),
    "impl_lacks_a_field": ("impls/toy/fast.py", swap("version=1,", ""), "version"),
    "impl_has_an_unknown_field": (
        "impls/toy/fast.py",
        lambda text: text.replace("version=1", "version=1, fast=1"),
        "fast",
    ),
    "impl_gives_a_list": ("impls/toy/fast.py", swap('("exact",)', '["exact"]'), "tuples"),
    "impl_of_another_name": ("impls/toy/fast.py", swap('"fast"', '"slow"'), "'slow' differs"),
    "impl_twice": ("impls/toy/fast.py", lambda text: text * 2, "exactly one"),
    "impl_does_not_parse": ("impls/toy/fast.py", lambda text: text + "(", "not readable as Python"),
    "impl_by_position": ("impls/toy/fast.py", swap('name="fast"', '"fast"'), "keyword"),
    "impl_without_rows": ("impls/toy/fast.py", swap('{"exact": (1, 8)}', "{}"), "rows"),
    "impl_emulates_another_scheme": (
        "impls/toy/fast.py",
        swap('devices=("cpu",)', 'devices=("cpu", "cuda"), emulate=("loose",)'),
        "emulate name ['loose']",
    ),
    "impl_emulates_nothing_else": (
        "impls/toy/fast.py",
        swap('devices=("cpu",)', 'emulate=("exact",)'),
        "devices are cpu",
    ),
    "impl_cannot_stand_in": (
        "impls/toy/fast.py",
        swap('devices=("cpu",)', 'devices=("cuda",), emulate=("exact",)'),
        "devices are cuda",
    ),
    "impl_names_no_axis": (
        "impls/toy/fast.py",
        swap("version=1", 'version=1, variants={"bais": ("add",)}'),
        "IMPL: variants: toy has no bais",
    ),
    "impl_limits_no_size": (
        "impls/toy/fast.py",
        swap("version=1", 'version=1, dims={"k": (16, 64)}'),
        "IMPL: dims: toy has no k",
    ),
    "impl_divides_no_size": (
        "impls/toy/fast.py",
        swap("version=1", 'version=1, multiples={"F": 16}'),
        "IMPL: multiples: toy has no F",
    ),
    "impl_needs_no_point": (
        "impls/toy/fast.py",
        swap("version=1", 'version=1, points={"exact": ("x", "y")}'),
        "IMPL: points: toy has no y",
    ),
    "impl_name_with_a_capital": ("impls/toy/fast.py", swap('structure="toy"', 'structure="Toy"'), "'Toy' differs"),
    "scheme_of_another_name": ("schemes/exact.py", swap('"exact"', '"loose"'), "name must be 'exact'"),
    "device_of_another_name": ("devices/abacus.yaml", swap("name: abacus", "name: box"), "'box' differs from 'abacus'"),
    "structure_breaks_schema": ("catalog/toy/structure.yaml", swap("version: 1", ""), "version"),
    "reference_missing": ("catalog/toy/reference.py", None, "reference.py is missing"),
    "host_not_utf8": ("hosts/box/host.yaml", swap("A toy", "\udcff"), "UTF-8"),
    "scheme_without_summary": ("schemes/exact.py", swap("summary", "note"), "summary"),
    "shared_file_does_not_parse": ("impls/_shared/pack.py", lambda text: text + ")", "unmatched"),
}


@pytest.mark.parametrize(("file", "spoil", "word"), SPOILS.values(), ids=SPOILS)
def test_broken_entry_is_isolated(
    install: Install, toy: Files, file: str, spoil: Callable[[str], str] | None, word: str
) -> None:
    path = install("acme", toy()) / file
    text = path.read_text()
    path.unlink() if spoil is None else path.write_bytes(spoil(text).encode(errors="surrogateescape"))
    found = Registry.load()
    (fault,) = found.broken
    assert word in fault.reason, fault.reason
    assert (fault.provider, fault.group) == (
        "acme 1.0",
        "impls" if "_shared" in file else file.split("/", maxsplit=1)[0],
    )
    assert found.structures.keys() >= {"decoder_ffn"}
    assert (
        len(
            {"toy", "toy/fast", "box", "exact", "abacus"}
            & {*found.structures, *found.impls, *found.hosts, *found.schemes, *found.devices}
        )
        == 4
    )


def test_impl_that_names_what_its_structure_has_is_read(install: Install, toy: Files) -> None:
    file = install("acme", toy()) / "impls/toy/fast.py"
    named = 'version=1, dims={"K": (16, 64), "M": (1, 8)}, multiples={"N": 16}, points={"exact": ("x",)}'
    file.write_text(file.read_text().replace("version=1", named))
    found = Registry.load()
    assert (found.broken, found.impl("toy", "fast").impl.dims) == ((), {"K": (16, 64), "M": (1, 8)})


def test_value_that_an_axis_lacks_is_broken(install: Install, toy: Files) -> None:
    folder = install("acme", toy())
    spec, impl = folder / "catalog/toy/structure.yaml", folder / "impls/toy/fast.py"
    axis = spec.read_text().replace("variants: {}", "variants: {bias: [none, add]}")
    spec.write_text(axis.replace("variant: {}", "variant: {bias: add}"))
    text = impl.read_text()
    for value, reason in (("add", ""), ("plus", "IMPL: variants.bias: toy has no plus")):
        impl.write_text(text.replace("version=1", f'version=1, variants={{"bias": ("{value}",)}}'))
        assert [reason in fault.reason for fault in Registry.load().broken] == [True] * bool(reason)


def test_asking_for_a_broken_entry_says_why(install: Install, toy: Files) -> None:
    (install("acme", toy()) / "catalog/toy/cases.py").unlink()
    with pytest.raises(ProviderBroken, match=r"toy of acme 1\.0 is broken: .*cases\.py is missing"):
        Registry.load().structure("toy")


def test_provider_without_its_package_is_isolated(install: Install, toy: Files) -> None:
    folder = install("acme", toy())
    (folder / "devices").rename(folder / "gone")
    found = Registry.load()
    assert [(fault.group, fault.name) for fault in found.broken] == [("devices", "acme.devices")]
    assert "toy" in found.structures


def test_name_given_twice_names_both(install: Install, toy: Files) -> None:
    first, second = install("acme", toy()), install("other", toy())
    with pytest.raises(SpecError, match="given twice") as caught:
        Registry.load()
    assert all(str(folder / "catalog") in caught.value.message for folder in (first, second))


UNKNOWN: dict[str, tuple[Callable[[Registry, str], object], str, str]] = {
    "catalog": (Registry.structure, "decoder_fn", "decoder_ffn"),
    "impls": (lambda found, name: found.impl("decoder_ffn", name), "torch_pakced", "decoder_ffn/torch_packed"),
    "hosts": (Registry.host, "qwem3", "qwen3"),
    "devices": (Registry.device, "thro", "thor"),
    "schemes": (Registry.scheme, "fp8_statc", "fp8_static"),
    "pipelines": (Registry.pipeline, "vla_tik_pipeline", "vla_tick_pipeline"),
}


@pytest.mark.parametrize(("ask", "name", "nearest"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_name_suggests_the_nearest(ask: Callable[[Registry, str], object], name: str, nearest: str) -> None:
    found = Registry.load()
    with pytest.raises(UsageFault, match=f"no [a-z]+ entry is called '.*{name}'") as caught:
        ask(found, name)
    assert f"did you mean '{nearest}'?" in caught.value.hint
    assert ask(found, nearest.rpartition("/")[2])


def test_host_in_a_folder_is_taken(tmp_path: Path, toy: Files) -> None:
    for file, text in toy().items():
        if file.startswith("hosts/"):
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    assert Registry().with_host(tmp_path / "hosts/box").host("box").folder == tmp_path / "hosts/box"
    with pytest.raises(SpecError, match=r"host\.yaml: cannot be read"):
        Registry().with_host(tmp_path)


def test_impl_that_lies_at_run_time_is_refused(install: Install, toy: Files) -> None:
    folder = install("acme", toy())
    (folder / "__init__.py").write_text("")
    file = folder / "impls/toy/fast.py"
    assert Registry.load().impl("toy", "fast").impl == load_impl(file).IMPL
    file.write_text(file.read_text() + "\nobject.__setattr__(IMPL, 'version', 2)\n")
    with pytest.raises(SpecError, match=r"version=2.*the source says.*version=1"):
        load_impl(file)


def test_impl_that_changed_since_it_was_read_is_refused(install: Install, toy: Files) -> None:
    folder = install("acme", toy())
    (folder / "__init__.py").write_text("")
    entry = Registry.load().impl("toy", "fast")
    entry.file.write_text(entry.file.read_text().replace("version=1", "version=2"))
    with pytest.raises(SpecError, match=r"version=2.*the source says.*version=1"):
        load_impl(entry)


def test_relative_imports_of_an_installed_impl_work(install: Install, toy: Files) -> None:
    folder = install("acme", {**toy(), "impls/__init__.py": "", "impls/_shared/pack.py": "VALUE = 3\n"})
    (folder / "__init__.py").write_text("")
    file = folder / "impls/toy/fast.py"
    file.write_text("from .._shared.pack import VALUE\n")
    assert load_module(file).VALUE == 3


def test_relative_import_outside_any_provider_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lone.py").write_text("from .shared import x\n")
    with pytest.raises(SpecError, match="lies in no installed provider"):
        load_module(tmp_path / "lone.py")


def test_reading_imports_no_torch(isolated: Callable[[str], str]) -> None:
    script = "import sys; from pytest_frt.registry import Registry; Registry.load(); print('torch' in sys.modules)"
    assert isolated(script) == "False\n"
