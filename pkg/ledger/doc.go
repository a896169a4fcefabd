// Package ledger is the durable record of facts, and the only writer of the database: one SQLite file (WAL,
// synchronous=FULL) that an on-call person can open with sqlite3 and read through views such as losses and timeline.
//
// Append is durable when it returns. Appends that wait at the same time share one transaction and so one fsync. Facts
// gives every fact back in the order of its seq, streaming.
//
// # Sweeps are reduced
//
// A sweep is appended with every observation it made. The ledger keeps those that say something new: a change (state,
// copies, strangers, siblings, rig, records, detail; a TTL that came, went, or whose end moved by more than a sixteenth of it),
// and the second of two alike when it is absent or unreadable, because a loss needs a confirming read. For the members
// of Read without an observation the rule is: read again, looks as in its last observation in this view, between the
// sweep's Began and Ended. What Facts gives back and what Tap is given have been reduced in the same way, with
// observations in the order of their memories, so that a book kept live and a book replayed are the same. Losing the
// reduction's cache is safe: an observation that need not have been kept is one more row and no other meaning.
//
// The package does not know what facts mean: it neither judges nor plans, and it refuses a fact only when it could not
// give it back.
package ledger
