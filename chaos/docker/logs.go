package docker

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"go.uber.org/zap"

	"amnesia/chaos"
)

// Logs follows what the services print from now on, over restarts and recreations, with the engine's time stamps. A slow
// consumer loses lines, never holds a service up; Dropped counts them.
func (e *Engine) Logs(ctx context.Context) <-chan chaos.Line {
	out := make(chan chaos.Line, buffered)
	ctx, stop := e.following(ctx)
	since := e.now(ctx)
	r := readers{e: e, since: since, wake: make(map[string]chan struct{}), emit: func(l chaos.Line) {
		select {
		case out <- l:
		default:
			e.dropped.Add(1)
		}
	}}
	go func() {
		defer close(out)
		defer r.wg.Wait()
		defer stop()
		r.scan(ctx)
		r.since = time.Time{} // whoever comes later is read from its start
		e.follow(ctx, since, func() { r.scan(ctx) }, func(ev chaos.Event) {
			if ev.Kind == "start" {
				r.ensure(ctx, ev.Service, ev.Instance.ID)
			}
		})
	}()
	return out
}

// readers are one goroutine for each container that has been seen. The map belongs to the goroutine that follows events.
type readers struct {
	e     *Engine
	since time.Time
	emit  func(chaos.Line)
	wake  map[string]chan struct{} // by container id: it has started again
	wg    sync.WaitGroup
}

func (r *readers) scan(ctx context.Context) {
	for _, s := range r.e.services {
		list, err := r.e.containers(ctx, s.Name)
		if err != nil {
			r.e.log.Debug("could not look for logs", zap.String("service", s.Name), zap.Error(err))
		}
		for _, c := range list {
			r.ensure(ctx, s.Name, c.ID)
		}
	}
}

func (r *readers) ensure(ctx context.Context, service, id string) {
	wake, ok := r.wake[id]
	if !ok {
		wake = make(chan struct{}, 1)
		r.wake[id] = wake
		since := r.since
		r.wg.Go(func() { r.read(ctx, service, id, since, wake) })
		return
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// read follows one container: to the end of each of its lives, until it is removed.
func (r *readers) read(ctx context.Context, service, id string, since time.Time, wake <-chan struct{}) {
	for {
		c, err := r.e.inspect(ctx, id)
		if err == nil {
			opts := container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: true}
			if !since.IsZero() {
				opts.Since = stamp(since)
			}
			err = r.e.readLogs(ctx, c, opts, func(text string) {
				stamped, rest, _ := strings.Cut(text, " ")
				at, err := time.Parse(time.RFC3339Nano, stamped)
				if err != nil {
					at, rest = r.e.clock.Now().Time(), text
				} else if next := at.Add(1); next.After(since) {
					since = next
				}
				r.emit(chaos.Line{Service: service, At: at, Text: rest})
			})
		}
		if errdefs.IsNotFound(err) || ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if err != nil {
			r.e.log.Debug("a log could not be read to its end", zap.String("service", service), zap.Error(err))
			again = time.After(mostWait)
		}
		select {
		case <-wake:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// readLogs hands over a container's log line by line.
func (e *Engine) readLogs(ctx context.Context, c target, opts container.LogsOptions, emit func(text string)) error {
	stream, err := e.cli.ContainerLogs(ctx, c.ID, opts)
	if err != nil {
		return err
	}
	defer stream.Close()
	stdout, stderr := &lines{emit: emit}, &lines{emit: emit}
	if c.Config.Tty { // one stream, as it is
		_, err = io.Copy(stdout, stream)
	} else {
		_, err = stdcopy.StdCopy(stdout, stderr, stream)
	}
	stdout.flush()
	stderr.flush()
	return err
}

// lines cuts what is written to it into lines. The rest of one that is too long is dropped.
type lines struct {
	emit func(string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		head, tail, found := bytes.Cut(p, []byte("\n"))
		l.rest = append(l.rest, head[:min(len(head), maxLine-len(l.rest))]...)
		if !found {
			return n, nil
		}
		l.emit(l.take())
		p = tail
	}
}

func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.emit(l.take())
	}
}

func (l *lines) take() string {
	text := strings.ToValidUTF8(string(bytes.TrimRight(l.rest, "\r")), "\uFFFD")
	l.rest = l.rest[:0]
	return text
}
