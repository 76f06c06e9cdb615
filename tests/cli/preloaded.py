"""What `taxtune tune` imports, imported: `tests.cli.processes` starts processes from here."""

from __future__ import annotations

import matplotlib.pyplot
import mlflow
import optuna
import torchvision
import transformers
from mlflow.store.tracking import sqlalchemy_store
from transformers.models.mllama import modeling_mllama, processing_mllama

import taxtune.cli.running
import taxtune.report.html
import taxtune.vlm.local
from taxtune.vlm.api_errors import load_litellm

load_litellm()

__all__ = [
    "matplotlib",
    "mlflow",
    "modeling_mllama",
    "optuna",
    "processing_mllama",
    "sqlalchemy_store",
    "taxtune",
    "torchvision",
    "transformers",
]
