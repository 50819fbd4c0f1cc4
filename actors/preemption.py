"""Tells Ray that this node is about to be taken away: its work is given back before that, and charged to nobody.

    python -m actors.preemption aws        # on each spot worker, beside `ray start`; cluster.yaml starts it
    python -m actors.preemption now        # where the notice has come already: Kubernetes ends the pod

Waits for the provider's notice, then asks Ray to drain the node and ends. Sources: EC2 User Guide, "Spot Instance
interruption notices" (`spot/instance-action` of the metadata service, 404 until there is one; two minutes) and Compute
Engine, "Preemptible VM instances" (`instance/preempted`, TRUE; thirty seconds).
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

LOOK_S = 2.0
TIMEOUT_S = 5.0
AWS, GCP = "http://169.254.169.254", "http://metadata.google.internal"


@dataclass(frozen=True)
class Provider:
    """`is_going` asks the metadata service at a base URL; `notice_s` is how long the node lives from then on."""

    base: str
    notice_s: int
    is_going: Callable[[str], bool]


def aws_is_going(base: str) -> bool:
    """Errors: `URLError`."""
    token = _ask(
        Request(f"{base}/latest/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    )
    asked = Request(f"{base}/latest/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": token or ""})
    return _ask(asked) is not None


def gcp_is_going(base: str) -> bool:
    """Errors: `URLError`."""
    url = f"{base}/computeMetadata/v1/instance/preempted"
    return _ask(Request(url, headers={"Metadata-Flavor": "Google"})) == "TRUE"


PROVIDERS = {
    "aws": Provider(AWS, 120, aws_is_going),
    "gcp": Provider(GCP, 30, gcp_is_going),
    "now": Provider("", 45, lambda _base: True),
}


def wait_for_notice(provider: Provider, base: str, look_s: float = LOOK_S) -> None:
    """Returns once the node is told to go. A metadata service that does not answer is asked again."""
    while True:
        try:
            if provider.is_going(base):
                return
        except (URLError, TimeoutError) as error:
            print(f"{base} does not answer: {error}", flush=True)
        time.sleep(look_s)


def drain(notice_s: int) -> None:
    """Ask Ray to give this node no more work. Errors: `subprocess.CalledProcessError` where it refuses."""
    import ray  # noqa: PLC0415  a process that waits for days need not hold it in memory

    ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    here = ray.get_runtime_context()
    words = ["ray", "drain-node", "--address", here.gcs_address, "--node-id", here.get_node_id()]
    words += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the provider takes the node back"]
    subprocess.run([*words, "--deadline-remaining-seconds", str(notice_s)], check=True)


def _ask(request: Request) -> str | None:
    """What the service says; None for 404."""
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            told: str = answer.read().decode()
            return told
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("provider", choices=PROVIDERS)
    provider = PROVIDERS[parser.parse_args().provider]
    wait_for_notice(provider, provider.base)
    print("this node will be taken away: its work is given back", flush=True)
    drain(provider.notice_s)


if __name__ == "__main__":
    main()
