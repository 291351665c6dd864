# The replay's inner loop is compiled once for each instruction set it can use; src/replay/dispatch.c picks one at run time.
