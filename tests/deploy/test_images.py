"""The image of the nodes, and that no file here holds a secret."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

from tests.deploy.files import ROOT, pins, project_version

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
INSTALLED = '--no-cache-dir --constraint constraints.txt "ray[serve]" ".${EXTRAS:+[$EXTRAS]}"'
README = (ROOT / "README.md").read_text()


def faults(text: str) -> list[str]:
    """What is wrong with a Dockerfile."""
    users, copied = (
        re.findall(r"^USER (.+)$", text, re.MULTILINE),
        set(re.findall(r"^COPY --chown=ray:users (\w+) \w+$", text, re.MULTILINE)),
    )
    wrong = {
        "base": f"\nFROM rayproject/ray:{pins()['ray']}-py311-${{FLAVOUR}}\n" not in text,
        "flavour": "\nARG FLAVOUR=cpu\n" not in text,
        "pins": re.findall(r"(?:pip|conda|uv|apt-get) .*?install ([^&\n]*[^& \n])", text) != [INSTALLED],
        "packages": copied != {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"},
        "engine": not re.search(r"^RUN .*&& rollouts doctor$", text, re.MULTILINE),
        "user": users[-1:] != ["ray"],
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def test_the_image_is_built_on_the_pinned_ray_with_the_pinned_packages() -> None:
    assert faults(DOCKERFILE) == []
    assert metadata.version("ray") == pins()["ray"]
    assert pins()["vizdoom"] == "1.3.1", "the published reference numbers are of 1.3.1"


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (f"ray:{pins()['ray']}", "ray:latest", "base"),
        ("ARG FLAVOUR=cpu", "ARG FLAVOUR=gpu", "flavour"),
        (f"ray:{pins()['ray']}", "ray:2.59.0", "base"),
        ("--constraint constraints.txt ", "", "pins"),
        ("USER ray", "RUN pip install vizdoom==1.3.2\nUSER ray", "pins"),
        ("COPY --chown=ray:users grading grading\n", "", "packages"),
        (" && rollouts doctor", "", "engine"),
        ("USER ray", "USER root", "user"),
    ],
)
def test_a_broken_copy_is_found(right: str, wrong: str, fault: str) -> None:
    assert right in DOCKERFILE
    assert faults(DOCKERFILE.replace(right, wrong)) == [fault]


def test_both_builds_in_the_readme_are_those_of_the_cluster_files() -> None:
    tag = f"YOUR_REGISTRY/doom-rollouts:{project_version()}-ray{pins()['ray']}-py311"
    for text in (README, DOCKERFILE):
        assert f"-t {tag}-cpu ." in text
        assert re.search(rf"FLAVOUR=cu128 [^`]*-t {re.escape(tag)}-cu128 \.", text)


SECRET = re.compile(r"(?i)sk-\w|AKIA|hf_[a-z0-9]{10}|(api_key|password|secret|auth_token|hf_token)['\"]?\s*[:=]\s*\w")


def test_no_file_holds_a_secret() -> None:
    for path in (ROOT / "cluster.yaml", *(ROOT / "deploy").rglob("*.yaml"), ROOT / "deploy/Dockerfile"):
        assert not SECRET.search(path.read_text()), path


@pytest.mark.parametrize(
    "line", ["--env OPENAI_API_KEY=word", "env_vars: { HF_TOKEN: word }", "key: sk-word", "a: hf_1234567890"]
)
def test_a_secret_would_be_found(line: str) -> None:
    assert SECRET.search(line)
