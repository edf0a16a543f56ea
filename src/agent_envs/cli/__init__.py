"""Commands that need environments only: play, assets, retrieval. They need the extra [cli]."""
