"""WebShop-v0 and WebShopSite-v0: a text shop with catalogue, search, goals and score."""
