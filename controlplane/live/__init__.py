"""Programs that run under Tessera now: which there are, what they have done so far, and how that is shown."""
