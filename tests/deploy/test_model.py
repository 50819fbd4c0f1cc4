"""The model that Ray serves beside the games, held against the nodes of the cluster files. Nothing is served."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rollouts.policies.chat import TOP_LOGPROBS
from tests.deploy.files import KUBERNETES, ROOT, broken, read

MODEL = "deploy/serve_llm.yaml"
APP: tuple[str | int, ...] = ("applications", 0)
LLM: tuple[str | int, ...] = (*APP, "args", "llm_configs", 0)
ON_LLM = {"num_cpus": 0, "label_selector": {"rollouts.node": "llm"}}

# Serve 2.60 drops keys that it does not know without a word: the ones in use, of ServeDeploySchema, HTTPOptionsSchema,
# ServeApplicationSchema, DeploymentSchema, LLMConfig and vLLM's engine arguments. `logprobs_mode` would change what a
# logprob is, and is none of them.
KEYS: dict[tuple[str | int, ...], set[str]] = {
    (): {"proxy_location", "http_options", "applications"},
    ("http_options",): {"host", "port"},
    APP: {"name", "route_prefix", "import_path", "args", "deployments"},
    (*APP, "args"): {"llm_configs"},
    (*APP, "deployments", 0): {"name", "ray_actor_options"},
    LLM: {"model_loading_config", "engine_kwargs", "placement_group_config", "deployment_config"},
    (*LLM, "model_loading_config"): {"model_id", "model_source"},
    (*LLM, "engine_kwargs"): {"max_model_len", "max_logprobs"},
    (*LLM, "placement_group_config"): {"bundle_per_worker"},
    (*LLM, "deployment_config"): {"ray_actor_options", "autoscaling_config"},
    (*LLM, "deployment_config", "autoscaling_config"): {"min_replicas", "max_replicas", "target_ongoing_requests"},
}


def at(config: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        config = config[step]
    return config


def kinds(name: str) -> dict[str, tuple[dict[str, float], int]]:
    """What a worker of each kind has for Ray, and how many there may be."""
    if name != KUBERNETES:
        types = read(name)["available_node_types"]
        of_instance = {"cpu": {"CPU": 16}, "gpu": {"CPU": 16, "GPU": 1}}  # where the file leaves it to the launcher
        return {
            kind: ({**of_instance.get(kind, {}), **node["resources"]}, node["max_workers"])
            for kind, node in types.items()
            if kind != "head"
        }
    return {
        group["groupName"]: (_of_pod(group), group["maxReplicas"]) for group in read(name)["spec"]["workerGroupSpecs"]
    }


def _of_pod(group: dict[str, Any]) -> dict[str, float]:
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    own = json.loads(json.loads(group["rayStartParams"].get("resources", '"{}"')))
    cpus = group["rayStartParams"].get("num-cpus", limits["cpu"])
    return {"CPU": float(cpus), "GPU": float(limits.get("nvidia.com/gpu", 0)), **own}


def faults(config: dict[str, Any]) -> list[str]:
    """What is wrong with the application."""
    app, model = at(config, APP), at(config, LLM)
    wrong = {
        "application": app["import_path"] != "ray.serve.llm:build_openai_app" or app["route_prefix"] != "/",
        "address": (config["proxy_location"], config["http_options"])
        != ("HeadOnly", {"host": "0.0.0.0", "port": 8000}),
        "logprobs": model["engine_kwargs"].get("max_logprobs", 0) < TOP_LOGPROBS,
        "ingress": app["deployments"] != [{"name": "OpenAiIngress", "ray_actor_options": ON_LLM}],
    }
    found = [f"keys at {path}" for path, known in KEYS.items() if set(at(config, path)) != known]
    return found + [name for name, is_wrong in wrong.items() if is_wrong] + _faulty_replicas(model)


def _faulty_replicas(model: dict[str, Any]) -> list[str]:
    """Replicas fit on nodes whose image has vLLM and on no others, and there may be as many nodes as replicas."""
    actor = model["deployment_config"].get("ray_actor_options", {})
    # Of LLMServer.get_deployment_options: the replica's own CPU, one unless told, is added to the first bundle.
    asked = {"CPU": actor.get("num_cpus", 1), **model["placement_group_config"]["bundle_per_worker"]}
    scaling = model["deployment_config"]["autoscaling_config"]
    found = []
    for name in ("cluster.yaml", "deploy/gcp.yaml", KUBERNETES):
        able = [kind for kind, (has, _) in kinds(name).items() if all(has.get(k, 0) >= v for k, v in asked.items())]
        if able != ["llm"]:
            found.append(f"place in {name}")
        if not 1 <= scaling["min_replicas"] <= scaling["max_replicas"] <= kinds(name)["llm"][1]:
            found.append(f"replicas in {name}")
    return found


def test_the_model_keeps_to_what_we_promise() -> None:
    assert faults(read(MODEL)) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("proxy_locaton",), "HeadOnly", "keys at ()"),
        (("http_options", "host"), "127.0.0.1", "address"),
        (("proxy_location",), "EveryNode", "address"),
        ((*APP, "import_path"), "ray.serve.llm:build_app", "application"),
        ((*APP, "deployments", 0, "ray_actor_options"), {"num_cpus": 0}, "ingress"),
        ((*LLM, "engine_kwargs", "max_logprobs"), 0, "logprobs"),
        ((*LLM, "engine_kwargs", "logprobs_mode"), "raw_logits", f"keys at {(*LLM, 'engine_kwargs')}"),
        ((*LLM, "runtime_env"), {"env_vars": {"HF_TOKEN": "word"}}, f"keys at {LLM}"),
        ((*LLM, "placement_group_config", "bundle_per_worker"), {"GPU": 1}, "place in cluster.yaml"),
        ((*LLM, "placement_group_config", "bundle_per_worker", "GPU"), 2, f"place in {KUBERNETES}"),
        ((*LLM, "deployment_config", "ray_actor_options"), {}, "place in cluster.yaml"),
        ((*LLM, "deployment_config", "autoscaling_config", "max_replicas"), 9, "replicas in deploy/gcp.yaml"),
    ],
)
def test_a_broken_copy_is_found(path: tuple[str | int, ...], value: object, fault: str) -> None:
    assert fault in faults(broken(MODEL, path, value))


def test_a_run_finds_the_model_by_the_readme() -> None:
    readme, config = (ROOT / "README.md").read_text(), read(MODEL)
    name, port = at(config, LLM)["model_loading_config"]["model_id"], config["http_options"]["port"]
    assert "--working-dir deploy -- serve deploy serve_llm.yaml" in readme
    (line,) = re.findall(r"^rollouts submit --policy chat:.* --base-url .*$", readme, re.MULTILINE)
    assert f"--policy chat:{name} " in line
    assert f"--grader-model {name} " in line
    assert f"--base-url http://HEAD:{port}/v1 " in line
