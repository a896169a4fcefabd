-- What a daemon has made of the facts up to seq, for its next start: no fact, and of no use to anybody else. Whoever deletes
-- all of it loses nothing but the time to make it again.
CREATE TABLE image (
  name TEXT PRIMARY KEY, seq INTEGER NOT NULL,
  last BLOB NOT NULL, -- the fingerprint of the fact seq
  program BLOB NOT NULL, boot TEXT NOT NULL, -- which made it, and when the machine was started
  sum BLOB NOT NULL, -- of all columns
  body BLOB NOT NULL);
