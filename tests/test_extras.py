"""What an optional dependency that is missing or broken says."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

from errors import naming
from identifiable import _extras
from identifiable._checks import MissingExtra
from identifiable._extras import require


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("raise RuntimeError('operator torchvision::nms does not exist')", "RuntimeError"),
        ("import no_such_module_here", "no_such_module_here"),
        ("raise OSError('libcudart.so.12:\\n cannot open')", "libcudart.so.12: cannot open"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_an_extra_that_does_not_import_is_one_line_with_its_reason(tmp_path, monkeypatch, body, named):
    (tmp_path / "broken_extra.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match=naming("extract", "broken_extra", named, "[models]")) as found:
        require("broken_extra", extra="models", what="extract")
    assert "\n" not in str(found.value)
    assert found.value.exit_code == 2
    assert "broken_extra" not in sys.modules


def test_an_extra_that_is_not_installed_says_what_to_install():
    with pytest.raises(MissingExtra, match=naming("no_such_extra", "[models]")):
        require("no_such_extra", extra="models")


def test_an_extra_that_imports_passes(tmp_path, monkeypatch):
    (tmp_path / "sound_extra.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    require("sound_extra", extra="models")
    assert sys.modules.pop("sound_extra").value == 1


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        ('{"url": "file:///home/me/my%20clone", "dir_info": {}}', "'/home/me/my clone[models]'"),
        ('{"url": "file:///clone", "dir_info": {"editable": true}}', "-e '/clone[models]'"),
        ('{"url": "file:///wheels/identifiable-0.1.0.whl", "archive_info": {}}', "'identifiable[models]'"),
        ('{"url": "https://example.org/identifiable.git", "vcs_info": {}}', "'identifiable[models]'"),
        (None, "'identifiable[models]'"),
        ("no json", "'identifiable[models]'"),
        ("[]", "'identifiable[models]'"),
    ],
)
def test_the_extra_is_asked_of_the_folder_that_the_package_came_from(monkeypatch, recorded, asked):
    monkeypatch.setattr(_extras, "distribution", lambda name: SimpleNamespace(read_text=lambda file: recorded))
    with pytest.raises(MissingExtra, match=re.escape(f"pip install {asked}") + "$"):
        require("no_such_extra", extra="models")


def test_a_package_that_is_not_installed_is_asked_for_by_name(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_extras, "distribution", absent)
    with pytest.raises(MissingExtra, match=r"'identifiable\[models\]'$"):
        require("no_such_extra", extra="models")
