"""What a network makes of an image, kept: in prompt tuning the images stay and only the prompts change.

`base.py` says what a way of keeping is, and finds the one that fits a network; `cross.py` is the way of networks whose
text looks at the image through layers of their own (Mllama), `prefix.py` that of all whose text follows the image.
`states.py` holds what is kept, in memory and on disk.
"""

from taxtune.models.reuse.base import Reuse, Unsupported, find_reuse
from taxtune.models.reuse.states import State, States, memory_of_this_machine

__all__ = ["Reuse", "State", "States", "Unsupported", "find_reuse", "memory_of_this_machine"]
