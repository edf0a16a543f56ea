"""Methods: what turns the rollouts of a step into rows with advantages, and learns beside it.

The loop knows `Method` alone. A method with a model of its own trains it inside `credit`, and saves
and restores it with the policy's checkpoint. Left out: anything about the policy's own update.
"""

from trainer.methods.method import Experience, Method

__all__ = ["Experience", "Method"]
