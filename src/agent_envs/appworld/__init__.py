"""AppWorld: requests in a world of apps, done by writing code."""
