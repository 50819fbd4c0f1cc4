"""The image of the nodes, and the model that Ray serves beside them."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import pytest

from tests.deploy.files import ROOT, pins, project_version, read

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
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
        "pins": "pip install --no-cache-dir --constraint constraints.txt" not in text,
        "packages": copied != {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"},
        "engine": "&& rollouts doctor\n" not in text,
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
        ("--constraint constraints.txt ", "", "pins"),
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


def test_no_file_holds_a_secret() -> None:
    secret = re.compile(r"(?i)sk-\w|AKIA|hf_[a-z]{10}|(api_key|password|secret|auth_token)['\"]?\s*[:=]\s*\w")
    for path in (ROOT / "cluster.yaml", *(ROOT / "deploy").rglob("*.yaml"), ROOT / "deploy/Dockerfile"):
        assert not secret.search(path.read_text()), path


def the_model() -> tuple[dict[str, Any], dict[str, Any]]:
    """The application that serves it, and its configuration."""
    (app,) = read("deploy/serve_llm.yaml")["applications"]
    (model,) = app["args"]["llm_configs"]
    return app, model


def test_the_model_is_built_and_lives_on_nodes_whose_image_has_vllm() -> None:
    app, model = the_model()
    assert app["import_path"] == "ray.serve.llm:build_openai_app"
    kinds = read("cluster.yaml")["available_node_types"]
    (ingress,) = app["deployments"]
    assert ingress["ray_actor_options"]["label_selector"] == kinds["llm"]["labels"]
    asked = model["placement_group_config"]["bundle_per_worker"]
    able = [name for name, kind in kinds.items() if all(kind["resources"].get(k, 0) >= v for k, v in asked.items())]
    assert able == ["llm"]


def test_letters_can_be_read_and_a_run_finds_the_model_by_the_readme() -> None:
    _, model = the_model()
    assert model["engine_kwargs"]["max_logprobs"] == 20
    name, port = model["model_loading_config"]["model_id"], read("deploy/serve_llm.yaml")["http_options"]["port"]
    assert "-- serve deploy serve_llm.yaml" in README
    assert re.search(rf"rollouts submit --policy chat:{re.escape(name)} .*--base-url http://HEAD:{port}/v1", README)
