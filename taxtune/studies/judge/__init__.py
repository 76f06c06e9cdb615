"""Which measures agree with people: paper 4, Tables 2 and 3."""
