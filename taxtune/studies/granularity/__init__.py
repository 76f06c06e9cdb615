"""How well an encoder scores labels at each level: paper 3, §4, Tables 2, 5 and 6 and Figure 3."""
