"""The record that a run leaves in MLflow. MLflow itself is loaded when a run starts, not when this is imported."""

from taxtune.tracking.mlflow_tracker import MLflowTracker, Split

__all__ = ["MLflowTracker", "Split"]
