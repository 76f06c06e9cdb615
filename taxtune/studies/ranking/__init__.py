"""How models rank under each measure: paper 1, §7.1, Tables 4 and 5 and Figure 5."""
