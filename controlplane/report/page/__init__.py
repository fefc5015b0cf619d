"""One page for a browser, without network, on a profile, a plan or a trace: for people who have never seen Tessera."""
