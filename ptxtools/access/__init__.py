"""What a kernel reads and writes: a function becomes a template (here), a launch of it becomes ranges
(`ptxtools.ranges`).
"""
