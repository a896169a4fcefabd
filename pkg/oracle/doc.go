// Package oracle judges: recorded facts in, one verdict for each memory out. It is pure; it does no I/O and reads no
// clock, time comes in as a value.
package oracle
