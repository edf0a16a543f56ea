"""AppWorld-v0: tasks in a world of apps, done by writing code."""
