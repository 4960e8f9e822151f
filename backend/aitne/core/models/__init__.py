"""The models. Input from outside is strict (``Strict``); stored and passed values are frozen."""
