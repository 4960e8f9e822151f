"""Storage adapters, one module each: facts about an area from a site's file systems."""
