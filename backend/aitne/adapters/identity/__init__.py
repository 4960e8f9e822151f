"""Identity sources: who says that a name and a password belong together. One file each."""
