// Package rig breaks everything that is ours while the daemon runs on a healthy target: the disk of its ledger, its
// clocks, its way to the stores, the page, the host's name, its browser. It is tests only, and in no binary.
//
// What each holds is the same: our own trouble is never reported as the target's (no memory is lost, torn or hidden, no
// defect, no cycle unrecovered), no fact is lost, nothing hangs, and when the trouble is over the next cycle is conclusive.
package rig
