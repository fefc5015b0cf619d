"""What a kernel reads and writes: a function becomes a template (here), and a template and a launch become ranges
(`ptxtools.ranges`).
"""
