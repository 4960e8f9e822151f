"""The nouns. What comes from outside is strict (``Strict``); what is stored and passed on is
frozen."""
