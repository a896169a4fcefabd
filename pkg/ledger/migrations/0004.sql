-- Facts of the kinds "frozen" and "muting" are known from here on. The indexes are what the daemon's pages search a long ledger by.
CREATE INDEX memory_user ON memory (user, id);
CREATE INDEX memory_token ON memory (token);
CREATE INDEX judged_verdict ON judged (verdict, memory);
