"""A model for workers, and a Ray cluster."""

from __future__ import annotations

import os

import pytest

from tests.execution.sleepy import make_package


@pytest.fixture
def sleepy(tmp_path, monkeypatch):
    """The name of a model of an installed package, which keeps a diary in `tmp_path`."""
    return make_package(tmp_path, monkeypatch)


@pytest.fixture
def cluster(sleepy):
    """A Ray cluster on this machine: a head without room for workers, and two `nodes` with a core and "a GPU" each."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 1024**2, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    try:
        made.nodes = [made.add_node(num_cpus=1, num_gpus=1, **small) for _ in range(2)]
        # This copy of the code, and the model's package.
        variables = {name: os.environ[name] for name in ("PYTHONPATH", "SLEEPY_DIARY")}
        ray.init(
            made.address,
            runtime_env={"env_vars": variables},
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
