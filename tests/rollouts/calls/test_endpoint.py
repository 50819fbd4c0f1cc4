"""Addresses, keys and patience."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rollouts.calls.endpoint import OPENAI_URL, CallSettings, Endpoint, find_key
from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.errors import UsageError


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_the_usual_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Endpoint.from_environment() is None
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert Endpoint.from_environment() == Endpoint(OPENAI_URL)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")
    assert Endpoint.from_environment() == Endpoint("http://127.0.0.1:8000/v1")
    assert Endpoint.from_environment("http://other/v1") == Endpoint("http://other/v1")


def test_a_key_is_read_where_it_is_used_and_is_in_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("http://127.0.0.1:1/v1", key_env="MY_KEY")
    assert endpoint.read_key() == "none"
    monkeypatch.setenv("MY_KEY", " sk-marker\n")
    assert endpoint.read_key() == "sk-marker"
    assert b"sk-marker" not in pickle.dumps(endpoint)
    assert "sk-marker" not in repr(endpoint)


def test_a_file_of_keys_counts_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text('# keys\nOPENAI_API_KEY=sk-file\nexport POLICY_API_KEY="sk-other="\n\n')
    monkeypatch.setenv("OPENAI_API_KEY", "sk-variable")
    monkeypatch.setenv("THIRD_KEY", "sk-third")
    endpoint = Endpoint.from_environment(key_file=str(file))
    assert endpoint == Endpoint(OPENAI_URL, key_file=str(file))
    assert endpoint.read_key() == "sk-file"
    assert b"sk-file" not in pickle.dumps(endpoint)
    assert [find_key(name, str(file)) for name in ("POLICY_API_KEY", "THIRD_KEY")] == ["sk-other=", "sk-third"]
    file.write_text("OPENAI_API_KEY=sk-newer\n")
    assert endpoint.read_key() == "sk-newer"


@pytest.mark.parametrize("content", [None, b"OPENAI_API_KEY=sk-marker\xff"])
def test_a_file_of_keys_that_cannot_be_read_is_named_and_not_shown(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=f'file of keys "{file}" on ') as caught:
        Endpoint("http://h/v1", key_file=str(file)).read_key()
    assert "sk-marker" not in str(caught.value)


def test_openai_itself_wants_a_key() -> None:
    with pytest.raises(UsageError, match="set OPENAI_API_KEY"):
        Endpoint(OPENAI_URL).read_key()


def test_a_broken_key_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("sk-marker\nx", "sk-märker", "sk marker"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(UsageError, match="OPENAI_API_KEY holds characters") as caught:
            Endpoint("http://h/v1").read_key()
        assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["http://user:sk-marker@h/v1", "http://h/v1?key=sk-marker", "http://sk-marker@h/v1"])
def test_credentials_in_a_url_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(UsageError, match="credentials") as caught:
        Endpoint(url)
    assert "sk-marker" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://h/v1", "http:///v1"])
def test_what_is_no_address_is_named(url: str) -> None:
    with pytest.raises(UsageError, match="wants http"):
        Endpoint(url)


@pytest.mark.parametrize(
    "wrong", [{"time_limit_s": 0.0}, {"time_limit_s": float("inf")}, {"tries": 0}, {"pause_s": -1.0}]
)
def test_impossible_patience_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        CallSettings(**wrong)  # type: ignore[arg-type]


def test_an_endpoint_that_is_there_is_let_pass_and_one_that_is_not_is_named() -> None:
    with FakeEndpoint() as fake:
        Endpoint(fake.base_url).check_listens()
    with pytest.raises(UsageError, match=rf"{fake.base_url} is not there: Connection refused"):
        Endpoint(fake.base_url).check_listens()


def test_a_host_that_has_no_address_is_named() -> None:
    with pytest.raises(UsageError, match=r"no-such-host\.invalid"):
        Endpoint("http://no-such-host.invalid/v1").check_listens()
