"""Policies: where launches run. The file the user writes, and the decision table (tessera/policy.h) the shim reads.

Nothing is imported here: what starts quickly takes only the module that it needs.
"""
