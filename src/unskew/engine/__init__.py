"""How a sum over blocks of rows is run: on threads here, on other engines behind the same call."""
