-- Every fact has one seq, and seq orders them over all tables. Tables are singular; the views below are what to read.
-- Instants are three columns: …_mono (nanoseconds since boot), …_wall (Unix nanoseconds), …_boot (a name: which boot).

-- Strings that repeat (runs, users, views, outcomes, boots …), and short lists of them joined by commas. 0 is "".
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
INSERT INTO name VALUES (0, '');

CREATE TABLE memory ( -- a write began: durable before the first keystroke
  seq INTEGER PRIMARY KEY, id INTEGER NOT NULL, run INTEGER NOT NULL, cycle INTEGER NOT NULL, user INTEGER NOT NULL,
  payload INTEGER NOT NULL, views INTEGER, token TEXT NOT NULL, text TEXT NOT NULL, question TEXT,
  at_mono INTEGER NOT NULL, at_wall INTEGER NOT NULL, at_boot INTEGER NOT NULL);
CREATE UNIQUE INDEX memory_id ON memory (id);

CREATE TABLE settled ( -- the outcome of a write
  seq INTEGER PRIMARY KEY, memory INTEGER NOT NULL, outcome INTEGER NOT NULL, cause INTEGER NOT NULL, detail TEXT,
  levels INTEGER NOT NULL, -- how many rows in level
  at_mono INTEGER NOT NULL, at_wall INTEGER NOT NULL, at_boot INTEGER NOT NULL);
CREATE INDEX settled_memory ON settled (memory);

CREATE TABLE level ( -- the acknowledgement levels a write reached, in order, each between "not seen yet" and "seen"
  seq INTEGER NOT NULL, n INTEGER NOT NULL, level INTEGER NOT NULL,
  not_seen_mono INTEGER NOT NULL, not_seen_wall INTEGER NOT NULL, not_seen_boot INTEGER NOT NULL,
  seen_mono INTEGER NOT NULL, seen_wall INTEGER NOT NULL, seen_boot INTEGER NOT NULL,
  PRIMARY KEY (seq, n)) WITHOUT ROWID;

CREATE TABLE sweep ( -- one reading of one view; read is the exact set of memories, such as 1-40,44
  seq INTEGER PRIMARY KEY, id INTEGER NOT NULL, cycle INTEGER NOT NULL, view INTEGER NOT NULL, complete INTEGER NOT NULL,
  began_mono INTEGER NOT NULL, began_wall INTEGER NOT NULL, began_boot INTEGER NOT NULL,
  ended_mono INTEGER NOT NULL, ended_wall INTEGER NOT NULL, ended_boot INTEGER NOT NULL,
  before INTEGER, before_mono INTEGER, before_wall INTEGER, before_boot INTEGER, -- health of the service; a name
  after INTEGER, after_mono INTEGER, after_wall INTEGER, after_boot INTEGER,
  error TEXT, read TEXT NOT NULL);
CREATE INDEX sweep_id ON sweep (id);

-- What changed in a sweep, or confirms: the memories first..last all looked like this. A member of the sweep's read
-- set without a row looked as it did before.
CREATE TABLE observation (
  seq INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, state INTEGER NOT NULL, copies INTEGER NOT NULL,
  siblings INTEGER NOT NULL, ttl_ms INTEGER NOT NULL, strangers INTEGER, rig INTEGER NOT NULL, detail TEXT,
  began_mono INTEGER NOT NULL, began_wall INTEGER NOT NULL, began_boot INTEGER NOT NULL,
  ended_mono INTEGER NOT NULL, ended_wall INTEGER NOT NULL, ended_boot INTEGER NOT NULL,
  PRIMARY KEY (seq, first)) WITHOUT ROWID;

CREATE TABLE judged ( -- a verdict that was given and counted; the last one of a memory stands
  seq INTEGER PRIMARY KEY, memory INTEGER NOT NULL, cycle INTEGER NOT NULL, verdict INTEGER NOT NULL, defects INTEGER,
  class INTEGER NOT NULL, level INTEGER NOT NULL, fault INTEGER NOT NULL, service INTEGER NOT NULL,
  suspects INTEGER, exposure_ns INTEGER, lateness_ns INTEGER NOT NULL, flags INTEGER NOT NULL, -- 1 during, 2 recovered, 4 open
  missing INTEGER, found INTEGER, because TEXT,
  at_mono INTEGER NOT NULL, at_wall INTEGER NOT NULL, at_boot INTEGER NOT NULL);
CREATE INDEX judged_memory ON judged (memory);

