"""The record that a run leaves in MLflow. MLflow itself is loaded when a run starts, not when this is imported."""

from taxtune.tracking.mlflow_tracker import MLflowTracker, TrackingCallback

__all__ = ["MLflowTracker", "TrackingCallback"]
