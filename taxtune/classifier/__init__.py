"""What a finished run is good for: its winning template, model, mapper and policy put labels on new images.

classifier = taxtune.load_classifier("runs/birds")
classifier.predict(["a.jpg", "b.jpg"])
classifier.save("birds-classifier")
"""

from __future__ import annotations

from taxtune.classifier.classifier import Classification, Classifier, Step
from taxtune.classifier.loading import load_classifier
from taxtune.policies import Reliability, RiskGuarantee

__all__ = [
    "Classification",
    "Classifier",
    "Reliability",
    "RiskGuarantee",
    "Step",
    "load_classifier",
]
