//! Worlds that are sabotaged, so that the auditor has something to find.
