//! The benches of memory-prompt. There is no code here: see the files beside this one.
