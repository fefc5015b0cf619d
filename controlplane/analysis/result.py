"""What an analysis gave: apart from what makes it, so that whoever only hands it on starts quickly."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.analysis.describe import Description


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known of a function. `template`: flat bytes (tessera/access.h), empty when no launch can be known.

    What the description has as unknown may be so in some launches only: a template tells for each.

    `is_lasting`: another try would say the same; false where a tool is missing or the image could not be read.

    `clone`: PTX of the function that tests each access, or why there is none (Clone.to_bytes); empty when none
    was asked for, or the function has no PTX.
    """

    description: Description
    template: bytes = b""
    is_lasting: bool = True
    clone: bytes = b""

    @property
    def is_known(self) -> bool:
        return bool(self.template)
