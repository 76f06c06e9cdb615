"""What a network makes of an image, kept: in prompt tuning the images stay and only the prompts change.

`base.py` says what a way of keeping is, and which ones may fit an architecture. `cross.py`: networks whose text looks
at the image through layers of their own (Mllama). `prefix.py`: all that read image and text as one sequence;
`features.py`: the same where that would be too much to keep. `states.py` holds what is kept, in memory and on disk.
"""

from taxtune.models.reuse.base import Reuse, Unsupported, ways_to_keep
from taxtune.models.reuse.states import State, States

__all__ = ["Reuse", "State", "States", "Unsupported", "ways_to_keep"]
