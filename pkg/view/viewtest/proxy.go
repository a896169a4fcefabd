package viewtest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a view and a real server, and can spoil what the server says.
type Proxy struct {
	net.Listener
	to string

	mu      sync.Mutex
	said    int64 // bytes that the server said since the last change
	most    int64 // after which connections are cut; negative: never
	garbage bool
	conns   []net.Conn
}

// NewProxy starts one before the address; it ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Listener: l, to: to, most: -1}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		all.Wait()
	})
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(near) })
		}
	})
	return p
}

func (p *Proxy) serve(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer far.Close()
	p.mu.Lock()
	p.conns = append(p.conns, near, far)
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, near)
		far.Close()
	}()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		b, cut := p.pass(b)
		n, err := near.Write(b)
		return n, errors.Join(err, cut)
	}), far)
}

// pass gives what gets through of something that the server said.
func (p *Proxy) pass(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.garbage {
		return []byte("\x00\x01 no protocol of this world \r\n\r\n"), io.ErrClosedPipe
	}
	if p.said += int64(len(b)); p.most >= 0 && p.said > p.most {
		return b[:max(0, int64(len(b))-(p.said-p.most))], io.ErrClosedPipe
	}
	return b, nil
}

// Said gives the bytes that the server said since the last change.
func (p *Proxy) Said() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// Cut cuts every connection when the server has said so many bytes more; each later one at once.
func (p *Proxy) Cut(after int64) { p.set(after, false) }

// Garble answers with garbage in the server's place, and hangs up.
func (p *Proxy) Garble() { p.set(-1, true) }

// Mend lets everything through.
func (p *Proxy) Mend() { p.set(-1, false) }

func (p *Proxy) set(most int64, garbage bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said, p.most, p.garbage = 0, most, garbage
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
