"""How well each way of placing an answer finds its node: paper 1, §6.1, Table 2 and Figure 4."""
