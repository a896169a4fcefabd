// Command app is Jotter, a small journal that an assistant could read: a target for Amnesia's tests that shares nothing
// with the sample target, neither a package nor a manner. It speaks JSON, hands out bearer tokens, answers 202 and is
// asked later what became of a note, pages its lists by a cursor, draws its one page in the browser, and can keep only
// the gist of what it is told. It knows nothing of Amnesia.
//
// A note lives in two places: in the journal, a file that only grows, and in the feed, a file for each person that is
// derived from the journal and that people see. The feed lies in the cache, which may be emptied: it is written anew from
// the journal when the app starts.
//
// It never ends in order: SIGTERM ends it like SIGKILL, and what it has said that it keeps is in a file.
//
//	JOTTER_LISTEN    address
//	JOTTER_HOME      folder of the journal
//	JOTTER_CACHE     folder of the feed
//	JOTTER_WITNESS   file that tells what really happened, see witness.go
//	JOTTER_OPERATOR  the operator's secret
//	JOTTER_STYLE     verbatim (default), or gist: only the clause with the code or number in it is kept
//	JOTTER_LAG       how late is late, for the flaws that are late
//	JOTTER_FEED      how many notes of a person the feed keeps, the newest; 0: all
//	JOTTER_FLAWS     names with commas between, see flaws
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The flaws that it can have.
const (
	hasty          = "hasty"            // a note is called kept before anything is written
	feedInMemory   = "feed-in-memory"   // the feed is in no file, and not written anew
	feedNotRebuilt = "feed-not-rebuilt" // what the cache has lost is not written anew
	journalInCache = "journal-in-cache" // the journal lies where everything may be thrown away
	fieldMixup     = "field-mixup"      // notes of several lines come in a field that nobody reads
	openDoor       = "open-door"        // everybody sees everybody's notes
	undead         = "undead"           // what was struck out comes back when the feed is written anew
	stutter        = "stutter"          // a write that took long is done again, as a new note
	overwrite      = "overwrite"        // a note on what looks like the same matter replaces the older one
	lazyFeed       = "lazy-feed"        // the feed comes late, which is no flaw to somebody with patience
	hoarding       = "hoarding"         // a person's notes are written only when there are three of them; people see them at once
	sorry          = "sorry"            // of each third note it turns out only later that it cannot be kept, and the log says so
)

func main() {
	if err := run(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "jotter:", err)
		os.Exit(1)
	}
}

func run(getenv func(string) string) error {
	lag, err := time.ParseDuration(getenv("JOTTER_LAG"))
	if err != nil {
		return fmt.Errorf("JOTTER_LAG: %w — fix: a duration such as 500ms", err)
	}
	flaws := map[string]bool{}
	known := []string{hasty, feedInMemory, feedNotRebuilt, journalInCache, fieldMixup, openDoor, undead, stutter, overwrite, lazyFeed, hoarding, sorry}
	for name := range strings.SplitSeq(getenv("JOTTER_FLAWS"), ",") {
		if name != "" && !slices.Contains(known, name) {
			return fmt.Errorf("JOTTER_FLAWS: there is no %q — fix: some of %s", name, strings.Join(known, ", "))
		}
		flaws[name] = true
	}
	w, err := openWitness(getenv("JOTTER_WITNESS"))
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(getenv("JOTTER_FEED"))
	if err != nil {
		return fmt.Errorf("JOTTER_FEED: %w — fix: a number", err)
	}
	b, err := openBook(getenv("JOTTER_HOME"), getenv("JOTTER_CACHE"), size, flaws, lag, w)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", getenv("JOTTER_LISTEN"))
	if err != nil {
		return err
	}
	d := &desk{book: b, gist: getenv("JOTTER_STYLE") == "gist", operator: getenv("JOTTER_OPERATOR"), kept: map[string]chan struct{}{}}
	return http.Serve(ln, d.routes())
}
