"""Storage systems, a module each: what a site's file systems say of an area."""
