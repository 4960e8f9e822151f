"""Identity sources, which verify names and passwords. One file each."""
