"""The error that several rooms raise."""


class RecipeError(ValueError):
    """A recipe, option or value is unknown or invalid; the message has the nearest known name."""
