//go:build race

package ledger_test

// slow: SQLite takes many times as long under the race detector.
const slow = true
