//go:build unix

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxLine   = 64 << 10 // bytes kept of one line
	tailLines = 20       // kept of each process
	buffered  = 1024     // of each consumer
)

// tail reads a process's output and keeps its last lines.
type tail struct {
	ended chan struct{}

	mu    sync.Mutex
	lines []string
}

func newTail() *tail { return &tail{ended: make(chan struct{})} }

// read goes on to the end whatever the consumers do: a full pipe would hold the service up.
func (t *tail) read(r io.ReadCloser, emit func(line string)) {
	defer close(t.ended)
	defer r.Close()
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			text := strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\uFFFD")
			t.keep(text)
			emit(text)
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is cut
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (t *tail) keep(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = slices.Delete(t.lines, 0, 1)
	}
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// settle waits for the end of the output of a dead process; a stray that still holds the pipe is not waited for.
func (t *tail) settle() {
	select {
	case <-t.ended:
	case <-time.After(100 * time.Millisecond):
	}
}

// feed hands values to any number of followers.
type feed[T any] struct {
	dropped atomic.Int64

	mu        sync.Mutex
	followers map[chan T]func() bool // with what ends the wait for its context
	closed    bool
}

func (f *feed[T]) follow(ctx context.Context) <-chan T {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan T, buffered)
	if f.closed {
		close(ch)
		return ch
	}
	if f.followers == nil {
		f.followers = make(map[chan T]func() bool)
	}
	f.followers[ch] = context.AfterFunc(ctx, func() { f.leave(ch) })
	return ch
}

func (f *feed[T]) leave(ch chan T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.followers[ch]; ok {
		delete(f.followers, ch)
		close(ch)
	}
}

func (f *feed[T]) send(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.followers {
		select {
		case ch <- v:
		default:
			f.dropped.Add(1)
		}
	}
}

func (f *feed[T]) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for ch, stop := range f.followers {
		stop()
		delete(f.followers, ch)
		close(ch)
	}
}
