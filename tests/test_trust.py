"""A recipe from another person names no server that its reader did not agree to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxtuneError
from taxtune.recipe import Recipe, load_recipe
from taxtune.trust import server_of
from taxtune.tuning.build import make_arbiter, make_measure, make_proposer, make_vlm
from taxtune.tuning.run_folder import recipe_of
from tests.tuning.toy import make_files

FOREIGN = "http://gpu-box:8000/v1"


def vlm(**given):
    return {"vlm": {"kind": "api", "model": "openai/x", **given}}


def recipe(folder, groups, *typed):
    """The toy recipe with other groups, as a file that may come from anywhere."""
    path = make_files(folder)
    changed = yaml.safe_load(path.read_text()) | groups
    path.write_text(yaml.safe_dump(changed))
    return load_recipe(path, typed)


def make_judge(found):
    return make_measure(found, "lave", Path("out"))


IN_NAME = "huggingface/http://gpu-box:8000/v1"
SLASHES = "huggingface/http:////gpu-box:8000/v1"


def proposer(kind, **given):
    return {"proposer": {"kind": kind, **given}}


def judge(**given):
    return {"objective": {"kind": "lave"}, "judge": {"model": "openai/x", **given}}


def arbiter(model):
    return {"mapper": {"arbiter": model}}


@pytest.mark.parametrize(
    ("groups", "ask", "key"),
    [
        (vlm(api_base=FOREIGN), make_vlm, "vlm.api_base"),
        (vlm(model=IN_NAME), make_vlm, "vlm.model"),
        (proposer("llm", api_base=FOREIGN), make_proposer, "proposer.api_base"),
        (proposer("agent", api_base=FOREIGN), make_proposer, "proposer.api_base"),
        (arbiter(IN_NAME), make_arbiter, "mapper.arbiter"),
        (judge(api_base=FOREIGN), make_judge, "judge.api_base"),
    ],
)
def test_a_foreign_server_is_refused_unless_it_is_typed_or_listed(
    tmp_path, monkeypatch, groups, ask, key
):
    found = recipe(tmp_path / "in", groups)
    with pytest.raises(TaxtuneError, match=r"\.yaml: .* sends .* to \w+://gpu-box") as caught:
        ask(found)
    assert caught.value.message.startswith(f"{key} sends")
    assert f"--set {key}=" in (caught.value.remedy or "")
    with monkeypatch.context() as patch:
        _, _, rest = str(caught.value).partition(" to ")
        server, _, _ = rest.partition(",")
        patch.setenv("TAXTUNE_SERVERS", f"https://other/v1, {server}/v1")
        ask(found)
    with pytest.raises(TaxtuneError):
        ask(found)
    group, name = key.split(".")
    typed = groups[group][name]
    ask(recipe(tmp_path / "in", groups, f"{key}={typed}"))
    ask(found.changed({key: typed}))


@pytest.mark.parametrize(
    ("groups", "ask"),
    [
        (vlm(model=SLASHES), make_vlm),
        (vlm(model="huggingface/HTTPS://gpu-box/v1"), make_vlm),
        (vlm(model="oobabooga/https:/gpu-box/v1"), make_vlm),
        (vlm(model="huggingface/together/http:gpu-box"), make_vlm),
        (arbiter(SLASHES), make_arbiter),
        (proposer("llm", model=SLASHES), make_proposer),
        (judge(model=SLASHES), make_judge),
    ],
)
def test_an_address_in_a_name_is_read_as_strictly(tmp_path, groups, ask):
    with pytest.raises(TaxtuneError, match=r"is not an address|you have not confirmed"):
        ask(recipe(tmp_path / "in", groups))


@pytest.mark.parametrize(
    "name", ["openai/http-server", "hosted_vllm//models/llava", "openai/org/model:free"]
)
def test_a_name_without_an_address_is_none(tmp_path, name):
    assert recipe(tmp_path, vlm(model=name, api_base="http://localhost:1/v1")).access("vlm")


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("HTTP://GPU-Box:80/v1", "http://gpu-box"),
        ("https://api.example.org:443", "https://api.example.org"),
        ("https://api.example.org:8443/a/b/?version=1", "https://api.example.org:8443"),
        ("http://[::1]:8000/v1/", "http://[::1]:8000"),
    ],
)
def test_a_server_is_its_scheme_host_and_port(address, server):
    assert server_of(address) == server


SCHEMES = st.sampled_from(["http://", "HTTPS://", "http:/", "http:////", "http:"])
RESTS = st.text(alphabet="aB1.:/\\@#?[]% \t", max_size=12)


@given(SCHEMES, RESTS)
def test_what_passes_leads_every_client_to_the_same_host(scheme, rest):
    address = scheme + rest
    try:
        server = server_of(address)
    except ValueError:
        return
    try:
        there = httpx.URL(address)
    except httpx.InvalidURL:  # such as a host that is no address in brackets, which leads nowhere
        return
    assert server == f"{there.scheme}://{there.netloc.decode()}"
    assert urlsplit(address).hostname == there.host
    # A client may write the address anew and read it again.
    chat = there.copy_with(raw_path=there.raw_path + b"/chat")
    assert httpx.URL(str(chat)).host == there.host


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:8000/v1",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "http://0.0.0.0:8000/v1",
    ],
)
def test_this_machine_needs_no_consent(tmp_path, address):
    assert recipe(tmp_path, vlm(api_base=address)).access("vlm") == address


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost.evil.org/v1",
        "http://localhost:8000@evil.org/v1",
        "http://localhost:8000:9@evil.org/v1",
        "http://evil.org\\@localhost/v1",
        "http://127.0.0.1#@evil.org/v1\n",
        "http://gpu-box:8000@evil.org/v1",
        "https://gpu-box:8000/v1",
        "http://gpu-box:8001/v1",
        "evil.org/v1",
        "//evil.org/v1",
        "http://[::1/v1",
        "http:////gpu-box:8000/v1",
        "http:///localhost/v1",
        "http:/localhost/v1",
        "http:localhost/v1",
        "http:\\\\localhost\\v1",
        "http://localhost//evil.org/v1",
        "http://localhost\t/v1",
        "http://localhost:/v1",
        "http://localhost:99999/v1",
        "http://localhost#/v1",
        "http://user@gpu-box:8000@evil.org/v1",
        "http://user:gpu-box:8000@/v1",
        "http://localhost%2eevil.org/v1",
        "http://lo\u0441alhost/v1",
        "http://127.1/v1",
        "http://2130706433/v1",
        "http://",
        "https:////gpu-box:8000/v1",
        "ftp://localhost/v1",
        "file:///etc/passwd",
        "unix://localhost/v1",
        "",
    ],
)
def test_no_address_passes_for_another(tmp_path, monkeypatch, address):
    monkeypatch.setenv("TAXTUNE_SERVERS", "http://gpu-box:8000")
    with pytest.raises(TaxtuneError):
        recipe(tmp_path, vlm(api_base=address)).access("vlm")


def test_no_file_can_say_that_it_is_the_users_own(tmp_path):
    foreign = vlm(api_base=FOREIGN)
    with pytest.raises(TaxtuneError):
        recipe(tmp_path, {"_own": [""]} | foreign).access("vlm")
    changed = recipe(tmp_path, foreign).changed({"vlm.model": "openai/y", "iterations": 2})
    with pytest.raises(TaxtuneError):
        changed.access("vlm")


def test_a_recipe_made_in_python_is_the_users_own(tmp_path):
    settings = recipe(tmp_path, vlm(api_base=FOREIGN)).settings()
    made = Recipe.model_validate(settings)
    assert made.access("vlm") == FOREIGN


def test_the_folder_of_a_run_is_a_file_like_any_other(tmp_path):
    ran = recipe(tmp_path, vlm(), f"vlm.api_base={FOREIGN}")
    written = SimpleNamespace(recipe=yaml.safe_dump(ran.settings()), source=str(ran.source))
    read = recipe_of(SimpleNamespace(provenance=written, folder=str(tmp_path)))
    assert read.vlm == ran.vlm
    with pytest.raises(TaxtuneError, match="gpu-box"):
        read.access("vlm")
