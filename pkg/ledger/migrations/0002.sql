-- What a read went through of the user's, whatever it said; 0 where the view does not tell.
ALTER TABLE observation ADD COLUMN records INTEGER NOT NULL DEFAULT 0;
