// Package ledger is the durable record of facts, and the only writer of the database.
package ledger
