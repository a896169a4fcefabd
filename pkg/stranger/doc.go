// Package stranger holds the daemon to what it says of an app that nobody wrote for it. The app below it, Jotter, shares no
// package with the sample target and has manners of its own; only an amnesia.yaml joins the two.
//
// Its tests run the real daemon on the real app, with each of the app's flaws and with none, and compare every verdict,
// memory by memory, with what the app's own witness says happened. What is right is derived by code that shares nothing
// with the oracle, nor with the zoo, which does the same for the sample target.
package stranger
