"""`tessera analyze --trace` and what concerns the cache of analyses."""

from __future__ import annotations

import argparse
import json
import sys

from controlplane.base.screen import show
from controlplane.base.tables import amount
from ptxtools.errors import ConfigError

EVERY = "*"  # of --function, where it is not given


def run_trace(options: argparse.Namespace) -> int:
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.analysis import coverage_svg, coverage_text
    from controlplane.analysis.analyst import Analyst
    from controlplane.analysis.cache import Cache
    from controlplane.analysis.coverage import measure
    from controlplane.analysis.observed import Observations
    from controlplane.analysis.pool import Pool
    from controlplane.observe import trace
    from controlplane.policy.read import read_policy
    from ptxtools.machine.consent import Consent

    loaded = trace.load(options.trace)
    policy = None if options.policy is None else read_policy(options.policy)
    consent = Consent(options.disassemble or (policy.disassemble if policy is not None else Consent.OPEN))
    observations = Observations() if policy is not None and policy.use_observed else None
    analyst = Analyst(Cache(complain=_say), Pool())
    found = measure(loaded, analyst, options.function, options.launches, consent, _say, observations)
    if not found.functions and options.function == EVERY:
        raise ConfigError(
            "no kernel was launched in it", expected="a trace of a program that launches kernels", file=options.trace
        )
    if not found.functions:
        raise ConfigError(
            f"no launch of a kernel that matches '{options.function}' is in it",
            expected="another pattern",
            file=options.trace,
        )
    if options.svg is not None:
        try:
            options.svg.write_text(coverage_svg.draw(found, options.trace.name))
        except OSError as error:
            raise ConfigError(f"--svg {options.svg}: {error.strerror}", expected="a writable file") from error
    if options.json:
        print(json.dumps(coverage_text.to_json(found), indent=2))
    else:
        show(coverage_text.summary(found) if options.coverage else coverage_text.functions(found))
    return 0


def run_cache(clear: bool) -> int:
    from controlplane.analysis.cache import Cache

    cache = Cache()
    usage = cache.usage()
    if cache.folder.problem:
        raise ConfigError(
            f"the cache of analyses is not used: {cache.folder.problem}",
            expected="a folder of this user's own, or another XDG_CACHE_HOME",
            file=usage.directory,
        )
    if clear:
        print(f"removed {cache.clear()} of {usage.files} analyses from {usage.directory}")
    else:
        most = amount(usage.limit_bytes)
        print(f"{usage.directory}: {usage.files} analyses, {amount(usage.size_bytes)} of at most {most}")
    return 0


def _say(message: str) -> None:
    print(f"tessera: {message}", file=sys.stderr)
