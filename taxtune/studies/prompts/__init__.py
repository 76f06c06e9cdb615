"""What another prompt does to hP and hR: paper 1, §7.1, Figure 7."""
