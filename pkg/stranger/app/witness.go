package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// witness writes down what really happens, one line a moment, with tabs between:
//
//	time  up                      the app has started
//	time  found  PLACE  REFS      what it found there
//	time  told   REF    WHO TEXT KEPT  a note came in, and what of it is to be kept; one that is written twice comes twice
//	time  said   REF              from here on people may hear that it is kept
//	time  sorry  REF              the log says that it is not
//	time  put>   PLACE  REF       it sets out to put the note there
//	time  put<   PLACE  REF       it is there
//	time  cut>   PLACE  REF       it sets out to take it away
//	time  cut<   PLACE  REF       it is away
//
// Each line is one write to a file that nothing else touches, and so outlives the process.
type witness struct {
	mu   sync.Mutex
	file *os.File
}

func openWitness(path string) (*witness, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("JOTTER_WITNESS: %w", err)
	}
	return &witness{file: f}, nil
}

func (w *witness) write(words ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.file, "%d\t%s\n", time.Now().UnixNano(), strings.Join(words, "\t")); err != nil {
		panic(err) // without its witness it is of no use
	}
}

// told writes down a note that came in as text.
func (w *witness) told(n note, text string) {
	w.write("told", n.Ref, n.Who, strconv.Quote(text), strconv.Quote(n.Text))
}
