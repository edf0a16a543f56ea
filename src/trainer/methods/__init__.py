"""Methods: give the rollouts of a step their advantages, and may train a model of their own.

The training loop only uses `Method`. A method with a model of its own trains it in `credit` and
saves it with the policy's checkpoint. Left out: the update of the policy.
"""

from trainer.methods.method import Experience, Method

__all__ = ["Experience", "Method"]
