"""Playing: environments of a recipe, episodes, rollouts, and what a failure costs."""
