"""Storage adapters, one module for each kind of file system: they report size, quota and other
facts about a storage area.
"""