-- Every other fact, as JSON. ref is what it is about: an injection (step), a cycle (cycle, gate), a memory (forget_begun,
-- forget_settled, told, log).
CREATE TABLE fact (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, ref INTEGER, wall INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX fact_kind ON fact (kind, ref);

CREATE VIEW memories AS
SELECT m.id, m.cycle, r.text AS run, u.text AS user, p.text AS payload, v.text AS views, m.token, m.text, m.question,
  strftime('%Y-%m-%d %H:%M:%f', m.at_wall / 1e9, 'unixepoch') AS begun,
  ifnull(o.text, 'unknown') AS outcome, nullif(c.text, '') AS cause, s.detail,
  strftime('%Y-%m-%d %H:%M:%f', s.at_wall / 1e9, 'unixepoch') AS settled, k.text AS verdict
FROM memory m JOIN name r ON r.id = m.run JOIN name u ON u.id = m.user JOIN name p ON p.id = m.payload
LEFT JOIN name v ON v.id = m.views
LEFT JOIN settled s ON s.memory = m.id LEFT JOIN name o ON o.id = s.outcome LEFT JOIN name c ON c.id = s.cause
LEFT JOIN judged j ON j.seq = (SELECT max(seq) FROM judged WHERE memory = m.id) LEFT JOIN name k ON k.id = j.verdict;

CREATE VIEW acknowledgements AS
SELECT s.memory, n.text AS level, (l.seen_mono - l.not_seen_mono) / 1e6 AS uncertain_ms,
  strftime('%Y-%m-%d %H:%M:%f', l.not_seen_wall / 1e9, 'unixepoch') AS not_seen,
  strftime('%Y-%m-%d %H:%M:%f', l.seen_wall / 1e9, 'unixepoch') AS seen
FROM level l JOIN settled s USING (seq) JOIN name n ON n.id = l.level;

CREATE VIEW sweeps AS
SELECT s.seq, s.id, s.cycle, v.text AS view, s.complete,
  strftime('%Y-%m-%d %H:%M:%f', s.began_wall / 1e9, 'unixepoch') AS began, (s.ended_mono - s.began_mono) / 1e6 AS took_ms,
  b.text AS before, a.text AS after, s.error, s.read
FROM sweep s JOIN name v ON v.id = s.view LEFT JOIN name b ON b.id = s.before LEFT JOIN name a ON a.id = s.after;

CREATE VIEW observations AS
SELECT o.seq, o.first, o.last, v.text AS view, t.text AS state, o.copies, o.siblings, o.ttl_ms, x.text AS strangers, o.rig,
  o.detail, strftime('%Y-%m-%d %H:%M:%f', o.began_wall / 1e9, 'unixepoch') AS began,
  strftime('%Y-%m-%d %H:%M:%f', o.ended_wall / 1e9, 'unixepoch') AS ended, s.id AS sweep, s.cycle
FROM observation o JOIN sweep s USING (seq) JOIN name v ON v.id = s.view JOIN name t ON t.id = o.state
LEFT JOIN name x ON x.id = o.strangers;

CREATE VIEW verdicts AS
SELECT j.seq, j.memory, j.cycle, k.text AS verdict, c.text AS class, d.text AS defects, l.text AS level, f.text AS fault,
  s.text AS service, x.text AS suspects, j.exposure_ns / 1e6 AS exposure_ms, m.text AS missing, n.text AS found, j.because,
  j.flags & 4 > 0 AS open, strftime('%Y-%m-%d %H:%M:%f', j.at_wall / 1e9, 'unixepoch') AS at
FROM judged j JOIN name k ON k.id = j.verdict JOIN name c ON c.id = j.class JOIN name l ON l.id = j.level
JOIN name f ON f.id = j.fault JOIN name s ON s.id = j.service LEFT JOIN name d ON d.id = j.defects
LEFT JOIN name x ON x.id = j.suspects LEFT JOIN name m ON m.id = j.missing LEFT JOIN name n ON n.id = j.found;

CREATE VIEW losses AS
SELECT v.at, v.memory, u.text AS user, v.verdict, v.class, v.fault, v.service, v.level, v.exposure_ms, v.missing, v.found,
  v.because, v.cycle, t.text
FROM verdicts v JOIN memory t ON t.id = v.memory JOIN name u ON u.id = t.user
WHERE v.verdict IN ('lost', 'torn', 'hidden') AND v.seq = (SELECT max(seq) FROM judged WHERE memory = v.memory)
ORDER BY v.seq;

CREATE VIEW injections AS
SELECT ref AS injection, json_extract(body, '$.step') AS step, json_extract(body, '$.plan.kind') AS kind,
  json_extract(body, '$.plan.service') AS service, json_extract(body, '$.detail') AS detail,
  strftime('%Y-%m-%d %H:%M:%f', wall / 1e9, 'unixepoch') AS at, seq
FROM fact WHERE kind = 'step' ORDER BY seq;

CREATE VIEW timeline AS
SELECT seq, strftime('%Y-%m-%d %H:%M:%f', wall / 1e9, 'unixepoch') AS at, what, about, story FROM (
  SELECT m.seq, m.at_wall AS wall, 'begun' AS what, 'm' || m.id AS about, u.text || ': ' || m.text AS story
  FROM memory m JOIN name u ON u.id = m.user
  UNION ALL SELECT s.seq, s.at_wall, o.text, 'm' || s.memory, s.detail FROM settled s JOIN name o ON o.id = s.outcome
  UNION ALL SELECT seq, began_wall, 'sweep', 'sweep ' || s.id, v.text || ' ' || s.read || ifnull(': ' || s.error, '')
  FROM sweep s JOIN name v ON v.id = s.view
  UNION ALL SELECT o.seq, o.began_wall, t.text, 'm' || o.first || iif(o.last > o.first, '-m' || o.last, ''),
    v.text || ifnull(': ' || o.detail, '')
  FROM observation o JOIN sweep s USING (seq) JOIN name v ON v.id = s.view JOIN name t ON t.id = o.state
  UNION ALL SELECT j.seq, j.at_wall, k.text, 'm' || j.memory, j.because FROM judged j JOIN name k ON k.id = j.verdict
  UNION ALL SELECT seq, wall, kind, CASE kind WHEN 'step' THEN 'injection ' || ref WHEN 'cycle' THEN 'cycle ' || ref
    WHEN 'gate' THEN 'cycle ' || ref ELSE 'm' || nullif(ref, 0) END, body FROM fact)
ORDER BY seq;
