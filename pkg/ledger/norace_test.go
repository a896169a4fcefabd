//go:build !race

package ledger_test

const slow = false
