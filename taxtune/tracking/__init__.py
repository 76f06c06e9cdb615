"""The record that a run leaves in MLflow. MLflow itself is loaded when a run starts, not when this is imported."""

from __future__ import annotations

from taxtune.tracking.base import Group, NullTracker, Split, Tracker
from taxtune.tracking.mlflow_tracker import MLflowTracker

__all__ = ["Group", "MLflowTracker", "NullTracker", "Split", "Tracker"]
