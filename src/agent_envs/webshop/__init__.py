"""WebShop-v0 and WebShopSite-v0: shopping as text, with catalogue, search, goals and score."""
