"""What coverage counts of a launch's ranges."""

from controlplane.analysis.coverage import Evaluated
from ptxtools.access.template import AccessKind
from ptxtools.ranges.launch import Range, Result


def test_scratch_and_what_a_call_carries_are_not_counted_as_written() -> None:
    """Whoever asks for the share that is overwritten asks whether what was there is needed."""
    output = Range(AccessKind.WRITE, 0, None, 4096, 0, 1023)
    sure = Range(AccessKind.WRITE, 0, None, 4096, 0, 511, overwritten=True)
    workspace = Range(AccessKind.WRITE, 1, None, 65536, 0, 4095, scratch=True)
    intermediate = Range(AccessKind.WRITE, 2, None, 1 << 20, 0, 4095, intermediate=True)
    found = Evaluated()
    found.add(Result([output, sure, workspace, intermediate]))
    assert (found.written_bytes, found.overwritten_bytes) == (1024, 512)
    assert found.predicted_bytes == 1024 + 2 * 4096
