"""What functions of a program read and write: analysed once per code, kept on disk, given to the shim."""
