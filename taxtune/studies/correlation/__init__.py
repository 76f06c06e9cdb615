"""Which measures of text follow hP and hR: paper 1, §5, Table 1 and Figure 8."""
