"""Use cases of users: login, accounts, tokens, second factors and secrets."""
