"""Joins a Ray cluster, or starts a Ray of our own and ends it again without leaving anything.

Ray reads its environment when it is imported, so it is imported here only once that is set: use `Cluster` before any
other module of this package.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import psutil

from actors.capacity import Node, node_of
from actors.entry_check import check_lets_in, find_token
from actors.reaper import Reaper
from rollouts.doom.engine_home import sweep_shared_memory
from rollouts.errors import UsageError
from rollouts.scratch import sweep_scratch
from rollouts.scrub import describe_error

STORE_BYTES = 100 * 2**20
JOIN_S = 12.0
GRACE_S = 0.4
SETTLE_S = 0.25
_NODE_GROUP = "ray.io/node-group"
_LOG_MONITOR, _DASHBOARD, _AUTOSCALER = "/log_monitor.py", "/dashboard/dashboard.py", "/autoscaler/_private/monitor.py"


@dataclass(frozen=True)
class ClusterSettings:
    """`address` None: that of RAY_ADDRESS, else a Ray of our own with `cpus` (None: this machine's) in `temp_dir`.

    `metrics_port` is where that one is to be scraped (0: any free port), None for nowhere.
    """

    address: str | None = None
    cpus: int | None = None
    temp_dir: str | None = None
    dashboard: bool = False
    metrics_port: int | None = None

    @property
    def joins(self) -> str | None:
        """The address of the cluster that is joined; None for a Ray of our own."""
        return self.address or os.environ.get("RAY_ADDRESS") or None


class Cluster:
    """A connection to Ray; one a process. The driver's `close` ends what it started, never what it joined."""

    def __init__(self, settings: ClusterSettings | None = None) -> None:
        """Errors: UsageError where Ray cannot be joined (within 12 s) or started."""
        self._settings = settings or ClusterSettings()
        self._address = self._settings.joins
        self._old_processes = set(psutil.Process().children())
        self._check_metrics()
        self._ray = _import_ray(self.is_own, self.collects_metrics)
        self._open = True
        self._reaper: Reaper | None = None
        if self.is_own:
            self._start()
        else:
            self._join()

    @property
    def is_own(self) -> bool:
        return self._address is None

    @property
    def collects_metrics(self) -> bool:
        """One that is joined may, for all that we know."""
        return not self.is_own or self._settings.metrics_port is not None

    @property
    def metrics_url(self) -> str | None:
        """Where a Ray of our own is scraped; None where it is not. A cluster has such an address a node."""
        if not self.is_own or not self.collects_metrics:
            return None
        (head,) = self._alive()
        return f"http://{head['NodeManagerAddress']}:{head['MetricsExportPort']}/metrics"

    def nodes(self) -> list[Node]:
        """Those alive."""
        return [node_of(found) for found in self._alive()]

    def grows(self) -> bool:
        """Whether an autoscaler seems to look after it: such nodes belong to a group."""
        return any(found.get("Labels", {}).get(_NODE_GROUP) for found in self._alive())

    def close(self) -> None:
        """Leave; a Ray of our own ends with all its processes, engines among them. Idempotent."""
        if not self._open:
            return
        self._open = False
        if self._reaper is not None:
            self._reaper.close()
        started = self._processes() if self.is_own else []
        impatience = threading.Timer(GRACE_S, _kill, (started,))
        impatience.daemon = True
        impatience.start()
        try:
            self._ray.shutdown()
        finally:
            impatience.cancel()
        if self.is_own:
            _kill(started)
            psutil.wait_procs(started, timeout=1.0)
        time.sleep(SETTLE_S)  # actors that were killed may still be dying
        with suppress(OSError):
            sweep_shared_memory(min_age_s=SETTLE_S)
            sweep_scratch(min_age_s=SETTLE_S)

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _start(self) -> None:
        settings = self._settings
        try:
            self._ray.init(
                address="local",
                num_cpus=settings.cpus,
                include_dashboard=settings.dashboard,
                dashboard_host="127.0.0.1",
                log_to_driver=False,
                logging_level="error",
                object_store_memory=STORE_BYTES,
                _metrics_export_port=settings.metrics_port or None,
                _temp_dir=settings.temp_dir,
            )
        except Exception as error:
            raise UsageError(f"Ray cannot be started here: {describe_error(error)}") from error
        self._end_idlers()
        stay = (process for process in self._processes() if not _is_worker(process))
        self._reaper = Reaper(stay, self._alive()[0]["ObjectStoreSocketName"])

    def _check_metrics(self) -> None:
        """Ray itself would go on without metrics where it cannot have the port."""
        port = self._settings.metrics_port
        if port is None:
            return
        if not self.is_own:
            raise UsageError(
                f"--metrics-port {port} is for a Ray of our own: {self._address} is a cluster that has ports for its "
                "metrics already"
            )
        try:
            socket.create_server(("", port)).close()
        except OSError as error:
            raise UsageError(f"--metrics-port {port} cannot be had: {os.strerror(error.errno or 0)}") from error

    def _end_idlers(self) -> None:
        """Ray starts them whatever we say: one carries logs to a driver that wants none, one reports usage, one scales
        a cluster that does not grow. On two cores they take 0.7 % of both."""
        idlers = (_LOG_MONITOR, _AUTOSCALER) if self._settings.dashboard else (_LOG_MONITOR, _AUTOSCALER, _DASHBOARD)
        found = [process for process in self._processes() if any(name in _command(process) for name in idlers)]
        _kill(found)
        psutil.wait_procs(found, timeout=1.0)

    def _join(self) -> None:
        """In a thread, since with a wrong token `ray.init` never comes back."""
        address = self._address
        assert address is not None
        _check_listens(address)
        failed: list[BaseException] = []
        joined = threading.Event()

        def init() -> None:
            try:
                check_lets_in(address)
                self._ray.init(address=address, log_to_driver=False, logging_level="error")
            except Exception as error:  # noqa: BLE001  reported below
                failed.append(error)
            joined.set()

        threading.Thread(target=init, name="ray.init", daemon=True).start()
        if not joined.wait(JOIN_S):
            mode = os.environ.get("RAY_AUTH_MODE", "not set")
            raise UsageError(
                f"Ray at {address} did not let us in within {JOIN_S:g} s: check the address, and the token "
                f"(RAY_AUTH_MODE is {mode}; it comes from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token)"
            )
        if failed and isinstance(failed[0], UsageError):
            raise failed[0]
        if failed:
            raise UsageError(f"Ray at {address} cannot be joined: {describe_error(failed[0])}")

    def _processes(self) -> list[psutil.Process]:
        """Of our own Ray: all that descends from us and was not there before."""
        found: list[psutil.Process] = []
        for child in set(psutil.Process().children()) - self._old_processes:
            with suppress(psutil.Error):
                found += [child, *child.children(recursive=True)]
        return found


def _import_ray(own: bool, collects_metrics: bool) -> ModuleType:
    """A Ray of our own listens on the network whatever we say, so it gets a token that nobody else knows. Its workers
    are all ours, so they need not be nice (by default any other process of the machine starves them)."""
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    if own:
        os.environ.setdefault("RAY_worker_niceness", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.update(RAY_enable_metrics_collection=str(collects_metrics).lower())
    if own and "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    if not own:
        find_token()
    import ray  # noqa: PLC0415  see above

    _keep_stdout_ours(ray)
    return ray


def _keep_stdout_ours(ray: ModuleType) -> None:
    """Ray prints what raylets say (a worker died …) on stdout, whatever `log_to_driver` is: that is no place for it,
    and what matters of it arrives as a lost worker. There is no setting for that."""
    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _check_listens(address: str) -> None:
    """Errors: UsageError for a dashboard's URL, and where nothing listens at a `host:port`; else it is left to Ray."""
    if address.startswith(("http://", "https://")):
        raise UsageError(
            f"{address} is the URL of a dashboard, to which rollouts submit sends a job: to join the cluster from "
            "here, give the HOST:PORT that ray start printed"
        )
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        raise UsageError(f"no Ray listens at {address}: {error.strerror or error}") from error


def _is_worker(process: psutil.Process) -> bool:
    """Workers come and go, and go with their raylet anyway; servers and agents stay."""
    try:
        return "default_worker.py" in _command(process) or process.name().startswith("ray::IDLE")
    except psutil.Error:
        return True


def _command(process: psutil.Process) -> str:
    """Its command line; empty where it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
