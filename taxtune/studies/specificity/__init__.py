"""Whether an encoder sees that a text is wrong or incomplete: paper 3, §5, Table 3 and Figure 5."""
